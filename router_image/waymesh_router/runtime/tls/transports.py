"""TLS transports: the non-blocking handshake, detection of TLS on a plain port."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, EPOLLRDHUP, Loop
from waymesh_router.runtime.tls.client_hello import MAX_BYTES, complete, requested_host
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.connection_io import ConnectionIO
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tls_connection_io import TlsConnectionIO

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

MakeIO = Callable[[Any, Transport, "Connection", ReceiveBuffer], ConnectionIO]
"""Makes the connection of a transport: `make(host, sock, conn, buffer)`."""
TLS_HANDSHAKE = 0x16
AMQP_TLS_HEADER = b"AMQP\x02\x01\x00\x00"
"""The protocol header that requests TLS on a plain port. Spec: 5.2.1."""
LEFT = "closed by the peer"


def connection_io(host: Any, sock: Transport, conn: Connection, buffer: ReceiveBuffer) -> ConnectionIO:
    """A connection on a plain or a TLS socket."""
    if isinstance(sock, TlsSocket):
        return TlsConnectionIO(host, sock, conn, buffer)
    return ConnectionIO(host, sock, conn, buffer)


class Handshake:
    """A TLS handshake in progress on a registered, non-blocking socket. Calls `done(sock)` or `failed(reason)` once."""

    def __init__(
        self, loop: Loop, sock: TlsSocket, done: Callable[[TlsSocket], None], failed: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._done = done
        self._failed = failed
        self._mask = EPOLLIN

    def on_event(self, mask: int) -> None:
        """Continue as far as the socket permits."""
        wanted = EPOLLIN
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            if self._sock.more:
                self._loop.again(self._sock.fileno())
        except ssl.SSLWantWriteError:
            wanted |= EPOLLOUT
        except ssl.SSLCertVerificationError as error:
            self._failed(f"TLS: certificate of the peer: {error.verify_message}")
            return
        except OSError as error:
            self._failed(f"TLS: {getattr(error, 'reason', None) or error.strerror or error}")
            return
        else:
            self._done(self._sock)
            return
        if wanted != self._mask:
            self._mask = wanted
            self._loop.modify(self._sock.fileno(), wanted)

    def abandon(self) -> None:
        """An internal error: give the transport up."""
        self._failed("internal error")


class FirstBytes:
    """Examines the first bytes of an accepted socket: TLS (directly, or requested by an AMQP header) or plain AMQP.

    Must be registered edge-triggered (`MASK`): peeking does not consume input, so epoll would report it repeatedly.
    `failed("")`: the peer disconnected without sending anything, as probes do.
    """

    MASK = EPOLLIN | EPOLLRDHUP | select.EPOLLET

    def __init__(self, sock: socket.socket, decided: Callable[[bool], None], failed: Callable[[str], None]) -> None:
        self._sock = sock
        self._decided = decided
        self._failed = failed
        self._received = False

    def on_event(self, mask: int) -> None:
        """Decide when there are enough bytes; `decided(tls)` or `failed(reason)` is called once."""
        try:
            head = self._sock.recv(len(AMQP_TLS_HEADER), socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed((error.strerror or str(error)) if self._received else "")
            return
        if not head:
            self._failed(LEFT if self._received else "")
        elif head[0] == TLS_HANDSHAKE:
            self._decided(True)
        elif head == AMQP_TLS_HEADER:
            self._sock.recv(len(head))
            with contextlib.suppress(OSError):  # if the peer has disconnected, the handshake reports it
                self._sock.send(AMQP_TLS_HEADER)
            self._decided(True)
        elif not AMQP_TLS_HEADER.startswith(head):
            self._decided(False)
        elif mask & EPOLLRDHUP:
            self._failed(LEFT)
        else:
            self._received = True

    def abandon(self) -> None:
        """An internal error: give the transport up."""
        self._failed("internal error")


class FirstMessage:
    """Waits for a TLS client's first message, and reads the host that it requests. Registered like `FirstBytes`."""

    def __init__(self, sock: socket.socket, found: Callable[[str | None], None], failed: Callable[[str], None]) -> None:
        self._sock = sock
        self._found = found
        self._failed = failed

    def on_event(self, mask: int) -> None:
        """Parse the message when it is complete; `found(host)` or `failed(reason)` is called once."""
        try:
            data = self._sock.recv(MAX_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError as error:
            self._failed(error.strerror or str(error))
            return
        if not data:
            self._failed(LEFT)
        elif complete(data):
            self._found(requested_host(data))
        elif mask & EPOLLRDHUP:
            self._failed(LEFT)

    def abandon(self) -> None:
        """An internal error: give the transport up."""
        self._failed("internal error")
