# cython: boundscheck=False
"""The growing output buffer of a connection: frames are written in place, the transport takes bytes from the front."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import WritableOctets, copy, octets, read_u32
else:
    from waymesh_amqp.wire import WritableOctets, copy, octets, read_u32

IDLE_BYTES = 512
"""Size of the buffer of an idle connection."""
KEEP_BYTES = cython.declare(cython.Py_ssize_t, 2097152)
"""Larger buffers shrink as soon as they are empty, smaller ones when the connection is idle (`trim`)."""


FIRST_OF_SESSION = cython.declare(cython.int, 0x11)
LAST_OF_SESSION = cython.declare(cython.int, 0x17)
"""Descriptor codes from begin to end. Open, close and empty frames do not belong to a session. Spec: 2.7."""
HEADER_SIZE = cython.declare(cython.Py_ssize_t, 8)
HEADER_START = cython.declare(cython.uint, 0x414D5150)
"""A protocol header ("AMQP") read as the size of a frame. Spec: 2.2."""


class OutputBuffer:
    """`mem[off:end]` are the bytes to send."""

    def __init__(self) -> None:
        self.off = 0
        self.end = 0
        self.express = -1  # our channel whose frames `move_express_first` moves to the front; -1: none
        self.edge = 0  # start of a frame, at or before the first unsent frame; -1: unknown until the buffer is empty
        self.fixed = 0  # do not move bytes before this position: the transport may have taken them already
        self.mem = memoryview(b"")
        self.allocate(IDLE_BYTES)

    def allocate(self, cap: cython.Py_ssize_t) -> None:
        """Move the bytes to send into a new buffer of `cap` bytes."""
        live: cython.Py_ssize_t = self.end - self.off
        raw = bytearray(cap)
        self.keep_marks()
        if live:
            raw[:live] = self.mem[self.off : self.end]
        self.mem = memoryview(raw)
        if cython.compiled:
            view: cython.uchar[::1] = self.mem
            self.out = cython.address(view[0])
        else:
            self.out = self.mem
        self.cap = cap
        self.off = 0
        self.end = live

    def reserve(self, n: cython.Py_ssize_t) -> None:
        """Make room for n more bytes after `end`."""
        if self.cap - self.end < n:
            live: cython.Py_ssize_t = self.end - self.off
            cap: cython.Py_ssize_t = self.cap
            if live + n <= cap and live <= self.off:
                self.move_to_start()
                return
            while cap < live + n:
                cap *= 2
            self.allocate(cap)

    def move_to_start(self) -> None:
        """Move the bytes to send to the start of the buffer. At least as many were sent since they were last moved, so
        that a byte is moved once on average."""
        live: cython.Py_ssize_t = self.end - self.off
        self.keep_marks()
        if live:
            copy(self.out, 0, self.out, self.off, live)  # they do not overlap
        self.off = 0
        self.end = live

    def keep_marks(self) -> None:
        """Before a move of the bytes to send to the start of a buffer."""
        if self.end > self.off:
            if self.express >= 0:
                self.border()
            self.edge = self.edge - self.off if self.edge >= self.off else -1
            self.fixed = self.fixed - self.off if self.fixed > self.off else 0

    def put(self, data: bytes) -> None:
        """Append whole frames."""
        n: cython.Py_ssize_t = len(data)
        self.reserve(n)
        copy(self.out, self.end, octets(data), 0, n)
        self.end += n

    def pending(self) -> memoryview:
        """The bytes to write; valid until the next call of any method."""
        return self.mem[self.off : self.end]

    def consume(self, n: cython.Py_ssize_t) -> None:
        """The transport took n bytes."""
        self.off += n
        if self.off >= self.end:
            self.off = 0
            self.end = 0
            self.edge = 0
            self.fixed = 0
            if self.cap > KEEP_BYTES:
                self.allocate(IDLE_BYTES)

    def trim(self) -> None:
        """Free unused memory; for idle connections."""
        if self.off == self.end and self.cap > IDLE_BYTES:
            self.off = 0
            self.end = 0
            self.allocate(IDLE_BYTES)

    # ---- express frames
    def offered(self, n: cython.Py_ssize_t) -> None:
        """The transport has seen the next n bytes but taken none; it requires the same bytes on the next write."""
        self.fixed = self.off + n

    def border(self) -> cython.Py_ssize_t:
        """Start of the first frame of which nothing was sent; -1 if unknown."""
        size: cython.uint
        start: cython.Py_ssize_t = self.fixed if self.fixed > self.off else self.off
        while 0 <= self.edge < start:
            size = read_u32(self.out, self.edge)
            self.edge += HEADER_SIZE if size == HEADER_START else size
        return self.edge

    def move_express_first(self) -> None:
        """Move the unsent frames of the `express` channel before those of all others; their order stays."""
        p: cython.Py_ssize_t = self.border()
        size: cython.Py_ssize_t
        start: cython.Py_ssize_t = p
        b: WritableOctets = self.out
        first: list[bytes] = []
        rest: list[bytes] = []
        if p < 0:
            return
        while p < self.end:
            size = read_u32(b, p)
            if (
                size > 10
                and (b[p + 6] << 8 | b[p + 7]) == self.express
                and FIRST_OF_SESSION <= b[p + 10] <= LAST_OF_SESSION
            ):
                if p > start:
                    rest.append(bytes(self.mem[start:p]))
                first.append(bytes(self.mem[p : p + size]))
                start = p + size
            p += size
        if not rest:
            return  # they are already first
        rest.append(bytes(self.mem[start : self.end]))
        ordered = b"".join(first + rest)
        self.mem[self.edge : self.end] = ordered
