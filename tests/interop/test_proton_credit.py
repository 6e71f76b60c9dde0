"""Credit: when producers get and lose it, drain, slow consumers. Routing chapter "Message Routing Flow Control"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.shared import fresh, wait_consumers
from tests.kit.clients import Client, Sender
from tests.kit.fixtures import StartRouter
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

CAPACITY = 250


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def round_trip(client: Client) -> None:
    """All that the router had to say to this client before now has arrived."""
    probe = client.receiver(fresh())
    probe.close()


def wait_no_credit(sender: Sender) -> None:
    """Until the producer's credit is taken away."""
    wait_until(lambda: sender.credit == 0, what=lambda: f"withdrawal of {sender.credit} credit")


@pytest.mark.parametrize("distribution", ["balanced", "closest", "multicast"])
def test_only_while_there_is_a_consumer(router1: RouterProcess, stack: ExitStack, distribution: str) -> None:
    address = fresh(distribution)
    producer, consumer = stack.enter_context(Client(router1.url)), stack.enter_context(Client(router1.url))
    sender = producer.sender(address)
    round_trip(producer)
    assert sender.credit == 0
    receiver = consumer.receiver(address)
    assert sender.wait_credit() == CAPACITY
    receiver.close()
    wait_no_credit(sender)
    consumer.receiver(address)
    assert sender.wait_credit() == CAPACITY


@pytest.mark.parametrize("distribution", ["balanced", "closest", "multicast"])
def test_across_the_mesh(line4: Mesh, stack: ExitStack, distribution: str) -> None:
    address = fresh(distribution)
    producer, consumer = stack.enter_context(Client(line4["A"].url)), stack.enter_context(Client(line4["D"].url))
    sender = producer.sender(address)
    round_trip(producer)
    assert sender.credit == 0
    receiver = consumer.receiver(address)
    assert sender.wait_credit() == CAPACITY
    receiver.close()
    wait_no_credit(sender)
    consumer.receiver(address)
    sender.wait_credit()
    consumer.abort()
    wait_no_credit(sender)


def test_stays_while_another_consumer_is_there(line2: Mesh, stack: ExitStack) -> None:
    address = fresh()
    local, remote = stack.enter_context(Client(line2["A"].url)), stack.enter_context(Client(line2["B"].url))
    first, second = local.receiver(address, 10), remote.receiver(address, 10)
    wait_consumers(line2["A"], address, 1, 1)
    sender = local.sender(address)
    sender.wait_credit()
    first.close()
    sender.send("x")
    second.next().accept()
    assert sender.credit > 0


def test_link_capacity_of_a_listener(start_router: StartRouter, stack: ExitStack) -> None:
    port = free_port()
    router = start_router(extra=section("listener", name="small", host="127.0.0.1", port=port, linkCapacity=7))
    router.ports.append(port)
    router.wait_listening()
    address = fresh()
    client = stack.enter_context(Client(f"amqp://127.0.0.1:{port}"))
    receiver = client.receiver(address)
    assert client.sender(address).wait_credit() == 7
    assert client.sender(None).wait_credit() == 7
    assert stack.enter_context(Client(router.url)).sender(address).wait_credit() == CAPACITY
    assert receiver.arrived.empty()


def test_comes_back_with_settlement(router1: RouterProcess, stack: ExitStack) -> None:
    """A producer never has more than the capacity out; what is settled comes back."""
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    receiver = client.receiver(address, 1000)
    sender = client.sender(address)
    assert sender.wait_credit() == CAPACITY
    first = [sender.send(number) for number in range(CAPACITY)]
    received = receiver.take(CAPACITY, accept=False)
    round_trip(client)
    assert sender.credit == 0
    for delivery in received:
        delivery.accept()
    assert [s.outcome() for s in first] == ["accepted"] * CAPACITY
    sender.wait_credit(CAPACITY // 2)


def test_comes_back_after_presettled_deliveries(line2: Mesh, stack: ExitStack) -> None:
    address = fresh()
    receiver = stack.enter_context(Client(line2["B"].url)).receiver(address, 2000)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address, presettled=True)
    for number in range(2 * CAPACITY):
        sender.send(number)
    assert [receiver.next().body for _ in range(2 * CAPACITY)] == list(range(2 * CAPACITY))


def test_messages_wait_for_a_slow_consumer_and_keep_their_order(line2: Mesh, stack: ExitStack) -> None:
    """Nothing is lost or reordered while a consumer takes one at a time; the producer stops at its capacity."""
    address = fresh()
    receiver = stack.enter_context(Client(line2["B"].url)).receiver(address, 1)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    sent = [sender.send(number) for number in range(CAPACITY)]
    assert sender.credit < CAPACITY
    for number in range(CAPACITY):
        received = receiver.next()
        assert received.body == number
        assert receiver.arrived.empty()
        received.accept()
        receiver.flow(1)
    assert [s.outcome() for s in sent] == ["accepted"] * CAPACITY


