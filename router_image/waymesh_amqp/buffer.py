# cython: boundscheck=False
"""The growing output buffer of a connection: frames are written in place, the transport takes them from the front."""

from __future__ import annotations

import cython

IDLE_BYTES = 512
"""Size of the buffer of a connection that has nothing to say."""
KEEP_BYTES = cython.declare(cython.Py_ssize_t, 2097152)
"""A larger drained buffer shrinks at once; smaller ones when the connection has been quiet for a while (`trim`)."""


class OutputBuffer:
    """Bytes [off:end] of `mem` wait to be sent."""

    def __init__(self) -> None:
        self.off = 0
        self.end = 0
        self.mem = memoryview(b"")
        self.allocate(IDLE_BYTES)

    def allocate(self, cap: cython.Py_ssize_t) -> None:
        """Move what waits into a new buffer of cap bytes."""
        live: cython.Py_ssize_t = self.end - self.off
        raw = bytearray(cap)
        if live:
            raw[:live] = self.mem[self.off : self.end]
        self.mem = memoryview(raw)
        self.out = self.mem
        self.cap = cap
        self.off = 0
        self.end = live

    def reserve(self, n: cython.Py_ssize_t) -> None:
        """Make room for n more bytes behind `end`."""
        if self.cap - self.end < n:
            cap: cython.Py_ssize_t = self.cap
            while cap < self.end - self.off + n:
                cap *= 2
            self.allocate(cap)

    def put(self, data: bytes) -> None:
        """Append whole frames."""
        n: cython.Py_ssize_t = len(data)
        self.reserve(n)
        self.mem[self.end : self.end + n] = data
        self.end += n

    def pending(self) -> memoryview:
        """The bytes to write now; valid until the next call of any method."""
        return self.mem[self.off : self.end]

    def consume(self, n: cython.Py_ssize_t) -> None:
        """The transport took n bytes."""
        self.off += n
        if self.off >= self.end:
            self.off = 0
            self.end = 0
            if self.cap > KEEP_BYTES:
                self.allocate(IDLE_BYTES)

    def trim(self) -> None:
        """Give memory back; for connections that have been quiet for a while."""
        if self.off == self.end and self.cap > IDLE_BYTES:
            self.off = 0
            self.end = 0
            self.allocate(IDLE_BYTES)
