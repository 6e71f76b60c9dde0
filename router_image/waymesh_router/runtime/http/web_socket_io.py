"""A connection over a WebSocket, with a `WebSocketStream` between the socket (plain or TLS) and the engine."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Protocol

from waymesh_router.runtime.http.web_socket import WebSocketStream
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.connection_io import ConnectionIO, Owner
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer, read_once

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

READ_BYTES = 16384
"""Limits the frames of a peer in one read."""
MESSAGE_BYTES = 16380
"""Maximum number of AMQP bytes in a message: with its header, it fills one TLS record."""
READS_PER_TURN = 8
NOTHING_NOW = -1
_NOT_READY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Host(Owner, Protocol):
    """Calls to the host."""

    def finished(self, io: ConnectionIO, reason: str = "closed") -> None:
        """All output is written: close the socket when the peer has had time to read."""


class WebSocketIO(ConnectionIO):
    """A connection whose bytes are sent in the messages of a WebSocket. `_out`: the rest of a frame that the socket
    accepted in part; `_payload`: the number of AMQP bytes in it, which count as sent when the whole frame is sent."""

    def __init__(
        self, owner: Host, sock: Transport, conn: Connection, buffer: ReceiveBuffer, stream: WebSocketStream
    ) -> None:
        super().__init__(_StreamOwner(owner), sock, conn, buffer)
        self.stream = stream
        self._out = b""
        self._payload = 0
        if isinstance(sock, TlsSocket) and sock.more:  # the client did not wait for the answer
            self.more = True
            self.queue()

    def receive(self, start: int) -> int:
        """Read AMQP bytes into the buffer from offset `start`, like `ConnectionIO.receive`. Raises OSError."""
        for _ in range(READS_PER_TURN):
            if self.stream.over():
                if self.stream.refused:
                    raise ConnectionAbortedError(self.stream.ended)
                return 0  # "closed by the peer"
            count = self._read(start)
            if count <= 0:
                return count
            data = self.stream.receive(bytes(self.buffer.view[start : start + count]))
            self._write_answers()
            if self.stream.over():  # then epoll reports the end of the input, and the next read returns it
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RD)
            if data:
                self.buffer.view[start : start + len(data)] = data
                return len(data)
        return NOTHING_NOW

    def send(self, size: int) -> int:
        """Write pending bytes as messages. The bytes of a frame that the socket accepted in part cannot be overtaken.
        """
        taken = 0
        while True:
            if not self._write_out():
                return taken
            taken += self._payload
            self._payload = 0
            if self.stream.answers:
                self._take_answers()
            elif taken < size and not self.stream.over():
                data = bytes(self.conn.pending()[taken : min(size, taken + MESSAGE_BYTES)])
                self._out, self._payload = self.stream.frame(data), len(data)
                self.conn.offered(taken + len(data))
            else:
                return size if self.stream.over() else taken  # the peer ignores bytes after a close frame

    def close_stream(self) -> None:
        """Close the stream of the WebSocket, if the socket accepts the frame at once. The engine has nothing to send.
        """
        if not self._out:
            self._out = self.stream.answers + self.stream.close()
            with contextlib.suppress(OSError):
                self._write_out()

    def _read(self, start: int) -> int:
        count: int
        if isinstance(self.sock, TlsSocket):
            count = self.sock.receive(self.buffer, start, READ_BYTES)
            self.more = self.sock.more
        else:
            count = read_once(self.fd, self.buffer, start, READ_BYTES)
        return count

    def _write_out(self) -> bool:
        """Write the rest of a frame; False if the socket is full."""
        while self._out:
            try:
                count = self.sock.send(self._out)
            except _NOT_READY:
                return False
            self._out = self._out[count:]
        return True

    def _write_answers(self) -> None:
        """Write answers at once unless a frame is sent in part; then they follow it."""
        if self.stream.answers and not self._out:
            self._take_answers()
            self._write_out()

    def _take_answers(self) -> None:
        self._out, self.stream.answers = self.stream.answers, b""


class _StreamOwner:
    """The owner of a `WebSocketIO`: closes the stream, then calls the owner of the connection."""

    def __init__(self, owner: Host) -> None:
        self._owner = owner
        self.failed, self.last_bytes_wait = owner.failed, owner.last_bytes_wait
        self.await_events = owner.await_events

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport or only the stream has ended. In the latter case, the peer gets time to read the last frame."""
        assert isinstance(io, WebSocketIO)
        if io.stream.over():
            self._owner.finished(io, reason)
        else:
            self._owner.ended(io, reason)

    def finished(self, io: ConnectionIO, reason: str = "closed") -> None:
        """The engine connection is closed and all its bytes are written."""
        assert isinstance(io, WebSocketIO)
        io.close_stream()
        self._owner.finished(io, reason)
