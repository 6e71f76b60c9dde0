"""One consumer of an exclusive address gets all messages of two routers, with proton clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import proton
import pytest
from proton.reactor import ReceiverOption

from tests.interop.shared import fresh, wait_spread
from tests.interop.test_proton_priorities import accept_all
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


class Exclusive(ReceiverOption):
    """The link property of a consumer."""

    def apply(self, receiver: Any) -> None:
        receiver.properties = {proton.symbol("exclusive"): True}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def consumer(stack: ExitStack, mesh: Mesh, router: str, address: str, credit: int = 100) -> Receiver:
    """A receiver on its own connection."""
    client = stack.enter_context(Client(mesh[router].url))
    return client.receiver(address, credit, options=[Exclusive()])


def standby(
    stack: ExitStack, mesh: Mesh, router: str, address: str, first: Receiver, sender: Sender
) -> Receiver:
    """A second consumer of the address. One that attaches before its router knows of the first one counts as
    simultaneous, and is closed again."""
    found: list[Receiver] = []

    def comes_second() -> bool:
        one = consumer(stack, mesh, router, address)
        sent = sender.send("probe")
        wait_until(lambda: one.arrived.qsize() + first.arrived.qsize(), what="a message")
        second = first.arrived.qsize() == 1
        accept_all([one, first])
        sent.outcome()
        found.append(one)
        if not second:
            one.client.close()
        return second

    wait_until(comes_second, what="a consumer that comes second")
    return found[-1]


@pytest.mark.parametrize(("first", "second"), ["AB", "BA"])
def test_the_first_gets_all_and_the_second_follows(stack: ExitStack, line2: Mesh, first: str, second: str) -> None:
    address = fresh("balanced")
    consumers = [consumer(stack, line2, first, address)]
    wait_spread(line2, address, int(first == "A"), int(first == "B"))
    senders = [stack.enter_context(Client(line2[name].url)).sender(address) for name in "AB"]
    consumers.append(standby(stack, line2, second, address, consumers[0], senders["AB".index(second)]))
    wait_spread(line2, address, 1, 1)
    sent = [one for sender in senders for one in sender.send_all(list(range(20)))]
    for _ in range(40):
        consumers[0].next().accept()
    assert [one.outcome() for one in sent] == ["accepted"] * 40
    assert consumers[1].arrived.qsize() == 0
    consumers[0].client.close()
    wait_spread(line2, address, int(second == "A"), int(second == "B"))
    sent = [one for sender in senders for one in sender.send_all(list(range(20)))]
    for _ in range(40):
        consumers[1].next().accept()
    assert [one.outcome() for one in sent] == ["accepted"] * 40


def test_each_message_has_one_outcome_when_the_first_leaves(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("balanced")
    one = consumer(stack, line2, "B", address, credit=10)
    wait_spread(line2, address, 0, 1)
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    other = standby(stack, line2, "A", address, one, sender)
    wait_spread(line2, address, 1, 1)
    sent = sender.send_all(list(range(30)))
    wait_until(lambda: one.arrived.qsize() >= 9, what="as many as it has credit for")
    one.client.close()
    received = 0

    def all_done() -> bool:
        nonlocal received
        received += accept_all([other])[0]
        return all(each.settled.is_set() for each in sent)

    wait_until(all_done, what="outcomes")
    outcomes = [str(each.outcome()) for each in sent]
    assert outcomes.count("accepted") == received
    assert 9 <= outcomes.count("modified") <= 10
    assert outcomes.count("released") == 30 - received - outcomes.count("modified"), "sent before A knew that it left"
    sent = sender.send_all(list(range(5)))
    for _ in sent:
        other.next().accept()
    assert [each.outcome() for each in sent] == ["accepted"] * 5
