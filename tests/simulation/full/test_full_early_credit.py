"""Copies that wait for one consumer stop neither their sender nor another router; no copy waits for nobody."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import RELEASED, Party, PartyLink
from tests.simulation.full.edges import edge_faults
from tests.simulation.full.network import Network, SimRouter
from tests.simulation.full.oracle import faults
from waymesh_amqp.states import OPENED

NEWS = "address {\nprefix: news\ndistribution: multicast\n}\n"


class Scene:
    """Routers in a line, each with a connection of one client. `edges`: names of edge routers at the first one."""

    def __init__(self, names: str, edges: tuple[str, ...] = (), latency: float = 0.001) -> None:
        network = self.network = Network()
        for name in names:
            network.router(name, NEWS)
        for one, other in pairwise(names):
            network.cable(one, other, latency)
        for name in edges:
            network.edge(name, [names[0]]).extra = NEWS
        network.start()
        network.until(lambda: not faults(network) and not edge_faults(network), 5.0)
        self.party = Party(network, "client")
        self.sessions: dict[str, Any] = {}
        for name, router in (network.routers | network.edges).items():
            self.sessions[name] = self._session(router)

    def _session(self, router: SimRouter) -> Any:
        conn = self.party.dial(router)
        self.network.until(lambda: conn.state == OPENED, 1.0)
        return conn.open_session()

    def receiver(self, router: str, credit: int, name: str = "in") -> PartyLink:
        made = self.party.receiver(self.sessions[router], "news", credit, name=name)
        self.network.run(0.5)
        return made

    def sender(self, router: str, name: str = "out") -> PartyLink:
        made = self.party.sender(self.sessions[router], "news", name=name)
        self.network.until(lambda: made.link.credit > 0, 2.0)
        return made

    def send(self, senders: list[PartyLink], count: int, settled: bool = False) -> int:
        """Send as fast as credit allows, so many at most; how many."""
        sent = 0
        for _ in range(1000):
            for sender in senders:
                while sent < count and sender.link.ready():
                    self.party.send(sender, message(b"x"), settled=settled)
                    sent += 1
            self.network.run(0.0005)
        self.network.run(0.5)
        return sent


@pytest.mark.parametrize(("names", "slow"), [("AB", ""), ("AB", "A"), ("ABC", ""), ("ABC", "A"), ("ABC", "B")])
def test_a_consumer_stops_nothing_whose_copies_had_to_wait_for_a_router(names: str, slow: str) -> None:
    scene = Scene(names, latency=0.01)
    if slow:
        scene.receiver(slow, 0)
    far = scene.receiver(names[-1], 10_000)
    assert scene.send([scene.sender("A")], 2000, settled=True) == 2000
    assert len(far.got) == 2000


def test_no_copy_waits_at_an_edge_router_for_consumers_that_have_gone() -> None:
    scene = Scene("A", ("E",))
    far = scene.receiver("A", 0)
    senders = [scene.sender("E", f"out{number}") for number in range(3)]
    assert scene.send(senders, 600) == 600
    edge = scene.network.edges["E"].core
    assert edge.budget.kept > 0, "more than the interior router takes"
    far.link.detach()
    scene.party.wake()
    scene.network.run(1.0)
    assert edge.budget.kept == 0
    assert [outcome for sender in senders for outcome in sender.outcomes] == [(True, RELEASED)] * 600
