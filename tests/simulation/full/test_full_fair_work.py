"""Work of balanced addresses goes to workers that are free, wherever they are, and waits where it came in else."""

from __future__ import annotations

import pytest

from tests.simulation.full.workers import Shop

NEAR = 0.0005
PAIR = {("A", "B"): NEAR}
LINE = {**PAIR, ("B", "C"): NEAR}
TRIANGLE = {**LINE, ("A", "C"): NEAR}


def done(shop: Shop, workers: list[tuple[str, float]], prefetch: int, count: int, batch: int = 1) -> float:
    """Have a burst of work done; the time by that of workers who always have some."""
    for router, job in workers:
        shop.worker(router, job, prefetch, batch=batch)
    took = shop.burst("A", count)
    return took * sum(1 / job for _, job in workers) / count


def test_fast_workers_here_do_more_than_slow_ones_elsewhere() -> None:
    shop = Shop("AB", PAIR)
    ratio = done(shop, [("A", 0.005), ("A", 0.005), ("B", 0.05), ("B", 0.05)], 10, 2000)
    assert sum(shop.shares[:2]) >= 0.8 * 2000
    assert ratio < 1.5


def test_fast_workers_elsewhere_do_more_than_slow_ones_here() -> None:
    shop = Shop("AB", PAIR)
    ratio = done(shop, [("A", 0.05), ("A", 0.05), ("B", 0.005), ("B", 0.005)], 10, 2000)
    assert sum(shop.shares[2:]) >= 0.8 * 2000
    assert ratio < 1.5


def test_a_worker_here_and_one_elsewhere_do_half_each() -> None:
    shop = Shop("AB", PAIR)
    ratio = done(shop, [("A", 0.005), ("B", 0.005)], 1, 200)
    assert min(shop.shares) >= 80
    assert ratio < 1.5


def test_equal_workers_in_a_triangle_do_a_third_each() -> None:
    shop = Shop("ABC", TRIANGLE)
    ratio = done(shop, [("A", 0.005), ("B", 0.005), ("C", 0.005)], 1, 1000)
    assert min(shop.shares) >= 270
    assert ratio < 1.5


def test_the_slowest_of_a_line_does_the_least() -> None:
    shop = Shop("ABC", LINE)
    ratio = done(shop, [("A", 0.005), ("B", 0.008), ("C", 0.014)], 20, 600)
    assert shop.shares[0] > shop.shares[1] > shop.shares[2] >= 60
    assert ratio < 1.5


def test_workers_of_two_other_routers() -> None:
    shop = Shop("ABC", TRIANGLE)
    ratio = done(shop, [("B", 0.005), ("B", 0.005), ("C", 0.05), ("C", 0.05)], 10, 2000)
    assert sum(shop.shares[:2]) >= 0.8 * 2000
    assert ratio < 1.5


def test_many_workers_of_other_routers_all_have_work() -> None:
    shop = Shop("ABC", TRIANGLE)
    assert done(shop, [("BC"[number % 2], 0.02) for number in range(20)], 5, 4000) < 1.5
    assert min(shop.shares) >= 150


@pytest.mark.parametrize("workers", ["BC", "ABC", "BBBCCC"])
def test_workers_that_settle_in_batches_are_not_stopped(workers: str) -> None:
    """Elsewhere, windows are too small for a batch at first: they grow while nothing is settled."""
    shop = Shop("ABC", TRIANGLE)
    done(shop, [(router, 0.005) for router in workers], 20, 1000, 10)
    before = len(shop.ledger.sent)
    assert shop.burst("A", 20 * len(workers)) < 40.0, "30 s are for batches that are not complete"
    assert len(shop.ledger.sent) == before + 20 * len(workers)


