"""Where connections receive bytes: one buffer for all, and one of its own for each long frame that is incomplete.

Compiled, a read creates no Python object.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import cython

if cython.compiled:
    from cython.cimports.libc.errno import EAGAIN, EINTR, errno
    from cython.cimports.posix.unistd import read as read_descriptor

if TYPE_CHECKING:
    from waymesh_router.runtime.transport.connection_io import ConnectionIO

BUFFER_BYTES = 280645
SLACK = cython.declare(cython.Py_ssize_t, 64)
"""Bytes after the received ones that the engine may read (their content is ignored), to save bounds checks."""
KEPT_APART = cython.declare(cython.Py_ssize_t, 131072)
"""Bytes of an incomplete frame from which on it is kept in a buffer of its own: half of what is read at once, so that
what is copied back in front of a read is no more than the read."""
ROOM = cython.declare(cython.Py_ssize_t, 149509)
"""Bytes for which there must be room: BUFFER_BYTES without the slack and KEPT_APART."""
MOST = cython.declare(cython.Py_ssize_t, 262144)
"""Bytes of a read: BUFFER_BYTES without the slack and the largest TLS record. What is left of a read into a large
buffer fits into that of the process, see `TlsSocket.receive`."""
NOTHING_NOW = cython.declare(cython.int, -1)


class ReceiveBuffer:
    """Bytes that were received. That of the process is empty between turns: connections keep incomplete frames.

    `ready`: connections with complete frames left for the next turn, because their budget was used up.
    """

    def __init__(self, size: int = BUFFER_BYTES) -> None:
        """`size`: in bytes, including the slack."""
        self.ready: list[ConnectionIO] = []
        self.resize(size)

    def resize(self, size: cython.Py_ssize_t) -> None:
        """Allocate a new buffer of `size` bytes (including the slack)."""
        self.view = memoryview(bytearray(size))
        self.octets = self.view
        self.limit = size - SLACK

    def make_room(self, kept: cython.Py_ssize_t) -> None:
        """Have room for a read behind the first `kept` bytes, which stay. It doubles, so that each byte of a frame is
        copied about once."""
        if self.limit - kept < ROOM:
            view = self.view[:kept]
            self.resize(2 * (kept + ROOM))
            self.view[:kept] = view


def read_once(
    fd: cython.int, buffer: ReceiveBuffer, start: cython.Py_ssize_t, most: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Read once from a descriptor, at most `most` bytes, into the buffer from offset `start`. Returns the number of
    bytes, 0 at the end of the stream, or NOTHING_NOW. Raises OSError."""
    room: cython.Py_ssize_t = min(buffer.limit - start, most, MOST)
    if cython.compiled:
        count: cython.Py_ssize_t = read_descriptor(fd, cython.address(buffer.octets[start]), room)
        return count if count >= 0 else failure(NOTHING_NOW)
    try:
        return os.readv(fd, [buffer.view[start : start + room]])
    except BlockingIOError:
        return NOTHING_NOW


def failure(to_wait: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """`to_wait` if the failed system call can be repeated later. Raises OSError."""
    if errno in (EAGAIN, EINTR):
        return to_wait
    raise OSError(errno, os.strerror(errno))
