"""Waiting deliveries stay within the budget; nothing is lost, and all senders continue when there is room."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.budget import waiting_deliveries
from tests.simulation.full.chaos import ADDRESSES, Chaos, Weather
from tests.simulation.full.clients import Client, Crowd, ReceiverPlan, SenderPlan
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Network
from tests.simulation.full.oracle import faults, leftovers, random_network

MIB = 1 << 20
FRAME = 16384
WINDOW = 64
"""Frames of a session's window here."""
IN_FLIGHT = WINDOW * FRAME
SIZE = 30_000.0
"""Mean bytes of a message; longer ones than 256 KiB, which wait in parts anyway, are very rare."""


class Place:
    """One router with small budgets and its clients."""

    def __init__(self, router: int, connection: int, link: int) -> None:
        self.network = Network()
        self.router = self.network.router("A")
        self.network.start()
        self.router.router.listeners["clients"]["maxSessionFrames"] = WINDOW
        self.budget = self.router.core.budget
        self.budget.set_limits(router, connection, link)
        self.ledger = Ledger(self.network)
        self.crowd = Crowd(self.network, self.ledger)

    def receiver(self, address: str, credit: int = 0) -> Any:
        found = self.crowd.client(self.router).receiver(address, ReceiverPlan(credit=credit, faithful=1.0))
        self.network.run(0.1)
        return found()

    def senders(self, address: str, number: int, settled: float = 0.0) -> list[Client]:
        clients = [self.crowd.client(self.router) for _ in range(number)]
        for client in clients:
            client.sender(address, SenderPlan(100, settled=settled, size=SIZE))
        return clients

    def give_credit(self, receiver: Any, credit: int) -> None:
        receiver.capacity = credit
        receiver.grant()
        self.crowd.wake()

    def finish(self) -> None:
        """Everybody has sent all, and the router has nothing any more."""
        clients = list(self.crowd.clients.values())
        self.network.until(lambda: all(client.idle for client in clients), 600.0, 1.0)
        self.network.run(1.0)
        assert self.ledger.violations(faultless=True) == []
        assert self.budget.kept == 0
        assert not self.budget.braked
        for conn in self.router.core.connections.values():
            assert [session.holds for session in conn.sessions.values()] == [0]


@pytest.mark.parametrize("settled", [0.0, 1.0, 0.5])
def test_links_keep_to_their_budget_and_go_on(settled: float) -> None:
    place = Place(1 << 40, 1 << 40, MIB)
    receiver = place.receiver("orders")
    place.senders("orders", 5, settled)
    place.network.run(10.0)
    kept = [lk.kept for lk in place.router.core.links.values() if lk.kept]
    assert len(kept) == 5
    assert all(MIB < each <= MIB + IN_FLIGHT for each in kept)
    assert len(place.budget.braked) == 5
    place.give_credit(receiver, 3)
    place.finish()


def test_connections_keep_to_their_budget() -> None:
    place = Place(1 << 40, 2 * MIB, 1 << 40)
    receiver = place.receiver("orders")
    client = place.crowd.client(place.router)
    for _ in range(4):
        client.sender("orders", SenderPlan(80, settled=0.0, size=SIZE))
    place.network.run(10.0)
    assert 2 * MIB < place.budget.kept <= 2 * MIB + IN_FLIGHT
    place.give_credit(receiver, 1)
    place.finish()


def test_all_senders_together_keep_to_the_routers_budget() -> None:
    place = Place(4 * MIB, 1 << 40, 1 << 40)
    receiver = place.receiver("orders")
    place.senders("orders", 8)
    place.network.run(10.0)
    assert 4 * MIB < place.budget.kept <= 4 * MIB + 8 * IN_FLIGHT
    place.give_credit(receiver, 50)
    place.finish()


def test_others_pass_where_somebody_has_used_up_the_routers_budget() -> None:
    place = Place(4 * MIB, 1 << 40, 1 << 40)
    stuck = place.receiver("nobody-takes")
    place.senders("nobody-takes", 3)
    place.network.run(10.0)
    assert place.budget.kept > 4 * MIB
    place.receiver("orders", 1)
    client = place.crowd.client(place.router)
    client.sender("orders", SenderPlan(50, settled=0.0, size=1000.0))
    client.sender("orders", SenderPlan(80, settled=0.0, size=SIZE))
    place.network.until(lambda: bool(client.links) and client.idle, 60.0, 0.5)
    place.give_credit(stuck, 5)
    place.finish()


def test_copies_for_many_consumers_count_once() -> None:
    place = Place(1 << 40, 1 << 40, 1 << 40)
    place.router.router.agent.configure("address", {"prefix": "news", "distribution": "multicast"})
    receivers = [place.receiver("news") for _ in range(4)]
    client = place.crowd.client(place.router)
    client.sender("news", SenderPlan(10, multicast=True, settled=0.0, size=1000.0))
    place.network.run(5.0)
    once = place.budget.kept
    sizes = [lk.kept for lk in place.router.core.links.values() if lk.kept]
    assert sizes == [once]
    assert once < 4 * 10 * 1000
    for receiver in receivers:
        place.give_credit(receiver, 10)
    place.finish()


def test_what_waits_for_a_consumer_that_leaves_is_no_longer_counted() -> None:
    place = Place(4 * MIB, 1 << 40, 1 << 40)
    place.receiver("orders")
    place.senders("orders", 5)
    place.network.run(10.0)
    assert place.budget.kept > 0
    for client in list(place.crowd.clients.values()):
        client.kill()
    place.network.run(5.0)
    assert place.budget.kept == 0
    assert not place.budget.braked


def test_large_messages_of_one_session_do_not_wait_for_each_other() -> None:
    """Two senders of a session, one consumer with credit for one message: all get through."""
    place = Place(1 << 40, 1 << 40, MIB // 2)
    receiver = place.receiver("orders", 1)
    client = place.crowd.client(place.router)
    for _ in range(3):
        client.sender("orders", SenderPlan(6, settled=0.0, size=10 * SIZE))
    place.network.run(10.0)
    assert receiver.received > 0
    place.finish()


class Watched:
    """Looks at the budgets of all routers every 10 ms: the bytes that are counted are those that wait."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.held = 0
        self._look()

    def _look(self) -> None:
        for router in self.network.routers.values():
            if router.alive:
                self._look_at(router.core)
        self.network.after(0.01, self._look)

    def _look_at(self, core: Any) -> None:
        budget = core.budget
        assert budget.kept == sum(q.kept for q in waiting_deliveries(core) if q.link is not None)
        self.held = max(self.held, len(budget.braked))
        for link in budget.braked:
            assert link.session.holds > 0


@pytest.mark.parametrize("seed", range(3))
def test_budgets_count_right_while_clients_come_and_go(seed: int) -> None:
    network = random_network(seed, 3, 1, ADDRESSES)
    network.start()
    network.until(lambda: not faults(network), 30.0, 0.05)
    for router in network.routers.values():
        router.core.budget.set_limits(400_000, 300_000, 100_000)
    watched = Watched(network)
    chaos = Chaos(network, seed, size=SIZE)
    chaos.populate(receivers=1, senders=0, count=0)
    network.run(0.1)
    chaos.populate(receivers=0, senders=2, count=60)
    chaos.storm(Weather(cut=1, drop=1, client=30), 1.5)
    chaos.calm_down()
    network.run(1.0)
    assert not chaos.violations()
    assert chaos.ledger.open() == 0
    assert watched.held > 0
    chaos.all_leave()
    network.run(2.0)
    assert not leftovers(network)
