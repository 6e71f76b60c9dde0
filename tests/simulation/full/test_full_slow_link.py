"""Routers connected by a slow link under load keep each other as neighbours, and lose nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.simulation.full.clients import Crowd, ReceiverPlan, Sender, SenderPlan
from tests.simulation.full.ledger import ACCEPTED, Ledger
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults

MODEM = 64_000 / 8
UNSENT = 16384
"""What the kernel holds of a connection to another router."""


class SlowPair:
    """Clients send at A to receivers at B over a link of `rate` bytes a second."""

    def __init__(self, rate: float, latency: float) -> None:
        self.network = Network()
        for name in "AB":
            self.network.router(name)
        self.cable = self.network.cable("A", "B", latency=latency)
        self.cable.rate, self.cable.limit = rate, UNSENT
        self.network.start()
        self.network.until(lambda: not faults(self.network), 30.0, 0.1)
        self.ledger = Ledger(self.network)
        self.crowd = Crowd(self.network, self.ledger)
        self.started = self.network.now

    def load(self, count: int, size: float, senders: int = 3) -> list[Sender]:
        """Senders of so many messages each, as fast as they are let; one receiver."""
        receiver = self.crowd.client(self.network.routers["B"])
        receiver.receiver("orders", ReceiverPlan(credit=50, faithful=1.0))
        self.network.until(lambda: "M0orders" in self.network.routers["A"].core.addresses, 30.0, 0.1)
        places = []
        for _ in range(senders):
            client = self.crowd.client(self.network.routers["A"])
            places.append(client.sender("orders", SenderPlan(count, settled=0.0, size=size)))
        self.network.run(1.0)
        return [place() for place in places]

    def losses(self) -> list[str]:
        """What the routers logged of neighbours that went away."""
        lines = [line for router in self.network.routers.values() for line in router.lines]
        return [text for when, _, _, text in lines if when >= self.started and "dropped" in text]


@pytest.mark.parametrize("size", [1000.0, 200_000.0])
def test_a_live_neighbour_is_never_lost(size: float) -> None:
    pair = SlowPair(MODEM, 0.4)
    pair.load(2000 if size < 10_000 else 10, size)
    pair.network.run(180.0)
    assert pair.losses() == []
    assert not faults(pair.network)
    [conn] = [c for c in pair.network.routers["B"].core.connections.values() if c.role == "inter-router"]
    assert conn.octets_in > 0.8 * MODEM * 180  # it was busy all the time
    assert {code for sent in pair.ledger.sent for code in sent.outcomes} == {ACCEPTED}
    assert pair.ledger.unexpected == []


def test_hellos_come_in_time_for_neighbours_that_count_nothing_else() -> None:
    """As the C router does: it drops who sends no HELLO for 3 s."""
    pair = SlowPair(MODEM, 0.4)
    pair.load(10, 200_000.0)
    mesh = pair.network.routers["B"].router.mesh
    heard: list[float] = []
    take = mesh.control_message

    def note(connection: Any, message: bytes) -> None:
        if b"HELLO" in message:
            heard.append(pair.network.now)
        take(connection, message)

    mesh.control_message = note
    pair.network.run(120.0)
    assert len(heard) > 60
    assert max(after - before for before, after in pairwise(heard)) < 3.0


def test_control_messages_overtake_data() -> None:
    """A new address is known on the other side in seconds, though minutes of data wait for the link."""
    pair = SlowPair(MODEM, 0.05)
    pair.load(10, 200_000.0)
    pair.network.run(20.0)
    newcomer = pair.crowd.client(pair.network.routers["A"])
    newcomer.receiver("news", ReceiverPlan())
    there = pair.network.routers["B"].core.addresses
    assert pair.network.until(lambda: "M0news" in there, 60.0, 0.1) < 10.0


def test_a_neighbour_that_falls_silent_under_load_is_lost_in_time() -> None:
    pair = SlowPair(MODEM, 0.05)
    pair.load(10, 200_000.0)
    pair.network.run(20.0)
    pair.cable.silence()
    took = pair.network.until(lambda: not pair.network.routers["B"].core.nodes, 10.0, 0.05)
    assert 2.5 < took < 4.0
