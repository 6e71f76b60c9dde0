"""Work in the queue of a broker stays there until a consumer in the mesh is ready for it."""

from __future__ import annotations

import pytest

from tests.simulation.full.queues import WAYPOINT, WorkBroker, queue_shop
from tests.simulation.full.workers import Shop

NEAR = 0.0005
PAIR = {("A", "B"): NEAR}
TRIANGLE = {**PAIR, ("B", "C"): NEAR, ("A", "C"): NEAR}
Worker = tuple[str, float]


def worked(shop: Shop, broker: WorkBroker, workers: list[Worker], prefetch: int, count: int) -> float:
    """Have all that work done; the time by that of workers who always have some. `broker.most`: most deliveries that
    were taken from the queue and not settled."""
    for router, job in workers:
        shop.worker(router, job, prefetch)
    shop.network.run(2.0)
    broker.fill(count)
    took = shop.network.until(lambda: not (broker.queue or broker.unsettled()), 4000.0)
    received = [len(sent.receipts) for sent in shop.ledger.sent]
    assert received == [1] * count
    return took * sum(1 / job for _, job in workers) / count


def test_another_mesh_at_the_queue_gets_work() -> None:
    """One with two workers took 250 of 300 messages, and ten workers of the other one were idle."""
    shop, broker = queue_shop("AB", {}, "AB")
    assert worked(shop, broker, [("A", 1.0)] * 2 + [("B", 1.0)] * 10, 1, 300) < 1.2
    assert broker.most <= 12 + 2 * 6


@pytest.mark.parametrize("served", ["A", "ABC"])
def test_routers_take_little_more_than_their_workers_are_ready_for(served: str) -> None:
    """A worker has one in work, and one that its router told others to be ready for."""
    shop, broker = queue_shop("ABC", TRIANGLE, served)
    workers = [(router, 1.0) for router in "ABC" * 4]
    assert worked(shop, broker, workers, 1, 150) < 1.25
    assert broker.most <= 36 + 4 * len(served), "before: 250 for each router"


def test_waypoints_take_little_too() -> None:
    """Routers tell nothing of the consumers behind a queue: what goes to others follows from the measured windows."""
    shop, broker = queue_shop("ABC", TRIANGLE, "ABC", autolink=WAYPOINT)
    assert worked(shop, broker, [(router, 1.0) for router in "ABC" * 4], 1, 150) < 1.25
    assert broker.most <= 100


def test_workers_of_an_edge_router_and_behind_one() -> None:
    shop, broker = queue_shop("A", {}, "E", edges={"E": "A"})
    assert worked(shop, broker, [("A", 1.0), ("E", 1.0)] * 3, 1, 60) < 1.4
    assert broker.most <= 30


def test_workers_of_another_router_are_asked_though_there_is_no_choice() -> None:
    shop, broker = queue_shop("AB", PAIR, "A")
    assert worked(shop, broker, [("B", 1.0)] * 5, 1, 60) < 1.25
    assert broker.most <= 18


@pytest.mark.parametrize(("served", "workers"), [("A", "A"), ("A", "B"), ("AB", "AB")])
def test_short_jobs_lose_nothing(served: str, workers: str) -> None:
    """The look-ahead hides the round trip to the broker, which takes as long as a job."""
    shop, broker = queue_shop("AB", PAIR, served, latency=0.005)
    assert worked(shop, broker, [(router, 0.01) for router in workers * (10 // len(workers))], 2, 3000) < 1.1


def test_a_lone_message_needs_no_further_round_trip() -> None:
    latency = 0.05
    shop, broker = queue_shop("A", {}, "A", latency=latency)
    shop.worker("A", 0.01, 1)
    shop.network.run(2.0)
    for _ in range(3):
        before = shop.workers[0]().received
        broker.fill(1)
        assert shop.network.until(lambda: shop.workers[0]().received > before, 1.0) < 1.5 * latency  # noqa: B023
        shop.network.run(1.0)


def test_a_burst_finds_credit_for_all_idle_workers() -> None:
    latency = 0.05
    shop, broker = queue_shop("A", {}, "A", latency=latency)
    for _ in range(10):
        shop.worker("A", 5.0, 1)
    shop.network.run(2.0)
    broker.fill(30)
    assert shop.network.until(lambda: all(worker().received for worker in shop.workers), 1.0) < 1.5 * latency


def test_idle_workers_elsewhere_get_what_a_router_with_busy_ones_has_taken() -> None:
    """Both routers are served; the workers of B are ten times faster."""
    shop, broker = queue_shop("AB", PAIR, "AB")
    assert worked(shop, broker, [("A", 5.0)] * 3 + [("B", 0.5)] * 3, 1, 120) < 1.4


def test_long_and_large_prefetches_take_no_more_than_their_credit() -> None:
    shop, broker = queue_shop("A", {}, "A")
    worked(shop, broker, [("A", 1.0)] * 3, 5, 60)
    assert broker.most <= 3 * 5 + 2
