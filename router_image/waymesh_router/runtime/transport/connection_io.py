"""The byte path of a connection: socket → engine → socket. The hot part of the runtime: plain classes, no closures.

`ConnectionIO` is a socket and its engine connection. Nothing here raises: any error of the network, the peer or the
router's own code ends this connection only.

Compiled, it reads and writes the descriptor itself: with the types of the engine, a read or a write creates no Python
object.
"""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Any, Protocol

import cython

from waymesh_amqp.peer_left import peer_left

if cython.compiled:
    from cython.cimports.posix.unistd import write as write_descriptor
    from cython.cimports.waymesh_router.runtime.transport.receive_buffer import (
        KEPT_APART,
        ReceiveBuffer,
        failure,
        read_once,
    )
else:
    from waymesh_router.runtime.transport.receive_buffer import KEPT_APART, ReceiveBuffer, read_once

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.runtime.tls.sockets import Transport

EPOLLIN = cython.declare(cython.int, select.EPOLLIN)
EPOLLOUT = cython.declare(cython.int, select.EPOLLOUT)
TURN_BUDGET = cython.declare(cython.longlong, 256)
"""Work that a connection may do in one turn; see `Connection.budget`. Equals the transfers of a session window, which
take about 0.25 ms, or one attach."""
CHUNK_BYTES = cython.declare(cython.Py_ssize_t, 16384)
"""Remaining input is passed to the engine in chunks of this size in later turns, so that little is copied in each."""
WHOLE = cython.declare(cython.Py_ssize_t, 1 << 40)
LITTLE_BYTES = 16384
MAX_UNSENT = 2097152
"""Unsent output of a client in bytes above which nothing more is read from it. Deliveries stop at half of it, so that
only answers to the client's own frames exceed it, or a large frame."""
TCP_NOTSENT_LOWAT = 25
"""From netinet/tcp.h; Python 3.11 has no name for it."""
PEER_LEFT = "closed by the peer"


class Owner(Protocol):
    """Calls from a `ConnectionIO` to the host."""

    def ended(self, io: ConnectionIO, reason: str) -> None:
        """The transport is gone (peer, network, time-out)."""

    def finished(self, io: ConnectionIO) -> None:
        """The engine connection is closed and all its bytes are written."""

    def last_bytes_wait(self, io: ConnectionIO) -> None:
        """The engine connection is closed, but the peer does not take its last bytes. Called once."""

    def failed(self, io: ConnectionIO, error: Exception) -> None:
        """The router's own code raised `error` for this connection: log and count it, and close the connection."""

    def await_events(self, fd: int, mask: int) -> None:
        """Wait for `mask` on `fd` from now on."""


