"""Deliveries that are settled late or not at all count at every link of their way over three routers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.full.test_full_known_workload import Workload

SLOW = ("deliveriesDelayed1Sec", "deliveriesDelayed10Sec", "deliveriesStuck")


@pytest.fixture(scope="module")
def done() -> Workload:
    """Over A – B – C: 2 deliveries settled after 4 s, 3 after 14 s, 4 not settled for 18 s; 5 settled at once."""
    work = Workload()
    orders = work.receiver("C", "orders")
    work.send("A", work.sender("A", "orders"), 14)
    party, _ = work.sessions["C"]
    left = iter(orders.got)
    for count, pause in ((5, 4.0), (2, 10.0), (3, 4.0)):
        for _ in range(count):
            party.settle(next(left))
        work.network.run(pause)
    return work


def slow(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in SLOW)


@pytest.mark.parametrize("router", "ABC")
def test_each_link_of_the_way_counts_them(done: Workload, router: str) -> None:
    rows = done.rows(router, "router.link")
    assert [slow(row) for row in rows if any(slow(row))] == [(2, 3, 4)] * 2, "the one it comes in on, and out on"


@pytest.mark.parametrize(("router", "counts"), [("A", (2, 3, 4)), ("B", (0, 0, 0)), ("C", (0, 0, 4))])
def test_the_router_counts_those_of_its_clients(
    done: Workload, router: str, counts: tuple[int, ...]
) -> None:
    (row,) = done.rows(router, "router")
    assert slow(row) == counts
