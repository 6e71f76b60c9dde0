"""Clients and routers that die: each unsettled delivery gets one outcome, no duplicates, traffic continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import proton
import pytest

from tests.interop.shared import ADDRESSES, fresh, transport_of, wait_consumers
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.outcomes import Sent
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["one", "two", "four"])
def ends(request: pytest.FixtureRequest) -> list[RouterProcess]:
    """The router to send to, and that to receive at."""
    if request.param == "one":
        router: RouterProcess = request.getfixturevalue("router1")
        return [router, router]
    mesh: Mesh = request.getfixturevalue("line2" if request.param == "two" else "line4")
    return [mesh.routers[0], mesh.routers[-1]]


@pytest.mark.parametrize("how", ["abort", "close"])
def test_unsettled_deliveries_of_a_lost_consumer_come_back_modified(
    ends: list[RouterProcess], stack: ExitStack, how: str
) -> None:
    """It may have seen them: delivery-failed. What it had settled stays settled."""
    address = fresh()
    consumer = stack.enter_context(Client(ends[1].url))
    receiver = consumer.receiver(address, 20)
    sent = stack.enter_context(Client(ends[0].url)).sender(address).send_all(list(range(20)))
    received = [receiver.next() for _ in range(20)]
    for delivery in received[:5]:
        delivery.accept()
    assert [s.outcome() for s in sent[:5]] == ["accepted"] * 5
    getattr(consumer, how)()
    assert [s.outcome() for s in sent[5:]] == ["modified"] * 15
    assert all(s.failed for s in sent[5:])


def test_deliveries_that_a_lost_consumer_never_got_are_released_or_go_to_another(
    ends: list[RouterProcess], stack: ExitStack
) -> None:
    address = fresh()
    dying = stack.enter_context(Client(ends[1].url))
    taken = dying.receiver(address, 3)
    sender = stack.enter_context(Client(ends[0].url)).sender(address)
    sent = [sender.send(number) for number in range(10)]
    assert [taken.next().body for _ in range(3)] == [0, 1, 2]
    other = stack.enter_context(Client(ends[1].url)).receiver(address)
    dying.abort()
    assert [s.outcome() for s in sent[:3]] == ["modified"] * 3
    other.flow(20)
    assert [received.body for received in other.take(7)] == list(range(3, 10))
    assert [s.outcome() for s in sent[3:]] == ["accepted"] * 7


def test_nothing_is_left_when_the_last_consumer_dies(ends: list[RouterProcess], stack: ExitStack) -> None:
    address = fresh()
    dying = stack.enter_context(Client(ends[1].url))
    dying.receiver(address, 3)
    sender = stack.enter_context(Client(ends[0].url)).sender(address)
    sent = [sender.send(number) for number in range(10)]
    dying.abort()
    outcomes = Counter(s.outcome() for s in sent)
    assert set(outcomes) <= {"modified", "released"}
    assert outcomes["released"] >= 7
    wait_until(lambda: sender.credit == 0, what="withdrawal of credit")


def test_lost_producer_leaves_its_deliveries_to_the_consumer(ends: list[RouterProcess], stack: ExitStack) -> None:
    """They are settled with nobody to tell; the consumer can still answer, and the next producer is served."""
    address = fresh()
    receiver = stack.enter_context(Client(ends[1].url)).receiver(address, 20)
    dying = stack.enter_context(Client(ends[0].url))
    dying.sender(address).send_all(list(range(5)))
    received = [receiver.next() for _ in range(5)]
    dying.abort()
    for delivery in received:
        delivery.accept()
    sent = stack.enter_context(Client(ends[0].url)).sender(address).send("next")
    assert receiver.next().body == "next"
    assert not sent.settled.is_set()


def test_producer_lost_in_the_middle_of_a_message(ends: list[RouterProcess], stack: ExitStack) -> None:
    """The consumer sees an aborted delivery or none, never half a message."""
    address = fresh()
    receiver = stack.enter_context(Client(ends[1].url)).receiver(address, 20)
    dying = stack.enter_context(Client(ends[0].url))
    sender = dying.sender(address)
    sender.wait_credit()

    def half() -> None:
        sender.link.delivery("half")
        sender.link.stream(proton.Message(body=b"x" * 1_000_000).encode()[:500_000])

    dying.call(half)
    sent_out(dying)
    dying.abort()
    sent = stack.enter_context(Client(ends[0].url)).sender(address).send("whole")
    received = receiver.next()
    assert received.body == "whole"
    received.accept()
    assert sent.outcome() == "accepted"


def test_message_aborted_by_its_producer(ends: list[RouterProcess], stack: ExitStack) -> None:
    address = fresh()
    receiver = stack.enter_context(Client(ends[1].url)).receiver(address, 20)
    client = stack.enter_context(Client(ends[0].url))
    sender = client.sender(address)
    sender.wait_credit()

    def half() -> Any:
        delivery = sender.link.delivery("half")
        sender.link.stream(proton.Message(body=b"x" * 1_000_000).encode()[:500_000])
        return delivery

    delivery = client.call(half)
    sent_out(client)
    client.call(delivery.abort)
    sent = sender.send("whole")
    received = receiver.next()
    assert received.body == "whole"
    received.accept()
    assert sent.outcome() == "accepted"


def outcomes_of(sent: list[Sent]) -> Counter[str | None]:
    """How many of each."""
    return Counter(s.outcome() for s in sent)


def sent_out(client: Client) -> None:
    """Wait until the client has written all that it has."""
    wait_until(lambda: client.call(lambda: transport_of(client).pending()) == 0, what="an empty transport")


def test_router_killed_on_the_way_in_a_triangle(start_mesh: StartMesh, stack: ExitStack) -> None:
    """A's way to C over B is cheaper than its own link; B dies in the middle of traffic."""
    mesh = start_mesh(3, [(1, 0), (2, 1), (2, 0)], extra=ADDRESSES, costs={"CA": 10})
    address = fresh()
    consumer = stack.enter_context(Client(mesh["C"].url))
    receiver = consumer.receiver(address, 1000)
    wait_consumers(mesh["A"], address, 0, 1)
    producer = stack.enter_context(Client(mesh["A"].url))
    sender = producer.sender(address)
    sent = [sender.send(number) for number in range(100)]
    kept = receiver.take(50)
    mesh["B"].kill()
    sent += [sender.send(number) for number in range(100, 200)]

    def settle_all() -> bool:
        while not receiver.arrived.empty():
            kept.extend(receiver.take(1))
        return all(s.settled.is_set() for s in sent)

    wait_until(settle_all, 60.0, lambda: f"outcomes of {[n for n, s in enumerate(sent) if not s.settled.is_set()]}")
    outcomes = outcomes_of(sent)
    assert set(outcomes) <= {"accepted", "modified", "released"}, outcomes
    bodies = [received.body for received in kept]
    assert len(bodies) == len(set(bodies))
    assert {number for number, s in enumerate(sent) if s.state == "accepted"} <= set(bodies)
    again = sender.send("after")
    while True:
        received = receiver.next()
        received.accept()
        if received.body == "after":
            break
    assert again.outcome() == "accepted"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_router_of_the_consumer_goes(start_mesh: StartMesh, stack: ExitStack, how: str) -> None:
    """What was out comes back modified; credit is withdrawn; a consumer elsewhere takes over."""
    mesh = start_mesh(3, "line", extra=ADDRESSES)
    address = fresh()
    receiver = Client(mesh["C"].url).receiver(address, 10)
    wait_consumers(mesh["A"], address, 0, 1)
    producer = stack.enter_context(Client(mesh["A"].url))
    sender = producer.sender(address)
    sent = [sender.send(number) for number in range(20)]
    [receiver.next() for _ in range(10)]
    getattr(mesh["C"], how)()
    outcomes = outcomes_of(sent)
    assert set(outcomes) <= {"modified", "released"}
    assert outcomes["modified"] >= 10
    wait_until(lambda: sender.credit == 0, what="withdrawal of credit")
    other = stack.enter_context(Client(mesh["B"].url)).receiver(address, 10)
    again = sender.send("again")
    received = other.next()
    received.accept()
    assert again.outcome() == "accepted"
    receiver.client._stop()


