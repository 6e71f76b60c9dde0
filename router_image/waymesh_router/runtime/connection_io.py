"""The per-connection byte path: socket → engine → socket. The hot part of the runtime: plain classes, no closures.

`ConnectionIO` is a socket and its engine connection. Nothing here raises: whatever goes wrong with a connection, in the
network or in our own code, ends that connection and disturbs nobody else.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

EPOLLIN = select.EPOLLIN
EPOLLOUT = select.EPOLLOUT
BUFFER_BYTES = 262144
SLACK = 64
"""Bytes behind what was read that the engine may look at (and finds meaningless), which saves it bounds checks."""


class Owner(Protocol):
    """What a `ConnectionIO` tells the host."""

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport is gone (peer, network, time-out)."""

    def finished(self, io: ConnectionIO) -> None:
        """The engine connection is done and all its bytes are written."""

    def failed(self, io: ConnectionIO, error: Exception) -> None:
        """Our own code raised `error` while it served this connection: to be logged, counted and closed."""

    def await_events(self, fd: int, mask: int) -> None:
        """Wait for `mask` on `fd` from now on."""


class ReceiveBuffer:
    """The one receive buffer of the process. Between turns it holds nothing: connections keep incomplete frames."""

    def __init__(self, size: int = BUFFER_BYTES) -> None:
        self.resize(size)

    def resize(self, size: int) -> None:
        """A fresh buffer of `size` bytes (including the slack)."""
        self.raw = bytearray(size)
        self.view = memoryview(self.raw)
        self.limit = size - SLACK
        self.whole = self.view[: self.limit]


class ConnectionIO:
    """One transport with its engine connection."""

    def __init__(self, owner: Owner, sock: socket.socket, conn: Connection, buffer: ReceiveBuffer) -> None:
        self.owner = owner
        self.sock = sock
        self.fd = sock.fileno()
        self.conn = conn
        self.buffer = buffer
        self.tail = b""
        self.open = True
        self.blocked = False
        self.info: Any = None

    def on_event(self, mask: int) -> None:
        """epoll has something for us. Each connection reads once in a turn, so that all get their share."""
        if mask & EPOLLOUT and self.open:
            self.write()
        if mask & ~EPOLLOUT and self.open:
            self.read()

    def read(self) -> None:
        """Read what is there, up to the buffer's end, and let the engine handle all complete frames."""
        buffer = self.buffer
        left = len(self.tail)
        try:
            if left:
                if left * 2 > buffer.limit:  # a frame may be as long as the configured maxFrameSize
                    buffer.resize(left * 4)
                buffer.view[:left] = self.tail
                count = self.receive(buffer.view[left : buffer.limit])
            else:
                count = self.receive(buffer.whole)
        except OSError as error:
            self.owner.ended(self, error.strerror or str(error))
            return
        if count > 0:
            self.feed(left + count)
        elif count == 0:
            self.owner.ended(self, "closed by the peer")

    def feed(self, count: int) -> None:
        """Hand `count` bytes of the shared buffer to the engine and keep the tail that is no complete frame."""
        view = self.buffer.view
        try:
            used = self.conn.receive(view, count)
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if used < count:
            self.tail = bytes(view[used:count])
        elif self.tail:
            self.tail = b""
        if self.conn.done:
            self.write()

    def flush(self) -> None:
        """Turn what the engine collected in this turn into bytes and write them."""
        try:
            self.conn.flush()
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if not self.blocked:
            self.write()

    def write(self) -> None:
        """Write what is pending; wait for room when the socket takes no more."""
        conn = self.conn
        try:
            size = conn.end - conn.off
            if size:
                sent = self.send(conn.pending())
                if sent:
                    conn.sent(sent)
                if sent < size:
                    if not self.blocked:
                        self.blocked = True
                        self.owner.await_events(self.fd, EPOLLIN | EPOLLOUT)
                    return
            if self.blocked:
                self.blocked = False
                self.owner.await_events(self.fd, EPOLLIN)
            if conn.done:
                self.owner.finished(self)
        except OSError as error:
            self.owner.ended(self, error.strerror or str(error))
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)

    # ---- the transport; TLS overrides these

    def receive(self, into: memoryview) -> int:
        """Read once into `into`: count of bytes, 0 at the end of the stream, -1 when nothing is there now."""
        try:
            return self.sock.recv_into(into)
        except BlockingIOError:
            return -1

    def send(self, view: memoryview) -> int:
        """Write some of `view`: count of bytes taken, 0 when there is no room now."""
        try:
            return self.sock.send(view)
        except BlockingIOError:
            return 0


def flush_all(dirty: list[Connection], connections: Mapping[Connection, ConnectionIO]) -> None:
    """Write to every connection that has something to say, once; `dirty` is empty afterwards.

    A flush may make further connections dirty (one that fails takes its links along): they are appended while we walk.
    """
    for conn in dirty:
        io = connections.get(conn)
        if io is not None:
            io.flush()
    dirty.clear()