@pytest.mark.parametrize(("batch", "stall"), [(10, 1.0), (100, 4.5)])
def test_the_first_batch_elsewhere_comes_soon_and_the_next_at_once(batch: int, stall: float) -> None:
    """Of 10: after the window has doubled twice, of 100: five times."""
    shop = Shop("ABC", TRIANGLE)
    for router in "BC":
        shop.worker(router, 0.005, 2 * batch, batch=batch)
    sent = shop.start(shop.crowd.client(shop.network.routers["A"]), 30 * batch)

    def left() -> int:
        return sent.left + len(sent.under_way)

    assert shop.network.until(lambda: left() <= 29 * batch, 60.0) < stall + 0.005 * batch
    assert shop.network.until(lambda: left() <= 4 * batch, 60.0) < 25 * batch * 0.005 / 2 * 1.2


@pytest.mark.parametrize("workers", [1, 3])
def test_a_lone_message_needs_no_further_round_trip(workers: int) -> None:
    """There is credit for it before it comes, also after bursts: it takes the way to the worker and back, once."""
    way = 0.3
    shop = Shop("AB", {("A", "B"): way})
    for _ in range(workers):
        shop.worker("B", 0.005, 1)
    once = 2 * way + 1.5 * 0.005 + 0.01
    assert shop.burst("A", 1) <= once
    shop.burst("A", 50)
    for _ in range(3):
        assert shop.burst("A", 1) <= once
    shop.network.run(60.0)
    assert shop.burst("A", 1) <= once


def test_a_worker_that_stops_does_not_stop_the_work() -> None:
    """What it holds waits for it, all else is done by the other one."""
    shop = Shop("AB", PAIR)
    shop.worker("A", 0.005, 1)
    shop.worker("B", 0.005, 1)
    shop.burst("A", 200)
    shop.workers[1]().plan = shop.workers[1]().plan.__class__(1, 40.0, 1.0)
    shop.burst("A", 200)
    assert shop.shares[1] <= 20


def test_a_router_that_is_lost_gives_its_work_back() -> None:
    shop = Shop("ABC", TRIANGLE)
    for router in "BC":
        shop.worker(router, 0.02, 5)
    client = shop.crowd.client(shop.network.routers["A"])
    sent = shop.start(client, 400)
    shop.network.run(0.5)
    shop.network.routers["C"].crash()
    shop.network.until(lambda: not (sent.left or sent.under_way), 60.0)
    target = shop.network.routers["A"].core.addresses["M0work"].targets
    assert set(target) == {"B"}
    assert target["B"].outstanding == 0
    assert not shop.ledger.violations()


HUNGRY = [("B", 0.02, 10), ("B", 0.05, 10), ("C", 0.02, 10), ("C", 0.05, 10)]
"""Router, job and prefetch of workers for which two ingress routers wait."""
SQUARE = {**TRIANGLE, ("D", "A"): NEAR, ("D", "B"): NEAR, ("D", "C"): NEAR}


@pytest.mark.parametrize("lost", ["A", "C"])
def test_a_router_that_is_lost_with_windows_out_stops_nobody(lost: str) -> None:
    """A and D ask, B and C tell windows. What D has sent is done without the lost router, and nothing twice."""
    shop = Shop("ABCD", SQUARE)
    for router, job, prefetch in HUNGRY:
        shop.worker(router, job, prefetch)
    gone = shop.start(shop.crowd.client(shop.network.routers["A"]), 400)
    rest = shop.start(shop.crowd.client(shop.network.routers["D"]), 400)
    shop.network.run(1.0)
    hungry = shop.network.routers["B"].core.addresses["M0work"]
    assert hungry.hungry
    target = shop.network.routers["D"].core.addresses["M0work"].targets[lost if lost == "C" else "B"]
    assert target.window.announced >= 0.0
    shop.network.routers[lost].crash()
    assert shop.network.until(lambda: not (rest.left or rest.under_way), 120.0) < 20.0
    if lost == "C":  # the other client may need longer
        shop.network.until(lambda: not (gone.left or gone.under_way), 120.0)
    assert not shop.ledger.violations()
    shop.network.until(lambda: not hungry.hungry, 60.0)
    assert hungry.pending is None
