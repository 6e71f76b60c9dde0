"""Consumers that work on several messages at a time, and say how many, have these and little more."""

from __future__ import annotations

import pytest

from tests.simulation.full import workers
from tests.simulation.full.queues import queue_shop
from tests.simulation.full.test_full_fair_work import NEAR, PAIR, TRIANGLE
from tests.simulation.full.workers import Shop

ONE, EIGHT = 1, 8
MIXED = [(router, at_once) for router in "ABC" for at_once in (ONE, EIGHT)]


def staffed(shop: Shop, staff: list[tuple[str, int]], job: float, prefetch: int, says: bool = True) -> None:
    """Workers of a job of so many seconds. `staff`: router, and on how many jobs one works at a time."""
    for router, at_once in staff:
        shop.worker(router, job, prefetch, at_once=at_once, says=says)


def ratio(took: float, staff: list[tuple[str, int]], job: float, count: int) -> float:
    """The time by that of workers who always have as many jobs as they work on."""
    return took * sum(at_once for _, at_once in staff) / job / count


@pytest.mark.parametrize("prefetch", [8, 100])
@pytest.mark.parametrize("job", [0.01, 1.0])
def test_all_have_work_until_the_end(job: float, prefetch: int) -> None:
    shop = Shop("ABC", TRIANGLE)
    staffed(shop, MIXED, job, prefetch)
    assert ratio(shop.burst("A", 1000), MIXED, job, 1000) < 1.15
    assert max(shop.shares[::2]) < 0.4 * min(shop.shares[1::2])


def test_no_one_has_more_than_half_as_many_more_than_it_works_on() -> None:
    """From the first message on: nobody has to find it out."""
    shop = Shop("ABC", TRIANGLE)
    staffed(shop, MIXED, 1.0, 100)
    shop.network.run(1.0)
    sent = shop.start(shop.crowd.client(shop.network.routers["A"]), 300)
    most = [0] * len(MIXED)

    def finished() -> bool:
        most[:] = [max(a, len(worker().open)) for a, worker in zip(most, shop.workers, strict=True)]
        return not (sent.left or sent.under_way)

    shop.network.until(finished, 60.0)
    assert most == [2, 12] * 3


def test_several_senders_do_not_fill_who_is_slow() -> None:
    shop = Shop("ABC", TRIANGLE)
    staffed(shop, MIXED, 1.0, 100)
    shop.network.run(1.0)
    sent = [shop.start(shop.crowd.client(shop.network.routers[name]), 200) for name in "ABC"]
    took = shop.network.until(lambda: not any(one.left or one.under_way for one in sent), 60.0)
    assert ratio(took, MIXED, 1.0, 600) < 1.15


def test_a_router_without_demand_forwards_to_them_as_before() -> None:
    shop = Shop("ABC", TRIANGLE, without_demand="B")
    staffed(shop, MIXED, 0.1, 100)
    assert ratio(shop.burst("A", 1000), MIXED, 0.1, 1000) < 1.3


def test_an_address_says_it_of_its_clients_also_at_an_edge_router() -> None:
    config = f"address {{\n prefix: work\n concurrency: {EIGHT}\n}}\n"
    shop = Shop("AB", PAIR, config, edges={"E": "A"})
    staff = [(router, EIGHT) for router in "ABE"]
    staffed(shop, staff, 0.5, 100, says=False)
    assert ratio(shop.burst("A", 600), staff, 0.5, 600) < 1.2


def test_an_autolink_takes_what_they_work_on() -> None:
    shop, broker = queue_shop("AB", {("A", "B"): NEAR}, "A")
    staff = [("A", ONE), ("A", EIGHT), ("B", EIGHT)]
    staffed(shop, staff, 1.0, 100)
    shop.network.run(2.0)
    broker.fill(300)
    took = shop.network.until(lambda: not (broker.queue or broker.unsettled()), 100.0)
    assert ratio(took, staff, 1.0, 300) < 1.15
    assert broker.most <= 2 + 12 + 12 + 10, "and what waits: as many as are done in a quarter of a second"


def test_one_that_settles_in_batches_nevertheless_is_not_stopped_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its window doubles after a minute, and after two."""
    monkeypatch.setattr(workers, "IDLE_S", 10_000.0)
    shop = Shop("A", {})
    for _ in range(2):
        shop.worker("A", 0.01, 100, batch=20, at_once=4, says=True)
    sent = shop.start(shop.crowd.client(shop.network.routers["A"]), 400)
    assert 115.0 < shop.network.until(lambda: sent.left + len(sent.under_way) <= 360, 200.0) < 125.0
    assert shop.network.until(lambda: sent.left + len(sent.under_way) <= 40, 200.0) < 10.0, "it is known now"