@pytest.mark.parametrize("distribution", ["balanced", "closest", "multicast"])
@pytest.mark.parametrize("presettled", [True, False], ids=["presettled", "unsettled"])
def test_a_consumer_without_credit_stops_no_other_address(
    line2: Mesh, stack: ExitStack, distribution: str, presettled: bool
) -> None:
    """What waits for it does not use up the credit of the link between the routers, which all addresses share."""
    address = fresh(distribution)
    near, far = stack.enter_context(Client(line2["A"].url)), stack.enter_context(Client(line2["B"].url))
    stalled = far.receiver(address)
    for _ in range(2):
        sender = near.sender(address, presettled=presettled, name=fresh())
        for number in range(CAPACITY):
            sender.send(number)
    receiver = far.receiver(fresh(), 1)
    sent = near.sender(receiver.address).send("passes")
    assert receiver.take(1)[0].body == "passes"
    assert sent.outcome() == "accepted"
    stalled.flow(2 * CAPACITY)
    stalled.take(2 * CAPACITY)


def test_a_consumer_without_credit_takes_no_presettled_message_from_others(line2: Mesh, stack: ExitStack) -> None:
    """Copies of messages to a multicast address are dropped for it when four times the link capacity wait."""
    address, count = fresh("multicast"), 6 * CAPACITY
    near, far = stack.enter_context(Client(line2["A"].url)), stack.enter_context(Client(line2["B"].url))
    stalled = [near.receiver(address, name=fresh()), far.receiver(address, name=fresh())]
    ready = [near.receiver(address, count, name=fresh()), far.receiver(address, count, name=fresh())]
    wait_consumers(line2["A"], address, 2, 1)
    sender = near.sender(address, presettled=True)
    for number in range(count):
        sender.send(number)
    for receiver in ready:
        assert [receiver.next().body for _ in range(count)] == list(range(count))
    for receiver in stalled:
        receiver.flow(count)
        assert [receiver.next().body for _ in range(4 * CAPACITY)] == list(range(4 * CAPACITY))
    round_trip(far)
    assert stalled[1].arrived.empty()


def test_what_waits_is_released_when_the_consumer_leaves(line2: Mesh, stack: ExitStack) -> None:
    address = fresh()
    consumer = stack.enter_context(Client(line2["B"].url))
    receiver = consumer.receiver(address, 2)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    sent = [sender.send(number) for number in range(10)]
    received = [receiver.next(), receiver.next()]
    received[0].accept()
    assert sent[0].outcome() == "accepted"
    receiver.close()
    assert sent[1].outcome() == "modified"
    assert sent[1].failed
    assert [s.outcome() for s in sent[2:]] == ["released"] * 8


def test_what_waits_goes_to_another_consumer(line2: Mesh, stack: ExitStack) -> None:
    address = fresh()
    slow = stack.enter_context(Client(line2["B"].url)).receiver(address, 0)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    sent = [sender.send(number) for number in range(10)]
    quick = stack.enter_context(Client(line2["B"].url)).receiver(address, 20)
    assert [r.body for r in quick.take(10)] == list(range(10))
    assert [s.outcome() for s in sent] == ["accepted"] * 10
    assert slow.arrived.empty()


def test_drain_without_messages_returns_the_credit(router1: RouterProcess, stack: ExitStack) -> None:
    client = stack.enter_context(Client(router1.url))
    receiver = client.receiver(fresh(), 50)
    assert receiver.credit == 50
    receiver.drain()
    assert receiver.credit == 0
    assert receiver.arrived.empty()


def test_drain_delivers_what_waits_and_returns_the_rest(router1: RouterProcess, stack: ExitStack) -> None:
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    receiver = client.receiver(address)
    sender = client.sender(address)
    sent = [sender.send(number) for number in range(3)]
    receiver.drain(10)
    assert [r.body for r in receiver.take(3)] == [0, 1, 2]
    assert [s.outcome() for s in sent] == ["accepted"] * 3
    assert receiver.credit == 0


def test_credit_after_drain(router1: RouterProcess, stack: ExitStack) -> None:
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    receiver = client.receiver(address, 5)
    receiver.drain()
    sender = client.sender(address)
    sent = sender.send("later")

    def on() -> None:
        receiver.link.drain_mode = False
        receiver.link.flow(5)

    client.call(on)
    receiver.next().accept()
    assert sent.outcome() == "accepted"


def test_drain_of_a_remote_consumer(line4: Mesh, stack: ExitStack) -> None:
    address = fresh()
    receiver = stack.enter_context(Client(line4["D"].url)).receiver(address)
    sender = stack.enter_context(Client(line4["A"].url)).sender(address)
    sent = [sender.send(number) for number in range(3)]
    receiver.flow(3)
    assert [r.body for r in receiver.take(3)] == [0, 1, 2]
    assert [s.outcome() for s in sent] == ["accepted"] * 3
    receiver.drain(10)
    assert receiver.credit == 0


def test_credit_reduced_by_the_consumer_is_kept_to(router1: RouterProcess, stack: ExitStack) -> None:
    """Two consumers, one of which drains: all goes to the other."""
    address = fresh()
    client = stack.enter_context(Client(router1.url))
    drained, open_ = client.receiver(address, 10, name="drained"), client.receiver(address, 100)
    drained.drain()
    sender = client.sender(address)
    for number in range(20):
        sender.send(number)
    assert [r.body for r in open_.take(20)] == list(range(20))
    assert drained.arrived.empty()
