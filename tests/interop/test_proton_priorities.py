"""Priorities of consumers hold over several routers, with proton clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import proton
import pytest
from proton.reactor import ReceiverOption

from tests.interop.shared import fresh, wait_spread
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


class Priority(ReceiverOption):
    """The link property of a consumer."""

    def __init__(self, priority: int) -> None:
        self.priority = priority

    def apply(self, receiver: Any) -> None:
        receiver.properties = {proton.symbol("priority"): proton.int32(self.priority)}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def consumer(stack: ExitStack, mesh: Mesh, router: str, address: str, priority: int, credit: int) -> Receiver:
    """A receiver on its own connection."""
    client = stack.enter_context(Client(mesh[router].url))
    return client.receiver(address, credit, options=[Priority(priority)])


def accept_all(consumers: list[Receiver]) -> list[int]:
    """How many each has got; settled, and the credit is as before."""
    found = []
    for receiver in consumers:
        count = receiver.arrived.qsize()
        found.append(count)
        for _ in range(count):
            receiver.next().accept()
        if count:
            receiver.flow(count)
    return found


def wait_known(sender: Sender, highest: Receiver, consumers: list[Receiver]) -> None:
    """Until the router of the sender knows the priorities elsewhere."""

    def goes_there() -> bool:
        sent = sender.send("probe")
        wait_until(lambda: any(receiver.arrived.qsize() for receiver in consumers), what="a message")
        found = highest.arrived.qsize() == 1
        accept_all(consumers)
        sent.outcome()
        return found

    wait_until(goes_there, what="priorities of other routers")


def test_a_message_goes_to_the_highest_priority_of_four_routers(stack: ExitStack, line4: Mesh) -> None:
    address = fresh("balanced")
    places = (("A", 1, 20), ("B", 0, 200), ("C", 3, 20), ("D", 7, 60))
    consumers = [consumer(stack, line4, router, address, priority, credit) for router, priority, credit in places]
    wait_spread(line4, address, 1, 1, 1, 1)
    sender = stack.enter_context(Client(line4["A"].url)).sender(address)
    wait_known(sender, consumers[3], consumers)
    sent = sender.send_all(list(range(5)))
    wait_until(lambda: consumers[3].arrived.qsize() == 5, what="all at the highest")
    assert accept_all(consumers) == [0, 0, 0, 5]
    assert [one.outcome() for one in sent] == ["accepted"] * 5


def test_who_leaves_hands_over_to_the_next_priority(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("balanced")
    low = consumer(stack, line2, "A", address, 0, 100)
    high = consumer(stack, line2, "B", address, 4, 100)
    wait_spread(line2, address, 1, 1)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    wait_known(sender, high, [low, high])
    unsettled = sender.send_all([1, 2, 3])
    wait_until(lambda: high.arrived.qsize() == 3, what="messages")
    high.client.close()
    assert [one.outcome() for one in unsettled] == ["modified"] * 3
    wait_spread(line2, address, 1, 0)
    sent = sender.send_all([4, 5, 6])
    wait_until(lambda: low.arrived.qsize() == 3, what="messages at the next one")
    assert accept_all([low]) == [3]
    assert [one.outcome() for one in sent] == ["accepted"] * 3


def test_without_credit_the_next_priority_gets_it(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("balanced")
    low = consumer(stack, line2, "A", address, 0, 100)
    high = consumer(stack, line2, "B", address, 4, 30)
    wait_spread(line2, address, 1, 1)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    wait_known(sender, high, [low, high])
    sent = sender.send_all(list(range(60)))
    wait_until(lambda: low.arrived.qsize() + high.arrived.qsize() == 60, what="all messages")
    assert 25 <= high.arrived.qsize() <= 30
    accept_all([low, high])
    assert [one.outcome() for one in sent] == ["accepted"] * 60
