"""One attempt of a connector to connect to one address: TCP, then the TLS handshake."""

from __future__ import annotations

import errno
import os
import socket
from typing import Protocol

from waymesh_router.runtime.loop import EPOLLOUT, Loop, Timer
from waymesh_router.runtime.tls.endpoints import ConnectorTls
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.tls.transports import Handshake
from waymesh_router.runtime.transport.addresses import SocketAddress

CONNECT_S = 2.0
"""Time limit for the TCP connect, because the address of a removed pod does not answer. Long enough for one
retransmission of a lost packet."""
TLS_S = 15.0
"""Time limit for the TLS handshake."""


class Dialer(Protocol):
    """Receives the result of an attempt, once."""

    def reached(self, attempt: DialAttempt, sock: Transport) -> None:
        """The transport (and TLS) is established; the socket is not registered."""

    def failed(self, attempt: DialAttempt, reason: str) -> None:
        """The attempt failed."""


class DialAttempt:
    """An attempt. `tls`: None for plain TCP; `host`: the expected name in the peer's certificate."""

    def __init__(
        self,
        loop: Loop,
        dialer: Dialer,
        address: SocketAddress,
        host: str,
        tls: ConnectorTls | None,
    ) -> None:
        self.address = address
        self._loop = loop
        self._dialer = dialer
        self._host = host
        self._tls = tls
        self._sock: Transport | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Connect. If this fails at once, `failed` is called before the method returns."""
        kind, address = self.address
        self._limit(CONNECT_S)
        try:
            sock = self._sock = socket.socket(kind, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = sock.connect_ex(address)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        if code not in (0, errno.EINPROGRESS):
            self._fail(os.strerror(code))
            return
        self._loop.register(sock.fileno(), self, EPOLLOUT)

    def drop(self) -> None:
        """Abort: the socket is closed, no result is reported."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sock is not None:
            self._loop.unregister(self._sock.fileno())
            self._sock.close()
            self._sock = None

    def on_event(self, mask: int) -> None:
        """The TCP connect has succeeded or failed."""
        sock = self._sock
        assert isinstance(sock, socket.socket)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(os.strerror(code))
        elif _is_own_end(sock):
            self._fail(os.strerror(errno.ECONNREFUSED))
        elif self._tls is None:
            self._reached()
        else:
            self._secure(self._tls, sock)

    def abandon(self) -> None:
        """An internal error while handling the result: the attempt failed."""
        self._fail("an internal error, see the log")

    def _secure(self, tls: ConnectorTls, sock: socket.socket) -> None:
        self._limit(TLS_S)
        try:
            secured = TlsSocket(tls.context(), sock, server=False, host=self._host)
        except OSError as error:
            self._fail(f"TLS: {error}")
            return
        self._sock = secured
        handshake = Handshake(self._loop, secured, lambda _: self._secured(tls, secured), self._fail)
        self._loop.replace(secured.fileno(), handshake)
        handshake.on_event(0)  # the client sends the first message

    def _secured(self, tls: ConnectorTls, sock: TlsSocket) -> None:
        reason = tls.profile.refused_peer(sock)
        if reason is None:
            self._reached()
        else:
            self._fail(f"TLS: {reason}")

    def _limit(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, lambda: self._fail("connecting took too long"))

    def _reached(self) -> None:
        sock = self._sock
        assert sock is not None
        self._sock = None
        self._loop.unregister(sock.fileno())
        self.drop()
        self._dialer.reached(self, sock)

    def _fail(self, reason: str) -> None:
        self.drop()
        self._dialer.failed(self, reason)


def _is_own_end(sock: socket.socket) -> bool:
    """Whether a socket is connected to itself. TCP permits this if nobody listens at a local port and the system
    chooses that port for the outgoing connection."""
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:  # already closed; the first read reports it
        return False
