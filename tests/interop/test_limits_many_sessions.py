"""Clients with many sessions may send more than the budgets before they are held: memory stays below its limit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import Ended, RawClient
from tests.interop.shared import fresh
from tests.kit.fixtures import StartRouter
from tests.kit.frames import transfer
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

MIB = 1 << 20
LIMIT = 160 * MIB
"""`maxMemory`. A quarter of it is the budget of the router; the process itself takes some 35 MiB."""
SESSIONS = 60
EACH = 240
"""Deliveries of a session, within its window and the credit of its link: 225 MiB in all sessions."""
PAYLOAD = b"\x00\x53\x75\xb0\x00\x00\x3e\x00" + bytes(0x3E00)


@pytest.fixture
def router(start_router: StartRouter) -> RouterProcess:
    router = start_router("A")
    with ManagementClient(router.url) as client:
        (row,) = client.query("router", ["identity"])
        client.update({"maxMemory": LIMIT}, "router", identity=row["identity"])
    return router


@contextlib.contextmanager
def waiting_address(router: RouterProcess) -> Iterator[str]:
    """An address whose consumer has no credit."""
    with RawClient(router.port) as consumer:
        consumer.open()
        consumer.begin()
        address = fresh()
        consumer.attach_receiver(address)
        yield address


@contextlib.contextmanager
def flooding(router: RouterProcess, address: str, sessions: int) -> Iterator[RawClient]:
    """A client that sends all that its windows allow to an address."""
    with RawClient(router.port) as raw:
        raw.open()
        for channel in range(sessions):
            raw.begin(channel)
            target = Terminus("target", address=address)
            source, name = Terminus("source"), f"out-{channel}"
            attach = Attach(name, 0, role=False, source=source, target=target, initial_delivery_count=0)
            raw.put(attach, channel=channel)
        with contextlib.suppress(OSError):  # the router has closed the connection
            for channel in range(sessions):
                for number in range(EACH):
                    raw.send(transfer(number, PAYLOAD, channel=channel))
        yield raw


def test_the_client_is_disconnected_before_memory_is_full(router: RouterProcess) -> None:
    with waiting_address(router) as address:
        with flooding(router, address, SESSIONS) as raw, contextlib.suppress(Ended, OSError):
            condition, description = raw.close_error()
            assert condition == "amqp:resource-limit-exceeded"
            assert "of its messages wait, and the router is short of memory (maxBufferedBytes)" in description
        exchange_message(router.port)
    wait_until(lambda: "closed: amqp:resource-limit-exceeded: " in router.log, 60)
    assert router.peak_bytes() < LIMIT


def test_messages_of_clients_that_come_and_go_do_not_fill_the_memory(router: RouterProcess) -> None:
    with waiting_address(router) as address:
        for _ in range(6):  # each within the budget of the router
            with flooding(router, address, SESSIONS // 6) as raw:
                raw.begin(SESSIONS)  # answered after all of it was read
        exchange_message(router.port)
    assert "whose senders are gone are dropped" in router.log
    assert router.peak_bytes() < LIMIT
