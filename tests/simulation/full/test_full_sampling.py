"""Delays that routers report: times of deliveries, links without credit, delayed and stuck deliveries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.clients import Crowd, ReceiverPlan, SenderPlan
from tests.simulation.full.ledger import Ledger
from tests.simulation.full.network import Network, SimRouter
from waymesh_router.core import link_health, unsettled


def alone() -> tuple[Network, SimRouter, Crowd]:
    network = Network()
    router = network.router("A")
    network.start()
    return network, router, Crowd(network, Ledger(network))


def rows(router: SimRouter, kind: str) -> list[dict[str, Any]]:
    adapter = router.router.agent.adapters[kind]
    return list(adapter.rows(router.world.now))


def link_row(router: SimRouter, direction: str) -> dict[str, Any]:
    return next(row for row in rows(router, "router.link") if row["linkDir"] == direction)


def test_when_the_last_delivery_was() -> None:
    network, router, crowd = alone()
    crowd.client(router).receiver("q", ReceiverPlan(faithful=1.0))
    idle = crowd.client(router)
    idle.receiver("other", ReceiverPlan())
    crowd.client(router).sender("q", SenderPlan(10))
    network.run(30.0)
    busy, quiet, sending = rows(router, "connection")
    assert 27 <= busy["lastDlvSeconds"] <= 30
    assert 27 <= sending["lastDlvSeconds"] <= 30
    assert quiet["lastDlvSeconds"] is None


def test_links_without_credit() -> None:
    network, router, crowd = alone()
    consumer = crowd.client(router)
    consumer.receiver("q", ReceiverPlan(credit=2, delay=1000.0))
    sender = crowd.client(router).sender("q", SenderPlan(10, settled=0.0))
    network.run(8.0)
    assert link_row(router, "out")["creditAvailable"] == 0
    assert 6 <= link_row(router, "out")["zeroCreditSeconds"] <= 8
    assert rows(router, "router")[0]["linksBlocked"] == 0
    network.run(6.0)
    assert rows(router, "router")[0]["linksBlocked"] == 1
    consumer.close()
    network.run(2.0)
    assert rows(router, "router")[0]["linksBlocked"] == 0
    assert not sender().under_way


@pytest.mark.parametrize("budget", [20, 2000])
def test_how_many_deliveries_are_settled_a_second(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_health, "BUDGET", budget)
    network, router, crowd = alone()
    crowd.client(router).receiver("q", ReceiverPlan(delay=0.001))
    crowd.client(router).receiver("idle", ReceiverPlan())
    crowd.client(router).sender("q", SenderPlan(1000, pace=0.02))

    def rates() -> list[int]:
        return sorted(row["settleRate"] for row in rows(router, "router.link"))

    network.run(10.0)
    idle, consuming, sending = rates()
    assert 40 <= consuming == sending <= 60
    assert idle == 0
    network.run(25.0)
    assert rates() == [0, 0, 0]


@pytest.mark.parametrize("budget", [20, 2000])
def test_delayed_and_stuck_deliveries(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_health, "BUDGET", budget)
    network, router, crowd = alone()
    crowd.client(router).receiver("fast", ReceiverPlan(delay=0.001, faithful=1.0))
    slow = crowd.client(router)
    keeper = slow.receiver("slow", ReceiverPlan(credit=20, delay=1e9, faithful=1.0))
    client = crowd.client(router)
    client.sender("fast", SenderPlan(2000, settled=0.0, pace=0.005))
    client.sender("slow", SenderPlan(10, settled=0.0))
    network.run(5.0)

    def counts(row: dict[str, Any]) -> tuple[int, int, int]:
        return row["deliveriesDelayed1Sec"], row["deliveriesDelayed10Sec"], row["deliveriesStuck"]

    def answer(number: int) -> None:
        for did in list(keeper().open)[:number]:
            keeper().open.pop(did)
            keeper().session.settle(did, b"\x00\x53\x24\x45")
            keeper().return_credit()
        crowd.wake()

    answer(4)
    network.run(3.0)
    assert counts(rows(router, "router")[0]) == (4, 0, 0)
    network.run(10.0)
    assert counts(rows(router, "router")[0]) == (4, 0, 12)
    answer(5)
    network.run(3.0)
    assert counts(rows(router, "router")[0]) == (4, 5, 2)
    by_link = sorted(counts(row) for row in rows(router, "router.link"))
    assert by_link == [(0, 0, 0), (0, 0, 0), (4, 5, 1), (4, 5, 1)]
    slow.close()
    network.run(3.0)
    assert counts(rows(router, "router")[0]) == (4, 6, 0), "the last one ended modified"
    for each in list(crowd.clients.values()):
        each.close()
    network.run(5.0)
    assert not router.router.sampler._links
    assert not router.router.sampler._rings


def test_with_much_to_count_the_last_round_is_told_and_nothing_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    network, router, crowd = alone()
    keeping = crowd.client(router).receiver("q", ReceiverPlan(credit=8, delay=1e9, faithful=1.0))
    crowd.client(router).sender("q", SenderPlan(20, settled=0.0))
    crowd.client(router).sender("nobody", SenderPlan(3, settled=0.0))
    network.run(20.0)
    assert len(keeping().open) == 8
    exact = rows(router, "router")[0]
    assert (exact["unsettledDeliveries"], exact["linksBlocked"]) == (20, 1)

    monkeypatch.setattr("waymesh_router.core.unsettled.MUCH", 10)
    monkeypatch.setattr("waymesh_router.management.statistics.MANY_LINKS", 1)
    monkeypatch.setattr("waymesh_router.clients.drain.count_unsettled", None)
    monkeypatch.setattr("waymesh_router.management.statistics.is_blocked", None)
    sampled = rows(router, "router")[0]
    assert (sampled["unsettledDeliveries"], sampled["linksBlocked"]) == (20, 1)


def test_a_round_looks_at_no_more_than_its_budget_in_one_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session with many deliveries is looked at in slices, too."""
    network, router, crowd = alone()
    crowd.client(router).receiver("q", ReceiverPlan(credit=200, delay=1e9, faithful=1.0))
    crowd.client(router).sender("q", SenderPlan(200, settled=0.0))
    network.run(5.0)
    monkeypatch.setattr(link_health, "BUDGET", 30)
    looked: list[int] = []
    counted = unsettled.of_client

    def counting(delivery: Any, incoming: bool) -> bool:
        looked[-1] += 1
        return counted(delivery, incoming)

    monkeypatch.setattr(link_health, "of_client", counting)
    sampler = router.router.sampler
    for second in range(100, 130):
        looked.append(0)
        sampler.tick(router.world.now + second)
    assert max(looked) == 30
    assert sum(looked) >= 400
    assert sampler.clients == 200


