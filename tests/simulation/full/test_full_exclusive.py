"""The consumer that attached first gets all messages of an address, wherever it is; the next in order follows."""

from __future__ import annotations

import pytest

from tests.simulation.full.clients import Sender, SenderPlan
from tests.simulation.full.ledger import ACCEPTED
from tests.simulation.full.test_full_priorities import LINE, PAIR, TRIANGLE, received, slow_stream
from tests.simulation.full.workers import Shop

CONFIGURED = "\naddress {\n prefix: work\n exclusive: yes\n}\n"


def shop_with(names: str, cables: dict[tuple[str, str], float], workers: str, delay: float = 0.001) -> Shop:
    """Routers with a worker at each of `workers`, attached in this order, at an address that is exclusive."""
    shop = Shop(names, cables, CONFIGURED)
    for router in workers:
        shop.worker(router, delay, 10)
        shop.network.run(0.5)
    return shop


def leave(shop: Shop, number: int) -> None:
    """A worker goes; the mesh has learned of it."""
    shop.workers[number]().client.close()
    shop.network.run(2.0)


def leading(shop: Shop) -> str:
    """The routers that lead."""
    addresses = {name: router.core.addresses.get("M0work") for name, router in shop.network.routers.items()}
    return "".join(n for n, one in addresses.items() if one is not None and one.exclusive and one.exclusive.leads)


@pytest.mark.parametrize("at", "ABC")
@pytest.mark.parametrize("order", ["ABC", "CBA", "BAC"])
def test_the_first_of_three_routers_gets_all(order: str, at: str) -> None:
    shop = shop_with("ABC", TRIANGLE, order)
    slow_stream(shop, at, 40, 0.01)
    assert received(shop) == [40, 0, 0]
    assert leading(shop) == order[0]


def test_a_burst_waits_for_the_first() -> None:
    shop = shop_with("ABC", LINE, "CAB", 0.005)
    shop.burst("A", 200)
    assert shop.shares == [200, 0, 0]


def test_the_next_in_order_takes_over_over_the_whole_mesh() -> None:
    """Several of them are at one router."""
    shop = shop_with("ABC", TRIANGLE, "BCBA")
    for number in range(4):
        slow_stream(shop, "A", 10, 0.01)
        assert received(shop) == [10] * (number + 1) + [0] * (3 - number)
        if number < 3:
            leave(shop, number)
    assert not shop.ledger.violations()


@pytest.mark.parametrize("at", "ABC")
@pytest.mark.parametrize("cables", [LINE, TRIANGLE], ids=["line", "triangle"])
def test_nothing_is_lost_when_the_first_leaves_at_work(at: str, cables: dict[tuple[str, str], float]) -> None:
    shop = shop_with("ABC", cables, "BCB", 0.01)
    sent = shop.start(shop.crowd.client(shop.network.routers[at]), 400)
    shop.network.run(1.0)
    before = received(shop)[0]
    shop.workers[0]().client.close()
    shop.network.until(lambda: not (sent.left or sent.under_way), 60.0)
    assert received(shop)[2] == 0, "the third is not the next in order"
    assert received(shop)[1] >= 400 - before - 40, "what was on its way is released, or was at the first"
    assert not shop.ledger.violations()
    assert not shop.ledger.unexpected


def test_a_killed_router_hands_over() -> None:
    shop = shop_with("ABC", TRIANGLE, "BCA", 0.01)
    sent = shop.start(shop.crowd.client(shop.network.routers["A"]), 400)
    shop.network.run(1.0)
    shop.network.routers["B"].crash()
    assert shop.network.until(lambda: not (sent.left or sent.under_way), 60.0) < 20.0
    assert received(shop)[2] == 0
    assert not shop.ledger.violations()


def test_after_a_partition_the_lower_id_wins() -> None:
    """B attached first, and each half has had a first one."""
    shop = shop_with("AB", PAIR, "BA")
    slow_stream(shop, "A", 10, 0.01)
    assert received(shop) == [10, 0]
    shop.network.cables[0].cut()
    shop.network.run(20.0)
    assert leading(shop) == "AB"
    slow_stream(shop, "A", 10, 0.01)
    slow_stream(shop, "B", 10, 0.01)
    assert received(shop) == [20, 10]
    shop.network.cables[0].mend()
    shop.network.run(30.0)
    assert leading(shop) == "A"
    for at in "AB":
        slow_stream(shop, at, 10, 0.01)
    assert received(shop) == [20, 30]
    assert not shop.ledger.violations()


def test_a_link_property_makes_the_address_exclusive_while_it_is_there() -> None:
    shop = Shop("ABC", TRIANGLE)
    shop.worker("C", 0.001, 10, exclusive=True)
    shop.worker("A", 0.001, 10)
    shop.worker("B", 0.001, 10)
    slow_stream(shop, "A", 20, 0.01)
    assert received(shop) == [20, 0, 0]
    leave(shop, 0)
    for name in "ABC":
        address = shop.network.routers[name].core.addresses["M0work"]
        assert (address.exclusive, address.prioritized, address.ranked) == (None, False, False), name
    shop.workers.pop(0)
    shop.burst("C", 200)
    assert min(shop.shares) >= 50


def test_priorities_have_no_effect() -> None:
    shop = shop_with("AB", PAIR, "A")
    shop.worker("B", 0.001, 10, priority=9)
    slow_stream(shop, "B", 20, 0.01)
    assert received(shop) == [20, 0]


def test_routers_that_do_not_know_it_come_last() -> None:
    shop = Shop("ABC", TRIANGLE, CONFIGURED, without_demand="C")
    shop.worker("C", 0.001, 10)
    shop.worker("B", 0.001, 10)
    slow_stream(shop, "A", 20, 0.01)
    assert received(shop) == [0, 20]
    leave(shop, 1)
    slow_stream(shop, "A", 20, 0.01)
    assert received(shop) == [20, 20]


def test_pre_settled_messages_go_to_the_first_too() -> None:
    shop = shop_with("ABC", LINE, "CAB")
    shop.network.run(1.0)
    client = shop.crowd.client(shop.network.routers["A"])
    place = client.sender("work", SenderPlan(20, settled=1.0, pace=0.01))
    shop.network.run(0.01)
    sent: Sender = place()
    shop.network.until(lambda: not sent.left, 60.0)
    shop.network.run(2.0)
    assert received(shop) == [20, 0, 0]
    assert ACCEPTED not in {code for one in shop.ledger.sent for code in one.outcomes}
