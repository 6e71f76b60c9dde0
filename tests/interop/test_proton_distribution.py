"""Balanced, closest and multicast on one, two and four routers. Routing chapter "Routing Patterns"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.interop.shared import fresh, wait_consumers, wait_spread
from tests.kit.clients import Client, Receiver
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def receivers(stack: ExitStack, routers: list[RouterProcess], address: str, credit: int = 100) -> list[Receiver]:
    """A receiver, on a connection of its own, at each of the routers."""
    return [stack.enter_context(Client(router.url)).receiver(address, credit) for router in routers]


def bodies(receiver: Receiver) -> list[Any]:
    """What has arrived; accepted."""
    found = []
    while not receiver.arrived.empty():
        received = receiver.next()
        received.accept()
        found.append(received.body)
    return found


def take(found: list[Receiver], count: int) -> list[int]:
    """How many of `count` deliveries, none of them settled before all have come, each receiver got."""
    wait_until(lambda: sum(receiver.arrived.qsize() for receiver in found) >= count, what="all deliveries")
    return [receiver.arrived.qsize() for receiver in found]


def check_all_once(found: list[Receiver], count: int) -> None:
    """Together the receivers got the numbers below `count`, each once."""
    assert sorted(body for receiver in found for body in bodies(receiver)) == list(range(count))


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_equal_consumers_share_evenly_on_one_router(
    stack: ExitStack, router1: RouterProcess, distribution: str
) -> None:
    address = fresh(distribution)
    found = receivers(stack, [router1] * 3, address)
    sender = stack.enter_context(Client(router1.url)).sender(address)
    sent = sender.send_all(list(range(30)))
    assert take(found, 30) == [10, 10, 10]
    check_all_once(found, 30)
    assert [s.outcome() for s in sent] == ["accepted"] * 30


def test_balanced_prefers_who_settles(stack: ExitStack, router1: RouterProcess) -> None:
    address = fresh("balanced")
    lazy, quick = receivers(stack, [router1] * 2, address)
    sender = stack.enter_context(Client(router1.url)).sender(address)
    sent = sender.send_all([0, 1])
    take([lazy, quick], 2)
    for number in range(2, 12):
        received = quick.next()
        received.accept()
        sent[received.body].outcome()  # now the router knows, before the next message reaches it
        sent.append(sender.send(number))
    quick.next().accept()
    assert lazy.arrived.qsize() == 1


@pytest.mark.parametrize("distribution", ["balanced", "closest"])
def test_consumer_without_credit_is_passed_over(
    stack: ExitStack, router1: RouterProcess, distribution: str
) -> None:
    address = fresh(distribution)
    full, free = receivers(stack, [router1], address, 1)[0], receivers(stack, [router1], address)[0]
    sender = stack.enter_context(Client(router1.url)).sender(address)
    sender.send_all(list(range(20)))
    assert take([full, free], 20) == [1, 19]


def test_balanced_counts_cost_as_unsettled_deliveries(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("balanced")
    local, remote = receivers(stack, [line2["A"], line2["B"]], address)
    wait_spread(line2, address, 1, 1)
    sent = stack.enter_context(Client(line2["A"].url)).sender(address).send_all(list(range(21)))
    counts = take([local, remote], 21)
    assert counts == [11, 10]
    check_all_once([local, remote], 21)
    assert [s.outcome() for s in sent] == ["accepted"] * 21


def test_balanced_uses_the_remote_consumer_when_the_local_one_is_full(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("balanced")
    local = receivers(stack, [line2["A"]], address, 2)[0]
    remote = receivers(stack, [line2["B"]], address)[0]
    wait_spread(line2, address, 1, 1)
    stack.enter_context(Client(line2["A"].url)).sender(address).send_all(list(range(20)))
    assert take([local, remote], 20) == [2, 18]


def test_balanced_reaches_all_consumers_of_a_line(stack: ExitStack, line4: Mesh) -> None:
    address = fresh("balanced")
    found = receivers(stack, line4.routers, address)
    wait_spread(line4, address, 1, 1, 1, 1)
    sent = stack.enter_context(Client(line4["A"].url)).sender(address).send_all(list(range(40)))
    counts = take(found, 40)
    assert counts[0] >= 10
    assert all(counts)
    check_all_once(found, 40)
    assert [s.outcome() for s in sent] == ["accepted"] * 40


def test_balanced_spreads_over_all_of_a_full_mesh(stack: ExitStack, full4: Mesh) -> None:
    address = fresh("balanced")
    found = receivers(stack, full4.routers[1:], address)
    wait_spread(full4, address, 0, 1, 1, 1)
    sent = stack.enter_context(Client(full4["A"].url)).sender(address).send_all(list(range(30)))
    assert take(found, 30) == [10, 10, 10]
    check_all_once(found, 30)
    assert [s.outcome() for s in sent] == ["accepted"] * 30


def test_closest_stays_on_the_router(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("closest")
    local, remote = receivers(stack, [line2["A"], line2["B"]], address)
    wait_spread(line2, address, 1, 1)
    stack.enter_context(Client(line2["A"].url)).sender(address).send_all(list(range(20)))
    assert take([local, remote], 20) == [20, 0]


def test_closest_goes_to_the_nearer_router(stack: ExitStack, line4: Mesh) -> None:
    address = fresh("closest")
    near, far = receivers(stack, [line4["C"], line4["D"]], address)
    wait_spread(line4, address, 0, 0, 1, 1)
    sent = stack.enter_context(Client(line4["A"].url)).sender(address).send_all(list(range(20)))
    assert take([near, far], 20) == [20, 0]
    near.take(20)
    assert [s.outcome() for s in sent] == ["accepted"] * 20


def test_closest_goes_on_to_the_farther_router_when_the_nearer_consumer_leaves(
    stack: ExitStack, line4: Mesh
) -> None:
    address = fresh("closest")
    near, far = receivers(stack, [line4["B"], line4["D"]], address)
    wait_spread(line4, address, 0, 1, 0, 1)
    sender = stack.enter_context(Client(line4["A"].url)).sender(address)
    sender.send("near")
    assert near.next().body == "near"
    near.close()
    wait_spread(line4, address, 0, 0, 0, 1)
    sender.send("far")
    assert far.next().body == "far"


def test_closest_spreads_evenly_over_equal_costs(stack: ExitStack, full4: Mesh) -> None:
    address = fresh("closest")
    found = receivers(stack, full4.routers[1:], address)
    wait_spread(full4, address, 0, 1, 1, 1)
    stack.enter_context(Client(full4["A"].url)).sender(address).send_all(list(range(30)))
    assert take(found, 30) == [10, 10, 10]
    check_all_once(found, 30)


@pytest.mark.parametrize("presettled", [False, True])
def test_multicast_on_one_router(stack: ExitStack, router1: RouterProcess, presettled: bool) -> None:
    address = fresh("multicast")
    found = receivers(stack, [router1] * 4, address)
    sender = stack.enter_context(Client(router1.url)).sender(address, presettled=presettled)
    sent = sender.send_all(list(range(30)))
    for receiver in found:
        assert [received.body for received in receiver.take(30)] == list(range(30))
    if not presettled:
        assert [s.outcome() for s in sent] == ["accepted"] * 30


@pytest.mark.parametrize("presettled", [False, True])
@pytest.mark.parametrize("topology", ["line4", "full4"])
@pytest.mark.parametrize("ingress", ["A", "B"])
def test_multicast_reaches_every_consumer_of_the_mesh_once(
    request: pytest.FixtureRequest, stack: ExitStack, topology: str, ingress: str, presettled: bool
) -> None:
    mesh: Mesh = request.getfixturevalue(topology)
    address = fresh("multicast")
    found = receivers(stack, [mesh["A"], mesh["B"], mesh["D"], mesh["D"]], address)
    wait_spread(mesh, address, 1, 1, 0, 2)
    sender = stack.enter_context(Client(mesh[ingress].url)).sender(address, presettled=presettled)
    sent = sender.send_all(list(range(20)))
    for receiver in found:
        assert [received.body for received in receiver.take(20)] == list(range(20))
    if not presettled:
        assert [s.outcome() for s in sent] == ["accepted"] * 20
    assert all(receiver.arrived.empty() for receiver in found)


def test_multicast_to_remote_consumers_alone(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("multicast")
    found = receivers(stack, [line2["B"]] * 2, address)
    wait_consumers(line2["A"], address, 0, 1)
    sent = stack.enter_context(Client(line2["A"].url)).sender(address).send_all(list(range(10)))
    for receiver in found:
        assert [received.body for received in receiver.take(10)] == list(range(10))
    assert [s.outcome() for s in sent] == ["accepted"] * 10
