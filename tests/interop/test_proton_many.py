"""A thousand connections at once."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack

import proton
import pytest

from tests.interop.raw_client import RawClient
from tests.interop.shared import ADDRESSES, fresh
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

COUNT = 1000


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the clients of a test; enough descriptors for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with ExitStack() as stack:
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(stack: ExitStack, port: int, count: int) -> list[RawClient]:
    """Open connections with a session each."""
    clients = [stack.enter_context(RawClient(port)) for _ in range(count)]
    for client in clients:
        client.open()
        client.begin()
    return clients


@pytest.fixture
def patient(start_router: StartRouter) -> tuple[RouterProcess, int]:
    """A router, and a port of it where silence is no reason to be thrown out."""
    port = free_port()
    text = section("listener", name="patient", host="127.0.0.1", port=port, idleTimeoutSeconds=0)
    router = start_router(extra=ADDRESSES + text)
    router.ports.append(port)
    router.wait_listening()
    return router, port


def test_thousand_connections(patient: tuple[RouterProcess, int], stack: ExitStack) -> None:
    """Each one's consumer gets its own message; two hundred consumers of one address get one each."""
    router, port = patient
    before = router.resident_bytes()
    own, shared = fresh(), fresh("closest")
    with Client(router.url) as client:  # before the others: proton waits by select(), which ends at descriptor 1023
        clients = connected(stack, port, COUNT)
        for number, raw in enumerate(clients):
            raw.attach_receiver(f"{own}.{number}", credit=1)
        anonymous = client.sender(None)
        for number, raw in enumerate(clients):
            sent = anonymous.send(message(f"{own}.{number}", number))
            transfer, payload = raw.delivery()
            assert payload.endswith(f"{number:04}".encode())
            raw.accept(transfer.delivery_id or 0)
        assert sent.outcome() == "accepted"
        for raw in clients[:200]:
            raw.attach_receiver(shared, credit=1)
        sender = client.sender(shared)
        all_sent = [sender.send(message(shared, number)) for number in range(200)]
        found = set()
        for raw in clients[:200]:
            transfer, payload = raw.delivery()
            found.add(payload[-4:])
            raw.accept(transfer.delivery_id or 0)
        assert len(found) == 200
        assert {s.outcome() for s in all_sent} == {"accepted"}
    assert router.resident_bytes() - before < 100 * 1024 * 1024


def test_thousand_consumers_of_a_multicast(patient: tuple[RouterProcess, int], stack: ExitStack) -> None:
    address = fresh("multicast")
    with Client(patient[0].url) as client:  # first, as above
        clients = connected(stack, patient[1], COUNT)
        for raw in clients:
            raw.attach_receiver(address, credit=3)
        sender = client.sender(address)
        sent = [sender.send(number) for number in range(3)]
        for raw in clients:
            for _ in range(3):
                raw.accept(raw.delivery()[0].delivery_id or 0)
        assert [s.outcome() for s in sent] == ["accepted"] * 3


def test_connections_that_come_and_go_leave_nothing(router1: RouterProcess) -> None:
    """Four times 50 connections with links, dropped without a word."""
    sizes = []
    for _ in range(4):
        with ExitStack() as stack:
            for client in connected(stack, router1.port, 50):
                client.attach_receiver(fresh(), credit=10)
                client.attach_sender(fresh(), wait_credit=False)
        with Client(router1.url) as reader:
            reader.receiver(fresh()).close()
        sizes.append(router1.resident_bytes())
    assert sizes[-1] - sizes[0] < 5 * 1024 * 1024, sizes


def message(address: str, number: int) -> proton.Message:
    """A small message whose last four bytes are its number."""
    return proton.Message(address=address, body=f"{number:04}")