def test_router_of_the_producer_goes(start_mesh: StartMesh, stack: ExitStack) -> None:
    """The producer loses its connection, the consumer keeps its own."""
    mesh = start_mesh(3, "line", extra=ADDRESSES)
    address = fresh()
    receiver = stack.enter_context(Client(mesh["C"].url)).receiver(address, 20)
    wait_consumers(mesh["A"], address, 0, 1)
    producer = stack.enter_context(Client(mesh["A"].url))
    producer.sender(address).send_all(list(range(5)))
    received = [receiver.next() for _ in range(5)]
    mesh["A"].kill()
    producer.wait_ended()
    for delivery in received:
        delivery.accept()
    sent = stack.enter_context(Client(mesh["B"].url)).sender(address).send("x")
    last = receiver.next()
    assert last.body == "x"
    last.accept()
    assert sent.outcome() == "accepted"


def test_paused_router_is_noticed_and_comes_back(start_mesh: StartMesh, stack: ExitStack) -> None:
    """A router that hangs is out after helloMaxAge, with its connections still open; it returns when it goes on."""
    mesh = start_mesh(3, "line", extra=ADDRESSES)
    address = fresh()
    stack.enter_context(Client(mesh["C"].url)).receiver(address, 10)
    sender = stack.enter_context(Client(mesh["A"].url)).sender(address)
    sender.wait_credit()
    mesh["B"].pause()
    try:
        wait_until(lambda: sender.credit == 0, 60.0, "withdrawal of credit")
    finally:
        mesh["B"].resume()
    mesh.wait_converged()
    sender.wait_credit()
