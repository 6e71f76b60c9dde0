"""Peers that mean harm: many half-open connections, and what a router has open meanwhile."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.interop.raw_client import AMQP, SASL, Ended, RawClient, Refused
from tests.interop.shared import fresh
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Open, SaslInit, encode_frame

NOTHING = b""
HALF_HEADER = AMQP[:3]
HALF_SASL = SASL + encode_frame(0, SaslInit(mechanism="ANONYMOUS"))[:9]
AFTER_SASL = SASL + encode_frame(0, SaslInit(mechanism="ANONYMOUS")) + AMQP
HALF_OPEN = AFTER_SASL + encode_frame(0, Open(container_id="slow"))[:12]


def descriptors(router: RouterProcess) -> int:
    """Open descriptors of the router's process."""
    return len(os.listdir(f"/proc/{router.pid}/fd"))


@contextmanager
def half_open(port: int, count: int, said: bytes) -> Iterator[list[socket.socket]]:
    """That many connections which say this and then nothing."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            sock.setblocking(False)
            with suppress(OSError):  # ended already
                sock.send(said)
            sockets.append(sock)
        yield sockets


def has_ended(sock: socket.socket) -> bool:
    """Whether the router has closed the connection."""
    try:
        while sock.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def exchange_message(port: int, tls: ssl.SSLContext | None = None) -> None:
    """A new client sends itself a message. (Proton selects: it fails where a process has 1,024 sockets.)"""
    address = fresh()
    with RawClient(port, tls) as raw:
        raw.open()
        raw.begin()
        raw.attach_receiver(address, credit=1)
        raw.transfer(raw.attach_sender(address), b"\x00\x53\x77\xa1\x04here", settled=True)
        assert raw.delivery()[1].endswith(b"here")


def exchange_in_time(port: int, tls: ssl.SSLContext | None = None) -> None:
    """The same where clients have little time for their open: on a loaded machine not the first one may make it."""

    def exchanged() -> bool:
        try:
            exchange_message(port, tls)
        except (OSError, Ended, Refused):
            return False
        return True

    wait_until(exchanged, 60.0, "a client that is served")


@contextmanager
def bounded(router: RouterProcess, most_mib: int) -> Iterator[None]:
    """What is done inside costs the router that much memory at most, and others are served at its end."""
    exchange_message(router.port)
    before = router.resident_bytes()
    yield
    exchange_message(router.port)
    grown = (router.resident_bytes() - before) / (1 << 20)
    assert grown <= most_mib, f"{grown:.1f} MiB more"
    assert "internal error" not in router.log
