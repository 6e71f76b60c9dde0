"""Connections that end before their open: each has a line with host, listener and reason."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.raw_client import AMQP, DEADLINE_S, SASL
from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_router.events.line_limit import MAX_LINES
from waymesh_router.runtime.transport.opening import REASON

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

PLAIN: dict[str, dict[str, Any]] = {"plain": {}, "hasty": {"initialHandshakeTimeoutSeconds": 1}}
TLS: dict[str, dict[str, Any]] = {
    "tls": {"requireSsl": True},
    "hasty-tls": {"requireSsl": True, "initialHandshakeTimeoutSeconds": 1},
    "crowded": {"maxOpeningConnections": 1},
    "by-host": {"sslProfilesByHost": '{"a.example": "p"}'},
}
HTTP: dict[str, dict[str, Any]] = {
    "web": {"http": True},
    "hasty-web": {"http": True, "initialHandshakeTimeoutSeconds": 1},
}
FOREIGN = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: amqp\r\nOrigin: https://evil\r\n\r\n"
)


class Doors:
    """A router with a listener of each kind."""

    def __init__(self, start: StartRouter, folder: Path) -> None:
        pair = Authority(folder).issue("server", {"CN": "localhost"})
        self.ports = {name: free_port() for name in (*PLAIN, *TLS, *HTTP)}
        text = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
        for name, attributes in (PLAIN | TLS | HTTP).items():
            profile = {"sslProfile": "p"} if name in TLS else {}
            text += section("listener", name=name, host="127.0.0.1", port=self.ports[name], **profile, **attributes)
        self.router: RouterProcess = start(extra=text)
        wait_until(lambda: "Router A started" in self.router.log)  # a connection to each port would have a line

    def connect(self, listener: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=DEADLINE_S)

    def told(self, listener: str, peer: str, reason: str) -> None:
        """Wait for the line about that connection."""
        event = rf"\[event=connection\.refused host={re.escape(peer)} listener={listener}\]"
        line = re.compile(rf"^.*{reason}.* {event}$", re.MULTILINE)
        wait_until(lambda: bool(line.search(self.router.log)), what=f"{listener}: {reason}")


@pytest.fixture
def doors(start_router: StartRouter, tmp_path: Path) -> Doors:
    return Doors(start_router, tmp_path)


def address(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


def await_end(sock: socket.socket) -> None:
    """The router ends the connection."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        return


def nothing(sock: socket.socket) -> None:
    await_end(sock)


def sends(data: bytes) -> Callable[[socket.socket], None]:
    def act(sock: socket.socket) -> None:
        sock.sendall(data)
        await_end(sock)

    return act


def leaves(data: bytes) -> Callable[[socket.socket], None]:
    """Closed in order: a close with unread answers would reset the connection."""

    def act(sock: socket.socket) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        await_end(sock)

    return act


def shakes_hands_and_leaves(sock: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.wrap_socket(sock).close()


def test_each_has_a_line(doors: Doors) -> None:
    for listener, act, reason in (
        ("plain", sends(b"GET / HTTP/1.1\r\n\r\n"), "protocol header .* is not supported"),
        ("plain", leaves(SASL), "closed before its open: closed by the peer"),
        ("plain", leaves(AMQP), "amqp:connection:forced: closed by the peer"),
        ("hasty", nothing, "amqp:connection:forced: handshake not completed in time"),
        ("tls", sends(AMQP), "failed: the client does not use TLS"),
        ("tls", sends(b"\x16\x03\x01\x00\x05hello"), "failed: TLS: "),
        ("tls", leaves(b"AM"), "failed: closed by the peer"),
        ("by-host", leaves(b"\x16\x03\x01\x00\x05\x01\x00"), "failed: closed by the peer"),
        ("tls", leaves(b"\x16\x03\x01\x00\x05he"), "failed: TLS: "),
        ("tls", shakes_hands_and_leaves, "closed before its open: (closed|Connection reset) by (the )?peer"),
        ("hasty-tls", nothing, "failed: TLS: the handshake took too long"),
        ("web", sends(b"hello\r\n\r\n"), "not served: illegal request line"),
        ("web", leaves(b"GET / HT"), "not served: closed by the peer"),
        ("web", sends(FOREIGN), "not served: the origin is neither"),
        ("hasty-web", nothing, "not served: no request arrived in time"),
    ):
        sock = doors.connect(listener)
        peer = address(sock)
        with sock:
            act(sock)
        doors.told(listener, peer, reason)
    with doors.connect("crowded") as oldest, doors.connect("crowded"):
        await_end(oldest)
        doors.told("crowded", address(oldest), re.escape(REASON))


def test_probes_that_send_nothing_and_pages_that_are_served_have_none(doors: Doors) -> None:
    quiet = []
    page = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    for listener, data in (("plain", b""), ("tls", b""), ("web", b""), ("web", page)):
        with doors.connect(listener) as sock:
            quiet.append(address(sock))
            leaves(data)(sock)
    with doors.connect("plain") as last:
        peer = address(last)
        leaves(SASL)(last)
    doors.told("plain", peer, "closed by the peer")
    assert not [line for line in doors.router.log.splitlines() if any(f"host={host} " in line for host in quiet)]


def test_their_number_is_limited_for_each_host(doors: Doors) -> None:
    for _ in range(MAX_LINES + 20):
        with doors.connect("plain") as sock:
            leaves(SASL)(sock)
    assert doors.router.log.count("[event=connection.refused") <= MAX_LINES
    doors.router.stop()
    assert doors.router.log.count("[event=connection.refused") == MAX_LINES
    assert "20 more lines about 127.0.0.1 within 60 s were left out" in doors.router.log
