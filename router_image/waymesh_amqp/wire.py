# cython: boundscheck=False
"""Octets and serial numbers for the hot path, without a Python object for each value. Spec: 1.6, 2.8.10.

Positions are offsets into a buffer with at least one whole frame. The caller checks the bounds.
"""

from __future__ import annotations

import struct

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    Octets = memoryview
    WritableOctets = memoryview

_U32 = struct.Struct(">I")
_unpack_u32 = _U32.unpack_from
_pack_u32 = _U32.pack_into


if not cython.compiled:  # compiled, wire.pxd has these as inline functions

    def octets(data: bytes) -> memoryview:
        """The bytes as argument of the functions below; `data` must outlive the result."""
        return memoryview(data)

    def to_bytes(b: memoryview, p: int, end: int) -> bytes:
        """A copy of b[p:end]. In compiled code, `bytes(b[p:end])` would also call the type, which looks up a method."""
        return bytes(b[p:end])

    def read_u32(b: memoryview, p: int) -> int:
        """The four octets at p; the caller has checked the bounds."""
        value: int = _unpack_u32(b, p)[0]
        return value

    def write_u32(b: memoryview, p: int, v: int) -> None:
        """Write v as four octets at p; the caller has reserved room."""
        _pack_u32(b, p, v)

    def frame_start(o: memoryview, p: int, size: int, channel: int, code: int) -> None:
        """Write frame header and descriptor of a performative, 11 octets; the caller has reserved room. Spec: 2.3.1."""
        _pack_u32(o, p, size)
        _pack_u32(o, p + 4, 0x02000000 | channel)
        o[p + 8] = 0
        o[p + 9] = 0x53
        o[p + 10] = code

    def serial_gap(a: int, b: int) -> int:
        """How far serial number a is ahead of b, negative if it is behind. Spec: 2.8.10 (RFC 1982)."""
        return ((a - b + 0x80000000) & 0xFFFFFFFF) - 0x80000000

    def serial_add(a: int, n: int) -> int:
        """Serial number a + n, wrapped."""
        return (a + n) & 0xFFFFFFFF

    def copy(dst: memoryview, d: int, src: memoryview, s: int, n: int) -> None:
        """dst[d:d+n] = src[s:s+n]; both ranges exist."""
        if n > 0:
            dst[d : d + n] = src[s : s + n]

    def equal(a: memoryview, p: int, b: memoryview, q: int, n: int) -> bool:
        """Whether a[p:p+n] == b[q:q+n]; both ranges exist."""
        return a[p : p + n] == b[q : q + n]


def same(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, what: bytes) -> cython.bint:
    """Whether b[p:end] == what."""
    n: cython.Py_ssize_t = len(what)
    if end - p != n:
        return False
    if cython.compiled:
        w: Octets = octets(what)
        return n == 0 or memcmp(cython.address(b[p]), w, n) == 0
    return bytes(b[p:end]) == what
