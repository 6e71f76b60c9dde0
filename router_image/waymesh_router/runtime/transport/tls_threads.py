"""Threads that do TLS for connections with much traffic: they read, decrypt, encrypt and write (decision 0105).

A connection begins on the routing thread, with Python's `ssl`. After a few large reads or writes, it is lent to a
thread in C (tls_thread.h), which uses the same OpenSSL object. It comes back when it is quiet, when it closes, or when
anyone needs the object. In between, its data passes through two rings. Only the compiled engine has threads.
"""

from __future__ import annotations

import _ssl
import contextlib
import errno
import os
import select
import ssl
import sys
from typing import TYPE_CHECKING, Any

import cython

from waymesh_router.runtime.tls.sockets import TlsSocket
from waymesh_router.runtime.transport.connection_io import ConnectionIO, Owner
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tls_connection_io import TlsConnectionIO

if cython.compiled:
    from cython.cimports.libc.stdint import intptr_t
    from cython.cimports.waymesh_router.runtime.transport import tls_thread

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.runtime.loop import Loop

EPOLLIN = cython.declare(cython.int, select.EPOLLIN)
EPOLLOUT = cython.declare(cython.int, select.EPOLLOUT)
WHOLE = cython.declare(cython.Py_ssize_t, 1 << 40)
VERSIONS = ((3, 11), (3, 12), (3, 13))
"""CPython's versions whose `_ssl` objects are known to be laid out as tls_openssl.c expects."""
LARGE_BYTES = cython.declare(cython.Py_ssize_t, 4096)
"""A read or a write of at least this size counts as large."""
LARGE_ONES = cython.declare(cython.int, 3)
"""A connection moves to a thread after so many of them."""
READ_BYTES = cython.declare(cython.Py_ssize_t, 196608)
"""Maximum size of a read from a ring."""
QUIET_S = 1.0
QUIET_BYTES = cython.declare(cython.longlong, 4096)
"""A connection returns when fewer bytes passed in QUIET_S: heartbeats alone do not keep it."""
RING_BYTES = 786432
"""Memory of a connection that is with a thread."""
TEXTS = {errno.ENOMSG: "too many TLS records without data", errno.ENOBUFS: "the peer does not read TLS answers"}
"""Reasons for which tls_records.c has these numbers."""


def why_not() -> str:
    """Why there can be no threads here; "" if there can."""
    if not cython.compiled:
        return "the engine is not compiled"
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in VERSIONS:
        return f"they are not known to work with this version of Python, {sys.version.split()[0]}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "they do not work with a Python without a global lock"
    path = getattr(_ssl, "__file__", None)
    if path is None or not tls_thread.tls_find_functions(os.fsencode(path)):
        return "the functions of OpenSSL are not found in Python's library"
    return "" if _objects_are_known() else "the objects of Python's OpenSSL are not laid out as expected"


def _objects_are_known() -> bool:
    """Whether OpenSSL's objects are found behind Python's: what Python puts into the one memory is seen from C, as is
    what OpenSSL puts into the other."""
    inbox, outbox = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    subject = context.wrap_bio(inbox, outbox)
    found = object_of(subject)
    if not found:
        return False
    try:
        subject.do_handshake()
    except ssl.SSLWantReadError:
        inbox.write(b"\x16\x03\x03")
        seen = int(tls_thread.tls_in_memory(found, 0)), int(tls_thread.tls_in_memory(found, 1))
        return outbox.pending > 0 and seen == (3, outbox.pending)
    return False


def object_of(subject: Any) -> int:
    """The address of the `SSL` of an `ssl.SSLObject`, 0 if it is not where it is expected."""
    inner, context = subject._sslobj, subject.context
    known: type = _ssl._SSLSocket  # type: ignore[attr-defined]
    if type(inner) is not known or known.__basicsize__ < 5 * 8:  # the head of any object, and three addresses
        return 0
    return int(tls_thread.tls_of_object(id(inner), id(context)))


