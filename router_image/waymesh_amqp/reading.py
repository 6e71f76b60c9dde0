# cython: boundscheck=False
"""Reads encoded values for the hot path, without a Python object for each value. Spec: 1.6.

Positions are offsets into a buffer with at least one whole frame. Each reader gets the end of the frame and raises
`DecodeError` instead of reading past it; bounds checks are off.
"""

from __future__ import annotations

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import Octets, read_u32
else:
    from waymesh_amqp.wire import Octets, read_u32

MAX_DESCRIPTOR_DEPTH = 4
"""Maximum nesting of descriptors: described descriptors are legal, though unused, and could overflow the stack."""


def truncated(what: str) -> DecodeError:
    """The error for input that ends inside `what`."""
    return DecodeError(f"truncated {what}")


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


def number(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The unsigned integer, boolean or null (-1) at p, times 16, plus its size in octets."""
    if p >= end:
        raise truncated("integer")
    k: cython.int = b[p]
    wide: cython.longlong
    if k == 0x43 or k == 0x42:
        return 1
    if k == 0x41:
        return 17
    if k == 0x52 and end - p >= 2:
        return b[p + 1] * 16 + 2
    if k == 0x70 and end - p >= 5:
        wide = read_u32(b, p + 1)  # before it is multiplied; cython.cast would cost the interpreted engine two calls
        return wide * 16 + 5
    return read_uint(b, p, end) * 16 + (skip(b, p, end) - p)


def strict_flag(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """The boolean at p, times 16, plus its size in octets; null is false. For a field whose bytes are passed on."""
    if p >= end:
        raise truncated("boolean")
    k: cython.int = b[p]
    if k == 0x40 or k == 0x42:
        return 1
    if k == 0x41:
        return 17
    if k == 0x56 and end - p >= 2 and b[p + 1] <= 1:
        return b[p + 1] * 16 + 2
    raise DecodeError(f"constructor 0x{k:02x} instead of a boolean")


def check_end(p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
    """Raise DecodeError unless p, the position after the last field of a list, is the end of the list."""
    if p != end:
        raise DecodeError(f"{end - p} octets behind the last field of a list")
