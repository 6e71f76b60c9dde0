"""Consumers that say how many messages they work on at a time get these and some more, with proton clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import proton
import pytest
from proton.reactor import ReceiverOption

from tests.interop.shared import fresh, wait_spread
from tests.kit.clients import Client, Receiver
from tests.kit.mesh import Mesh
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

PREFETCH = 100


class Concurrency(ReceiverOption):
    """The link property of a consumer."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def apply(self, receiver: Any) -> None:
        receiver.properties = {proton.symbol("concurrency"): self.number}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as stack:
        yield stack


def consumer(stack: ExitStack, mesh: Mesh, router: str, address: str, number: Any = None) -> Receiver:
    """A receiver on its own connection."""
    options = [] if number is None else [Concurrency(number)]
    return stack.enter_context(Client(mesh[router].url)).receiver(address, PREFETCH, options=options)


def counted(mesh: Mesh, router: str, address: str, name: str) -> int:
    """A counter of the address at a router."""
    with ManagementClient(mesh[router].url) as client:
        (found,) = [row for row in client.query("router.address") if row["name"] == f"M0{address}"]
    return int(found[name])


def arrived(consumers: list[Receiver]) -> list[int]:
    return [one.arrived.qsize() for one in consumers]


@pytest.mark.parametrize("router", ["A", "B"])
def test_each_gets_what_it_works_on_and_some_more(stack: ExitStack, line2: Mesh, router: str) -> None:
    """Whether the messages come from the same router or from another one."""
    address = fresh("several")
    one, four = (consumer(stack, line2, "A", address, proton.uint(number)) for number in (1, 4))
    wait_spread(line2, address, 2, 0)
    sender = stack.enter_context(Client(line2[router].url)).sender(address)
    for number in range(40):
        sender.send(str(number))
    wait_until(lambda: arrived([one, four]) == [2, 6], what="as many as each should have")
    wait_until(lambda: counted(line2, router, address, "deliveriesIngress") == 40, what="all messages at a router")
    assert counted(line2, "A", address, "deliveriesEgress") == 8, "the others wait"
    done = 0
    while done < 40:
        wait_until(lambda: sum(arrived([one, four])), what="the next ones")
        for receiver in (one, four):
            done += len(receiver.take(receiver.arrived.qsize()))


def test_an_address_says_it_of_all_its_clients(stack: ExitStack, line2: Mesh) -> None:
    address = fresh("several")
    with ManagementClient(line2["A"].url) as client:
        client.create("router.config.address", {"prefix": address, "concurrency": 3}, name=address)
    consumers = [consumer(stack, line2, "A", address), consumer(stack, line2, "A", address, 1)]
    sender = stack.enter_context(Client(line2["A"].url)).sender(address)
    for number in range(20):
        sender.send(str(number))
    wait_until(lambda: arrived(consumers) == [4, 2], what="as many as each should have")
    wait_until(lambda: counted(line2, "A", address, "deliveriesIngress") == 20, what="all messages at the router")
    assert counted(line2, "A", address, "deliveriesEgress") == 6, "the others wait"


@pytest.mark.parametrize("number", [0, 100_000, "8"])
def test_what_is_no_such_number_is_refused(stack: ExitStack, line2: Mesh, number: Any) -> None:
    client = stack.enter_context(Client(line2["A"].url))
    receiver = client.receiver(fresh("several"), 1, options=[Concurrency(number)], wait=False)
    wait_until(lambda: receiver.error is not None, what="the refusal")
    assert "amqp:invalid-field" in str(receiver.error)