class TlsThreads:
    """The threads of a router. `most`: how many connections may be with them."""

    def __init__(self, loop: Loop, count: int, memory: int) -> None:
        """`memory`: bytes that all rings may have. Raises OSError if there can be no threads."""
        reason = why_not()
        if reason:
            raise OSError(errno.ENOTSUP, reason)
        self.loop = loop
        self.threads: list[TlsThread] = []
        self.most = max(memory // RING_BYTES, 1)
        self.watched = False
        try:
            for _ in range(count):
                self.threads.append(TlsThread(loop))
        except OSError:
            self.stop()
            raise

    def connection_io(self, owner: Owner, sock: Any, conn: Connection, buffer: ReceiveBuffer) -> ConnectionIO:
        """A connection on a plain or a TLS socket."""
        if isinstance(sock, TlsSocket):
            return MovingTlsIO(owner, sock, conn, buffer, self)
        return ConnectionIO(owner, sock, conn, buffer)

    def move(self, io: MovingTlsIO) -> None:
        """Lend a connection to the thread that has fewest, if there is memory and the connection is ready for it."""
        loads = [len(thread.moved) for thread in self.threads]
        if loads and sum(loads) < self.most and io.go(self.threads[loads.index(min(loads))]) and not self.watched:
            self.watched = True
            self.loop.call_later(QUIET_S, self.look)

    def look(self) -> None:
        """Take quiet connections back."""
        io: MovingTlsIO
        self.watched = False
        for thread in self.threads:
            for each in list(thread.moved.values()):
                io = each
                io.look()
            if thread.moved and not self.watched:
                self.watched = True
                self.loop.call_later(QUIET_S, self.look)

    def stop(self) -> None:
        """Take everything back, and end the threads."""
        for thread in self.threads:
            thread.stop()
        self.threads = []


class TlsThread:
    """A thread, and the events that it reports. `moved`: its connections, by descriptor."""

    def __init__(self, loop: Loop) -> None:
        """Raises OSError."""
        self.loop = loop
        self.moved: dict[int, MovingTlsIO] = {}
        self.handle: intptr_t = tls_thread.tls_start()
        if not self.handle:
            raise OSError(errno.EAGAIN, "no thread can be started")
        loop.register(tls_thread.tls_descriptor(self.handle), self)

    def on_event(self, mask: int) -> None:
        """Serve each connection with news once; epoll reports the others again."""
        io: MovingTlsIO
        for _ in range(len(self.moved) + 1):
            fd: cython.int = tls_thread.tls_next(self.handle)
            if fd < 0:
                return
            found = self.moved.get(fd)
            if found is not None:
                io = found
                try:
                    io.ready()
                except Exception as error:  # noqa: BLE001 - the edge of handlers
                    self.loop.on_error("while a connection with a thread was served", error)
                    io.abandon()

    def abandon(self) -> None:
        """Do not end the thread: others need it."""
        self.loop.register(tls_thread.tls_descriptor(self.handle), self)

    def stop(self) -> None:
        """End the thread. No effect if it has ended."""
        handle: intptr_t = self.handle
        if handle:
            for io in list(self.moved.values()):
                io.give_back()
            self.loop.unregister(tls_thread.tls_descriptor(handle))
            self.handle = 0
            with cython.nogil:
                tls_thread.tls_stop(handle)


def left_of(lent: intptr_t, which: cython.int) -> bytes:
    """What a thread has left of a connection that was taken back."""
    size: cython.Py_ssize_t = tls_thread.tls_left(lent, which)
    data = bytearray(size + 1)
    octets: cython.uchar[::1] = data
    tls_thread.tls_copy_left(lent, which, cython.address(octets[0]))
    return bytes(data[:size])


class MovingTlsIO(TlsConnectionIO):
    """A connection over TLS that moves to a thread and back. `lent`: what the thread has of it, 0 if it is here.
    `early`: data that the thread has decrypted and that was not read before it gave the connection back."""

    def __init__(
        self, owner: Owner, sock: TlsSocket, conn: Connection, buffer: ReceiveBuffer, threads: TlsThreads
    ) -> None:
        super().__init__(owner, sock, conn, buffer)
        self.threads = threads
        self.lent: intptr_t = 0
        self.early = b""
        self.busy = 0
        self.octets = self.octets_before = 0

    # ---- to and fro

    def consider(self) -> None:
        """A read or a write was large."""
        self.busy += 1
        if self.busy >= LARGE_ONES and self.conn.remote is not None:
            self.busy = 0
            self.threads.move(self)

    def go(self, thread: TlsThread) -> cython.bint:
        """Lend the connection to a thread; False if it cannot be lent now."""
        octets: cython.const[cython.uchar][::1]  # type: ignore[valid-type] # a memory view
        if self.lent or not self.open or self.blocked or self.early or self.conn.done:
            return False
        found: intptr_t = object_of(self.tls.tls)
        state = self.tls.lend(self) if found else None
        if state is None:
            return False
        held, length, seen, left, without_data = state
        octets = held + b"\0"  # never empty
        self.threads.loop.unregister(self.fd)
        self.lent = tls_thread.tls_lend(
            thread.handle, found, self.fd, cython.address(octets[0]), len(held), length, seen, left, without_data,
            self.portion < WHOLE,
        )  # fmt: skip
        if not self.lent:
            self.tls.returned(state, b"", False, None)
            self.threads.loop.register(self.fd, self, self.mask)
            self.more = self.tls.more
            return False
        self.thread = thread
        thread.moved[self.fd] = self
        self.octets_before = self.octets
        self.more = False
        return True

    def give_back(self) -> None:
        """Take the connection back, with all that the thread has of it. No effect if it is here."""
        lent: intptr_t = self.lent
        if not lent:
            return
        with cython.nogil:  # the thread may need Python's lock for what it does now
            tls_thread.tls_recall(lent)
        self.lent = 0
        self.thread.moved.pop(self.fd, None)
        error = self.error_of(lent)
        self.early = left_of(lent, tls_thread.TLS_DATA)
        held = left_of(lent, tls_thread.TLS_HELD)
        tls_thread.tls_encrypt_rest(lent)
        unsent = left_of(lent, tls_thread.TLS_UNSENT)
        kinds = tls_thread.TLS_LENGTH, tls_thread.TLS_SEEN, tls_thread.TLS_LEFT, tls_thread.TLS_WITHOUT_DATA
        length, seen, left, without_data = [tls_thread.tls_place(lent, kind) for kind in kinds]
        state = held, length, seen, left, without_data
        self.tls.returned(state, unsent, bool(tls_thread.tls_ended(lent)), error)
        tls_thread.tls_free(lent)
        self.come_back()

    def error_of(self, lent: intptr_t) -> OSError | None:
        """The error that ended the input, None if the peer ended it or it has not ended."""
        number: cython.int = tls_thread.tls_error(lent) if tls_thread.tls_ended(lent) else 0
        if not number:
            return None
        if number in TEXTS:
            return OSError(errno.EPROTO, TEXTS[number])
        if tls_thread.tls_reason(lent) != cython.NULL:
            reason: bytes = tls_thread.tls_reason(lent)
            return OSError(number, f"[SSL] {reason.decode('ascii', 'replace')}")
        return OSError(number, os.strerror(number))

    def come_back(self) -> None:
        """Be served by the loop again, unless the connection has ended."""
        flushed: cython.bint = False
        with contextlib.suppress(OSError):  # the next write reports it
            flushed = self.tls.flush_rest()
        if self.open:
            self.threads.loop.register(self.fd, self, self.mask)
            if not flushed:
                self.wait_for_room()
            self.more = True
            self.queue()

    def look(self) -> None:
        """Take the connection back if it was quiet."""
        passed: cython.longlong = self.octets - self.octets_before
        self.octets_before = self.octets
        if passed < QUIET_BYTES and not self.blocked and not self.queued and not self.has_input() and self.flushed():
            self.give_back()

    def has_input(self) -> cython.bint:
        """Whether the ring has data, or no more comes."""
        return bool(tls_thread.tls_input(self.lent) or tls_thread.tls_ended(self.lent))

    # ---- the rings

    def ready(self) -> None:
        """The thread has news: input, its end, or room for output that waits."""
        mask: cython.int = 0
        if self.open and self.lent:
            if self.has_input():
                self.more = True  # also if it cannot be read now
                mask = self.mask & EPOLLIN
            if self.blocked or tls_thread.tls_lost(self.lent):
                mask |= EPOLLOUT
            self.on_event(mask)

    def receive(self, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read once, as `ConnectionIO.receive`."""
        count: cython.Py_ssize_t
        lent: intptr_t = self.lent
        if not lent:
            if self.early:
                return self.read_early(start)
            count = TlsConnectionIO.receive(self, start)
            if count >= LARGE_BYTES:
                self.consider()
            return count
        count = min(self.buffer.limit - start, READ_BYTES)
        count = tls_thread.tls_take(lent, cython.address(self.buffer.octets[start]), count)
        if count > 0:
            self.octets += count
            self.more = self.has_input()
            return count
        self.more = False
        if count == 0:
            error = self.error_of(lent)
            if error is not None:
                raise error
        return count

    def read_early(self, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read what the thread had decrypted before the connection came back."""
        count: cython.Py_ssize_t = min(self.buffer.limit - start, READ_BYTES, len(self.early))
        self.buffer.view[start : start + count] = self.early[:count]
        self.early = self.early[count:]
        self.more = True
        return count

    def send(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write, as `ConnectionIO.send`: into the ring, whatever has room, unless the peer is slow."""
        count: cython.Py_ssize_t
        conn: Connection = self.conn
        if not self.lent:
            count = TlsConnectionIO.send(self, size)
            if count >= LARGE_BYTES:
                self.consider()
            return count
        if not tls_thread.tls_slow(self.lent):
            size = conn.end - conn.off
        count = tls_thread.tls_put(self.lent, cython.address(conn.out[conn.off]), size)
        if count < 0:
            raise OSError(tls_thread.tls_lost(self.lent), os.strerror(tls_thread.tls_lost(self.lent)))
        self.octets += count
        return count

    def write(self) -> None:
        """As `ConnectionIO.write`, after what the thread had encrypted before the connection came back."""
        if not self.lent and self.conn.end == self.conn.off and not self.leaving:
            try:
                if not self.tls.flush_rest():  # else `TlsSocket.encrypt` begins with it
                    self.wait_for_room()
                    return
            except OSError:
                self.peer_leaves()
                return
        if self.lent and tls_thread.tls_lost(self.lent) and not self.leaving:
            self.peer_leaves()
            return
        TlsConnectionIO.write(self)

    def flushed(self) -> cython.bint:
        """Whether the kernel has all that was written."""
        return not self.lent or bool(tls_thread.tls_flushed(self.lent))

    def wait_for(self, mask: cython.int) -> None:
        """Set the awaited events: of the loop, or of the thread."""
        if not self.lent:
            TlsConnectionIO.wait_for(self, mask)
            return
        if mask & EPOLLIN and not self.mask & EPOLLIN:
            self.more = True
            self.queue()
        self.mask = mask
        if mask & EPOLLOUT:
            done = self.conn.done and self.conn.end == self.conn.off
            tls_thread.tls_want(self.lent, tls_thread.TLS_FLUSHED if done else tls_thread.TLS_ROOM)
