"""Consumers of a higher priority get messages before others, wherever they are, as long as they have room."""

from __future__ import annotations

import pytest

from tests.simulation.full.clients import Sender, SenderPlan
from tests.simulation.full.workers import Shop

NEAR = 0.0005
PAIR = {("A", "B"): NEAR}
LINE = {**PAIR, ("B", "C"): NEAR}
TRIANGLE = {**LINE, ("A", "C"): NEAR}
SQUARE = {**TRIANGLE, ("D", "A"): NEAR, ("D", "B"): NEAR, ("D", "C"): NEAR}


def slow_stream(shop: Shop, router: str, count: int, pace: float) -> Sender:
    """Messages one by one; all have been settled at the end."""
    shop.network.run(1.0)
    client = shop.crowd.client(shop.network.routers[router])
    sender = client.sender("work", SenderPlan(count, settled=0.0, pace=pace))
    shop.network.run(0.01)
    sent: Sender = sender()
    shop.network.until(lambda: not (sent.left or sent.under_way), 600.0)
    return sent


def received(shop: Shop) -> list[int]:
    return [worker().received for worker in shop.workers]


@pytest.mark.parametrize(("here", "there"), [(0, 5), (-3, 0), (2, 3)])
def test_a_higher_priority_elsewhere_gets_all_that_it_has_room_for(here: int, there: int) -> None:
    shop = Shop("AB", PAIR)
    shop.worker("A", 0.001, 10, priority=here)
    shop.worker("B", 0.001, 10, priority=there)
    slow_stream(shop, "A", 100, 0.01)
    assert received(shop) == [0, 100]
    assert not shop.ledger.violations()


@pytest.mark.parametrize(("here", "there"), [(5, 0), (0, -3), (3, 2)])
def test_a_higher_priority_here_gets_all_that_it_has_room_for(here: int, there: int) -> None:
    shop = Shop("AB", PAIR)
    shop.worker("A", 0.001, 10, priority=here)
    shop.worker("B", 0.001, 10, priority=there)
    slow_stream(shop, "A", 100, 0.01)
    assert received(shop) == [100, 0]


def test_what_the_highest_has_no_room_for_goes_to_the_next_ones() -> None:
    """A burst: each has as much as its credit allows at first, and all work until the end."""
    shop = Shop("ABC", TRIANGLE)
    for router, priority in (("A", 0), ("B", 9), ("C", 4)):
        shop.worker(router, 0.02, 10, priority=priority)
    took = shop.burst("A", 300)
    assert took < 300 * 0.02 / 3 * 1.5
    assert min(shop.shares) >= 60
    assert not shop.ledger.violations()


def test_two_routers_that_send_share_the_highest() -> None:
    """Neither sends more than its part, so the next ones work, too."""
    shop = Shop("ABCD", SQUARE)
    shop.worker("C", 0.1, 10, priority=9)
    shop.worker("B", 0.1, 10)
    sent = [shop.start(shop.crowd.client(shop.network.routers[name]), 100) for name in "AD"]
    took = shop.network.until(lambda: not any(one.left or one.under_way for one in sent), 600.0)
    assert took < 200 * 0.1 / 2 * 1.5
    assert min(received(shop)) >= 60
    assert not shop.ledger.violations()


def test_the_first_message_goes_to_the_highest_over_a_router_between() -> None:
    """B has a consumer of its own, and does not choose again."""
    shop = Shop("ABC", LINE)
    for router, priority in (("A", 1), ("B", 2), ("C", 3)):
        shop.worker(router, 0.001, 5, priority=priority)
    slow_stream(shop, "A", 1, 0.01)
    assert received(shop) == [0, 0, 1]


def test_priorities_end_everywhere_with_their_last_consumer() -> None:
    shop = Shop("ABC", TRIANGLE)
    shop.worker("A", 0.001, 10)
    shop.worker("B", 0.001, 10, priority=5)
    shop.worker("C", 0.001, 10)
    slow_stream(shop, "A", 10, 0.01)
    assert received(shop) == [0, 10, 0]
    shop.workers[1]().client.close()
    shop.network.run(1.0)
    for name in "ABC":
        address = shop.network.routers[name].core.addresses["M0work"]
        assert (address.prioritized, address.ranked) == (False, False), name
        assert all(target.ranks is None for target in address.targets.values())
    shop.workers.pop(1)
    shop.burst("A", 200)
    assert min(shop.shares) >= 50


def test_a_router_that_does_not_know_demand_counts_as_priority_0() -> None:
    shop = Shop("ABC", TRIANGLE, without_demand="C")
    shop.worker("B", 0.001, 10, priority=-1)
    shop.worker("C", 0.001, 10, priority=9)
    slow_stream(shop, "A", 50, 0.01)
    assert received(shop) == [0, 50]
    shop.worker("B", 0.001, 10, priority=1)
    slow_stream(shop, "A", 50, 0.01)
    assert received(shop) == [0, 50, 50]


@pytest.mark.parametrize("lost", ["B", "C"])
def test_a_lost_router_gives_its_work_back(lost: str) -> None:
    shop = Shop("ABC", TRIANGLE)
    for router, priority in (("A", 0), ("B", 9), ("C", 4)):
        shop.worker(router, 0.02, 10, priority=priority)
    sent = shop.start(shop.crowd.client(shop.network.routers["A"]), 400)
    shop.network.run(1.0)
    shop.network.routers[lost].crash()
    assert shop.network.until(lambda: not (sent.left or sent.under_way), 60.0) < 20.0
    assert not shop.ledger.violations()
    targets = shop.network.routers["A"].core.addresses["M0work"].targets
    assert all(target.outstanding == 0 for target in targets.values())


def test_after_a_partition_the_highest_gets_all_again() -> None:
    shop = Shop("AB", PAIR)
    shop.worker("A", 0.001, 10)
    shop.worker("B", 0.001, 10, priority=5)
    slow_stream(shop, "A", 20, 0.01)
    shop.network.cables[0].cut()
    shop.network.run(20.0)
    assert not shop.network.routers["A"].core.addresses["M0work"].prioritized
    slow_stream(shop, "A", 20, 0.01)
    assert received(shop) == [20, 20]
    shop.network.cables[0].mend()
    shop.network.run(30.0)
    slow_stream(shop, "A", 20, 0.01)
    assert received(shop) == [20, 40]
    assert not shop.ledger.violations()


@pytest.mark.parametrize("at", ["A", "B"])
def test_consumers_of_an_edge_router_have_priority_0_and_a_window(at: str) -> None:
    """What its slow consumer has no room for goes to the lower priority. `at`: where the messages come in."""
    shop = Shop("AB", PAIR, edges={"E": "A"})
    shop.worker("E", 0.05, 10)
    shop.worker("B", 0.005, 10, priority=-1)
    slow_stream(shop, at, 5, 0.2)
    assert received(shop) == [5, 0]
    shop.burst(at, 300)
    assert shop.shares[0] >= 15
    assert shop.shares[1] >= 200
    assert not shop.ledger.violations()
