"""A connection over a WebSocket: between the socket, plain or TLS, and the engine stands a `WebSocketStream`."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Protocol

from waymesh_router.runtime.connection_io import ConnectionIO, Owner, ReceiveBuffer
from waymesh_router.runtime.http.web_socket import WebSocketStream
from waymesh_router.runtime.tls_socket import Transport

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection

READ_BYTES = 16384
"""At most one TLS record, so that OpenSSL holds no decrypted bytes back; and a peer cannot send more frames at once."""
MESSAGE_BYTES = 16380
"""AMQP bytes in a message: with its header, it fills one TLS record."""
READS_PER_TURN = 8
NOTHING_NOW = -1
_NOT_READY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Host(Owner, Protocol):
    """Calls to the host."""

    def finished(self, io: ConnectionIO, reason: str = "closed") -> None:
        """All is written: the socket is to be closed when the peer has had time to read."""


class WebSocketIO(ConnectionIO):
    """A connection whose bytes travel in the messages of a WebSocket. `out`: what is left of a frame that the socket
    took in part; `payload`: how many AMQP bytes it has, which count as sent when all of it is."""

    def __init__(
        self, owner: Host, sock: Transport, conn: Connection, buffer: ReceiveBuffer, stream: WebSocketStream
    ) -> None:
        super().__init__(_Parting(owner), sock, conn, buffer)
        self.stream = stream
        self._out = b""
        self._payload = 0

    def receive(self, start: int) -> int:
        """Read AMQP bytes into the buffer behind `start`, as `ConnectionIO.receive`. Raises OSError."""
        view = self.buffer.view[start : start + READ_BYTES]
        for _ in range(READS_PER_TURN):
            if self.stream.over():
                if self.stream.refused:
                    raise ConnectionAbortedError(self.stream.ended)
                return 0  # "closed by the peer"
            count = self._read(view)
            if count <= 0:
                return count
            data = self.stream.receive(bytes(view[:count]))
            self._write_answers()
            if self.stream.over():  # epoll reports an end of the input, and the next read finds it
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RD)
            if data:
                view[: len(data)] = data
                return len(data)
        return NOTHING_NOW

    def send(self, size: int) -> int:
        """Write pending bytes as messages. A frame that the socket took in part keeps its bytes in their place."""
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
                return size if self.stream.over() else taken  # nobody reads what follows a close

    def part(self) -> None:
        """The engine is through: end the stream of the WebSocket too, if the socket takes that at once."""
        if not self._out:
            self._out = self.stream.answers + self.stream.close()
            with contextlib.suppress(OSError):
                self._write_out()

    def _read(self, view: memoryview) -> int:
        try:
            return self.sock.recv_into(view)
        except _NOT_READY:
            return NOTHING_NOW
        except ssl.SSLEOFError:
            return 0

    def _write_out(self) -> bool:
        """Write what is left of a frame; False if the socket is full."""
        while self._out:
            try:
                count = self.sock.send(self._out)
            except _NOT_READY:
                return False
            self._out = self._out[count:]
        return True

    def _write_answers(self) -> None:
        """Write answers at once where no frame is under way; otherwise they follow it."""
        if self.stream.answers and not self._out:
            self._take_answers()
            self._write_out()

    def _take_answers(self) -> None:
        self._out, self.stream.answers = self.stream.answers, b""


class _Parting:
    """Stands between a `WebSocketIO` and its owner, so that the stream is ended before the transport is."""

    def __init__(self, owner: Host) -> None:
        self._owner = owner
        self.failed = owner.failed
        self.await_events = owner.await_events

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport is gone, or the stream: then its last frame waits to be read."""
        assert isinstance(io, WebSocketIO)
        if io.stream.over():
            self._owner.finished(io, reason)
        else:
            self._owner.ended(io, reason)

    def finished(self, io: ConnectionIO, reason: str = "closed") -> None:
        """The engine connection is closed and all its bytes are written."""
        assert isinstance(io, WebSocketIO)
        io.part()
        self._owner.finished(io, reason)
