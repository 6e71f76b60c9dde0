# cython: boundscheck=False
"""Byte-level reading and writing for the hot path, without a Python object for each value.

Positions are offsets into a buffer with at least one whole frame. Each reader gets the end of the frame and raises
`DecodeError` instead of reading past it. Spec: 1.6.
"""

from __future__ import annotations

import struct

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    Octets = memoryview
    WritableOctets = memoryview

_U32 = struct.Struct(">I")
_unpack_u32 = _U32.unpack_from
_pack_u32 = _U32.pack_into

TRANSACTIONAL_STATE = b"amqp:transactional-state:list"
MAX_DESCRIPTOR_DEPTH = 4
"""Maximum nesting of descriptors: described descriptors are legal, though unused, and could overflow the stack."""


def truncated(what: str) -> DecodeError:
    """The error for input that ends inside `what`."""
    return DecodeError(f"truncated {what}")


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


def same(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, what: bytes) -> cython.bint:
    """Whether b[p:end] == what."""
    n: cython.Py_ssize_t = len(what)
    if end - p != n:
        return False
    if cython.compiled:
        w: Octets = octets(what)
        return n == 0 or memcmp(cython.address(b[p]), w, n) == 0
    return bytes(b[p:end]) == what


def skip(
    b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.int = 0
) -> cython.Py_ssize_t:
    """Position after the value at p. `depth`: number of enclosing descriptors."""
    if p >= end:
        raise truncated("value")
    k: cython.int = b[p]
    h: cython.int = k >> 4
    n: cython.Py_ssize_t
    if h == 0:
        if k != 0 or depth >= MAX_DESCRIPTOR_DEPTH:
            raise DecodeError(f"constructor 0x{k:02x} is not a type")
        p = skip(b, p + 1, end, depth + 1)
        return skip(b, p, end, depth + 1)
    p += 1
    if h == 4:
        return p
    if h == 5:
        n = p + 1
    elif h == 7:
        n = p + 4
    elif h == 0xA or h == 0xC or h == 0xE:
        if p >= end:
            raise truncated("value")
        n = p + 1 + b[p]
    elif h == 0xB or h == 0xD or h == 0xF:
        if end - p < 4:
            raise truncated("value")
        n = p + 4 + read_u32(b, p)
    elif h == 6:
        n = p + 2
    elif h == 8:
        n = p + 8
    elif h == 9:
        n = p + 16
    else:
        raise DecodeError(f"constructor 0x{k:02x} is not a type")
    if n > end:
        raise truncated("value")
    return n


def read_uint(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The uint, ubyte, ushort or boolean at p as a number; -1 for null."""
    if p >= end:
        raise truncated("integer")
    k: cython.int = b[p]
    if k == 0x43 or k == 0x42:
        return 0
    if k == 0x41:
        return 1
    if k == 0x40:
        return -1
    if k == 0x52 or k == 0x50 or k == 0x56:
        if end - p < 2:
            raise truncated("integer")
        return b[p + 1]
    if k == 0x70:
        if end - p < 5:
            raise truncated("integer")
        return read_u32(b, p + 1)
    if k == 0x60:
        if end - p < 3:
            raise truncated("integer")
        return b[p + 1] << 8 | b[p + 2]
    raise DecodeError(f"constructor 0x{k:02x} instead of an unsigned integer or boolean")


def list_count(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Number of elements of the list at p."""
    n: cython.Py_ssize_t
    if p >= end:
        raise truncated("list")
    k: cython.int = b[p]
    if k == 0x45:
        return 0
    if k == 0xC0:
        if end - p < 3:
            raise truncated("list")
        n = b[p + 2]
    elif k == 0xD0:
        if end - p < 9:
            raise truncated("list")
        n = read_u32(b, p + 5)
    else:
        raise DecodeError(f"constructor 0x{k:02x} instead of a list")
    if n > end - p:
        raise DecodeError(f"a list of {n} elements in {end - p} octets")
    return n


def list_body(b: Octets, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Position of the first element of the list at p (`list_count` has checked it)."""
    k: cython.int = b[p]
    if k == 0x45:
        return p + 1
    return p + 3 if k == 0xC0 else p + 9


def is_transactional(
    b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether the described value at p is a transactional-state. Spec: 4.5.8."""
    after: cython.Py_ssize_t = skip(b, p + 1, end)
    k: cython.int = b[p + 1]
    if k == 0x53:
        return b[p + 2] == 0x34
    if k == 0x80:
        return read_u32(b, p + 2) == 0 and read_u32(b, p + 6) == 0x34
    if k == 0xA3:
        return same(b, p + 3, after, TRANSACTIONAL_STATE)
    return k == 0xB3 and same(b, p + 6, after, TRANSACTIONAL_STATE)
