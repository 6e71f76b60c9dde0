"""Clients that send but do not read: their answers take a limited amount of memory, and others are served."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import RawClient
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Attach, Detach, Terminus, encode_frame

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.by_exec]

MIB = 1 << 20
ADDRESS = "a" * 8000
PAIRS = 6000
"""Attaches and detaches of a long address: 48 MiB of answers."""
MOST = 24 * MIB
FULL_MS = 3000
"""Milliseconds after which a socket that takes nothing is full. A slow router makes the test weaker, not wrong."""


@pytest.fixture
def router(start_router: StartRouter) -> RouterProcess:
    port = free_port()
    extra = section("listener", name="quick", host="127.0.0.1", port=port, idleTimeoutSeconds=2)
    router = start_router(extra=extra)
    router.ports.append(port)
    router.wait_listening()
    exchange_message(router.port)
    return router


@contextlib.contextmanager
def flooding(port: int) -> Iterator[tuple[RawClient, bytes]]:
    """A client that has sent attaches and detaches without reading, as much as was read from it; and the rest."""
    pair = encode_frame(0, Attach("n", 0, role=True, source=Terminus("source", address=ADDRESS)))
    pair += encode_frame(0, Detach(0, closed=True))
    with RawClient(port) as raw:
        raw.open()
        raw.begin()
        sock = raw._socket
        assert isinstance(sock, socket.socket)
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        rest = memoryview(pair * PAIRS)
        with contextlib.suppress(ConnectionError):  # ended by the router
            while rest and poll.poll(FULL_MS):
                with contextlib.suppress(BlockingIOError):
                    rest = rest[sock.send(rest[:65536], socket.MSG_DONTWAIT) :]
        yield raw, bytes(rest)


def test_answers_that_a_client_does_not_read_are_limited(router: RouterProcess) -> None:
    before = router.resident_bytes()
    with flooding(router.port) as (raw, rest):
        exchange_message(router.port)
        assert router.peak_bytes() - before < MOST
        assert rest
        assert raw.expect(Attach).name == "n"
    assert "internal error" not in router.log


def test_a_client_that_neither_reads_nor_sends_is_ended(router: RouterProcess) -> None:
    with flooding(router.ports[1]):
        wait_until(lambda: "closed: amqp:resource-limit-exceeded: local-idle-timeout expired" in router.log)
        exchange_message(router.port)