def test_the_slices_of_a_round_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much there is to examine: in one turn of the loop a slice, then a pause in which nothing is examined."""
    network, router, crowd = alone()
    for _ in range(40):
        crowd.client(router).receiver("q", ReceiverPlan())
    network.run(3.0)
    sampler = router.router.sampler
    monkeypatch.setattr(link_health, "BUDGET", 10_000)
    begun = now = sampler.tick(router.world.now + 100)  # the round that was under way is over
    monkeypatch.setattr(link_health, "BUDGET", 30)
    looked: list[float] = []
    counted = unsettled.presettled_on

    def counting(link: Any) -> int:
        looked.append(now)
        return counted(link)

    monkeypatch.setattr(link_health, "presettled_on", counting)
    due = sampler.tick(now)
    assert due == begun + link_health.PAUSE_S
    first = len(looked)
    assert 0 < first <= 30
    assert sampler.tick(begun) == due
    assert len(looked) == first, "not due yet"
    while due < begun + link_health.EVERY_S:
        now = due
        due = sampler.tick(now)
    assert due == begun + link_health.EVERY_S
    assert len(looked) == 40, "all of them, and none twice"
    assert max(looked.count(at) for at in looked) <= 30


def test_what_ends_during_a_round_is_not_kept_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network, router, crowd = alone()
    clients = [crowd.client(router) for _ in range(5)]
    for client in clients:
        client.receiver("q", ReceiverPlan())
    network.run(3.0)
    sampler = router.router.sampler
    monkeypatch.setattr(link_health, "BUDGET", 10_000)
    begun = sampler.tick(router.world.now + 100)
    monkeypatch.setattr(link_health, "BUDGET", 1)
    due = sampler.tick(begun)
    for client in clients[1:]:
        client.close()
    network.run(0.01)
    assert len(router.router.core.connections) == 1
    examined: list[Any] = []

    def examine(link: Any) -> int:
        examined.append(link)
        return 0

    monkeypatch.setattr(link_health, "presettled_on", examine)
    while due < begun + link_health.EVERY_S:
        due = sampler.tick(due)
    assert len(examined) == 1