class ConnectionIO:
    """A transport with its engine connection. `info` belongs to the host.
     `portion`: bytes to write at once while the transport is full, see `keep_little_unsent`. `most_unsent`: see
    `limit_unsent`. `mask`: the awaited events. `last`: the engine connection is closed, its last bytes wait. `tail`:
    received bytes, not yet handled from offset `used`. `buffer`: that of the process, `shared`, or one of its own while
    a long frame is incomplete, of which `kept` bytes have arrived and stay where they are. `paused`: it has complete
    frames for the next turns; nothing is read until then, so that others are served meanwhile. `more`: the transport
    has input that epoll does not report. `queued`: it continues in the next turn. `leaving`: the peer takes nothing
    more. `tap`: receives all bytes, for the log (runtime/log/tracing.py).
    """

    def __init__(self, owner: Owner, sock: Transport, conn: Connection, buffer: ReceiveBuffer) -> None:
        self.owner = owner
        self.sock = sock
        self.fd = sock.fileno()
        self.conn = conn
        self.shared = buffer
        self.buffer = buffer
        self.kept = 0
        self.tail = b""
        self.portion = WHOLE
        self.most_unsent = WHOLE
        self.mask = EPOLLIN
        self.used = 0
        self.paused = False
        self.more: cython.bint = False
        self.queued = False
        self.open = True
        self.blocked = False
        self.leaving = False
        self.last = False
        self.info: Any = None
        self.tap: Any = None

    def keep_little_unsent(self) -> None:
        """Keep most of the output for a slow peer in the router, where urgent frames can still overtake it."""
        self.portion = LITTLE_BYTES
        self.sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, LITTLE_BYTES)

    def limit_unsent(self) -> None:
        """Read nothing more while over MAX_UNSENT bytes of output wait, for a peer that sends but does not read. Not
        for a peer that may do the same: both would wait for each other."""
        self.most_unsent = MAX_UNSENT

    def on_event(self, mask: cython.int) -> None:
        """epoll reports an event. Each connection reads once per turn, so that all are served equally."""
        if mask & EPOLLOUT and self.open:
            self.write()
            if self.conn.unread and self.mask & EPOLLIN:
                mask |= EPOLLIN  # reads again: what the peer sent meanwhile counts before its idle time-out is checked
        if mask & ~EPOLLOUT and self.open and not self.queued:
            self.read()

    def abandon(self) -> None:
        """The host's code raised an error while handling an event of this connection."""
        if self.open:
            self.owner.ended(self, "internal error")
        self.sock.close()

    def read(self) -> cython.bint:
        """Read up to the size of the buffer; the engine handles all complete frames. False if nothing was read."""
        left: cython.Py_ssize_t = self.kept
        count: cython.Py_ssize_t
        if self.conn.unread:
            self.conn.unread = False
        if left:
            self.buffer.make_room(left)
        elif self.tail:
            left = len(self.tail)
            self.put_back(left)
        try:
            count = self.receive(left)
        except OSError as error:
            self.owner.ended(self, error.strerror or str(error))
            return False
        if count > 0:
            if self.tap is not None:
                self.tap.received(self.buffer.view[left : left + count])
            self.feed(left + count)
        elif count == 0:
            self.owner.ended(self, PEER_LEFT)
        if self.more:
            self.queue()
        return count > 0

    def peer_leaves(self) -> None:
        """The peer has closed its transport: drop the output. The connection ends at the end of the input, which is
        handled like other input, a little in each turn."""
        self.leaving = True
        self.blocked = False
        peer_left(self.conn)
        self.wait_for(EPOLLIN)
        self.drop_output()

    def drop_output(self) -> None:
        """The peer takes nothing more: free the memory of the output for it."""
        conn: Connection = self.conn
        if conn.end > conn.off:
            conn.sent(conn.end - conn.off)
        if conn.done and self.open:
            self.owner.ended(self, PEER_LEFT)

    def feed(self, count: cython.Py_ssize_t) -> None:
        """Pass `count` bytes of the shared buffer to the engine and keep the bytes that it did not use."""
        used: cython.Py_ssize_t
        conn: Connection = self.conn
        conn.budget = TURN_BUDGET
        try:
            used = conn.receive(self.buffer.octets, count)
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if self.buffer is not self.shared and self.keep(used, count):
            return
        if used < count:
            self.tail = bytes(self.buffer.view[used:count])
            if conn.budget <= 0:
                self.pause(0)
        elif self.tail:
            self.tail = b""
        self.buffer = self.shared
        if conn.done:
            self.write()

    def put_back(self, left: cython.Py_ssize_t) -> None:
        """Put the tail, of `left` bytes, in front of what is read next. If it is long, its frame is: then it stays in a
        buffer of its own, because each read would copy it, and all of a frame of many MiB many times."""
        if left > KEPT_APART:
            self.buffer = ReceiveBuffer(2 * (left + KEPT_APART))
        self.buffer.make_room(left)
        self.buffer.view[:left] = self.tail
        if left > KEPT_APART:
            self.kept = left
            self.tail = b""

    def keep(self, used: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.bint:
        """Keep the frame after `used` of the `count` bytes in the buffer of its own, if it is long and incomplete."""
        self.kept = count - used
        if self.kept <= KEPT_APART or self.conn.budget <= 0 or self.conn.done:
            self.kept = 0
            return False
        if used:
            self.buffer.view[: self.kept] = self.buffer.view[used:count]
        return True

    def rest(self) -> bytes:
        """Received bytes that the engine has not used yet."""
        if self.kept:
            return bytes(self.buffer.view[: self.kept])
        return self.tail[self.used :] if self.paused else self.tail

    def pause(self, used: cython.Py_ssize_t) -> None:
        """The budget is used up: continue at offset `used` of the tail in the next turn."""
        self.paused = True
        self.used = used
        self.queue()

    def queue(self) -> None:
        """Continue with the input in the next turn."""
        if not self.queued:
            self.queued = True
            self.shared.ready.append(self)

    def continue_input(self) -> None:
        """Pass the remaining input to the engine, with a new budget."""
        self.queued = False
        if not self.paused:
            if self.open and self.mask & EPOLLIN:  # else too much output waits: read when there is less
                self.read()
            return
        if not self.open:
            return
        self.paused = False
        try:
            self.handle_tail()
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if self.more:
            self.queue()
        if self.conn.done:
            self.write()

    def resume(self, answer: bytes) -> None:
        """The engine's answer, computed in a thread or by a service, is available: continue with the waiting input."""
        try:
            self.conn.resume(answer)
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if (self.kept or self.tail) and not self.conn.done:
            if not self.kept:
                self.put_back(len(self.tail))
            self.feed(self.kept or len(self.tail))

    def handle_tail(self) -> None:
        """Let the engine handle frames of the tail until its budget is used up, or no complete frame is left."""
        conn: Connection = self.conn
        tail: bytes = self.tail
        left: cython.Py_ssize_t = len(tail) - self.used
        size: cython.Py_ssize_t = left if left < CHUNK_BYTES else CHUNK_BYTES
        used: cython.Py_ssize_t
        conn.budget = TURN_BUDGET
        while True:
            if size > self.buffer.limit:
                self.buffer.resize(size * 2)
            self.buffer.view[:size] = tail[self.used : self.used + size]
            used = conn.receive(self.buffer.octets, size)
            self.used += used
            left -= used
            if conn.done or left == 0:
                self.tail = b""
                return
            if conn.budget <= 0:
                self.pause(self.used)
                return
            if used + left == size:  # the engine received all of it: no complete frame is left
                self.tail = tail[self.used :]
                return
            size = left if left < CHUNK_BYTES or used == 0 else CHUNK_BYTES  # a frame may be longer than a chunk

    def flush(self) -> None:
        """Encode and write everything that the engine collected in this turn."""
        try:
            self.conn.flush()
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)
            return
        if self.blocked:
            self.wait_for_room()
        else:
            self.write()

    def write(self) -> None:
        """Write pending bytes; if the socket is full, wait until it is writable."""
        conn: Connection = self.conn
        sent: cython.Py_ssize_t
        size: cython.Py_ssize_t
        try:
            if self.leaving:
                self.drop_output()
                return
            size = conn.end - conn.off
            if size:
                sent = self.send(self.portion if self.blocked and size > self.portion else size)
                if sent:
                    if self.tap is not None:
                        self.tap.sent(conn.pending()[:sent], sent < size or conn.end - conn.off > size)
                    conn.sent(sent)
                if sent < size:
                    self.wait_for_room()
                    return
            if self.blocked:
                self.blocked = False
                self.wait_for(EPOLLIN)
            if conn.done:
                if self.flushed():
                    self.owner.finished(self)
                else:
                    self.wait_for_room()
        except OSError:
            self.peer_leaves()
        except Exception as error:  # noqa: BLE001 - the connection edge
            self.owner.failed(self, error)

    def wait_for_room(self) -> None:
        """The socket is full: only then epoll waits until it is writable. Too much output: read nothing until then."""
        conn: Connection = self.conn
        self.blocked = True
        if conn.done and not self.last:
            self.last = True
            self.owner.last_bytes_wait(self)
        if conn.end - conn.off > self.most_unsent:
            conn.unread = True
            self.wait_for(EPOLLOUT)
        else:
            self.wait_for(EPOLLIN | EPOLLOUT)

    def wait_for(self, mask: cython.int) -> None:
        """Set the awaited events."""
        if mask != self.mask:
            self.mask = mask
            self.owner.await_events(self.fd, mask)

    # ---- the transport; TLS overrides these

    def flushed(self) -> cython.bint:
        """Whether the kernel has all that was written."""
        return True

    def receive(self, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read once into the buffer from offset `start`, as `read_once`."""
        return read_once(self.fd, self.buffer, start, WHOLE)

    def send(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write some of the `size` pending bytes. Returns how many were written, 0 if the socket is full. Raises
        OSError."""
        if cython.compiled:
            conn: Connection = self.conn
            count: cython.Py_ssize_t = write_descriptor(self.fd, cython.address(conn.out[conn.off]), size)
            return count if count >= 0 else failure(0)
        try:
            return self.sock.send(self.conn.pending()[:size])
        except BlockingIOError:
            return 0


def continue_all_inputs(buffer: ReceiveBuffer) -> None:
    """Let each connection with frames left from an earlier turn handle some of them, one connection after the other."""
    io: ConnectionIO
    ready = buffer.ready
    buffer.ready = []
    for each in ready:
        io = each
        io.continue_input()


def flush_all(dirty: list[Any], connections: dict[Any, Any]) -> None:
    """Write once to every connection that has pending output; `dirty` is empty afterwards.

    A flush may make further connections dirty (a failure detaches links): they are appended during the iteration."""
    io: ConnectionIO
    for conn in dirty:
        found = connections.get(conn)
        if found is not None:
            io = found
            io.flush()
    dirty.clear()
