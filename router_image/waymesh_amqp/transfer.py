# cython: boundscheck=False
"""The fields of a transfer, read without making a list of them. Spec: 2.7.5.

Bounds are not checked by the compiler: each index is compared with the frame's end before.
"""

from __future__ import annotations

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import (
        is_transactional,
        list_body,
        list_count,
        read_u32,
        read_uint,
        skip,
        truncated,
    )
else:
    from waymesh_amqp.wire import (
        is_transactional,
        list_body,
        list_count,
        read_u32,
        read_uint,
        skip,
        truncated,
    )

LIST8 = cython.declare(cython.int, 0xC0)
_TRUE = cython.declare(cython.longlong, 1)


def number(b: cython.const[cython.uchar][::1], p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The unsigned integer, boolean or null (-1) at p, times 16, plus the count of octets that it takes."""
    if p >= end:
        raise truncated("transfer")
    k: cython.int = b[p]
    if k == 0x43 or k == 0x42:
        return 1
    if k == 0x41:
        return 17
    if k == 0x52 and end - p >= 2:
        return b[p + 1] * 16 + 2
    if k == 0x70 and end - p >= 5:
        return cython.cast(cython.longlong, read_u32(b, p + 1)) * 16 + 5
    return read_uint(b, p, end) * 16 + (skip(b, p, end) - p)


class TransferFields:
    """What the last `read` found, -1 for an absent number. `tag_bytes`: length of the delivery-tag, -1 if absent.
    `at`: where the list begins. `transactional`: the state says that the delivery belongs to a transaction."""

    def __init__(self) -> None:
        self.at = 0
        self.handle = -1
        self.did = -1
        self.tag_bytes = -1
        self.form = 0
        self.settled = False
        self.more = False
        self.resume = False
        self.aborted = False
        self.transactional = False

    def read(
        self, b: cython.const[cython.uchar][::1], p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the list at p; where it ends, and the payload begins. Raises DecodeError."""
        self.at = p
        n: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        v: cython.longlong
        if end - p >= 3 and b[p] == LIST8:
            stop = p + 2 + b[p + 1]
            n = b[p + 2]
            p += 3
            if stop > end:
                raise truncated("transfer")
        else:
            n = list_count(b, p, end)
            stop = skip(b, p, end)
            p = list_body(b, p)
        if n < 1:
            raise DecodeError("transfer without a handle")
        v = number(b, p, stop)
        self.handle = v >> 4
        p += v & 15
        self.did = self.tag_bytes = self.form = -1
        self.settled = self.more = self.resume = self.aborted = self.transactional = False
        if n > 1:
            v = number(b, p, stop)
            self.did = v >> 4
            p += v & 15
        if n > 2:
            p = self.read_tag(b, p, stop)
        if n > 3:
            v = number(b, p, stop)
            self.form = v >> 4
            p += v & 15
        if n > 4:
            v = number(b, p, stop)
            self.settled = v >> 4 == _TRUE
            p += v & 15
        if n > 5:
            v = number(b, p, stop)
            self.more = v >> 4 == _TRUE
            p += v & 15
        if n > 6:
            self.read_rare(b, p, stop, n)
        return stop

    def read_rare(
        self,
        b: cython.const[cython.uchar][::1],
        p: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        n: cython.Py_ssize_t,
    ) -> None:
        """What is behind `more` in a list of n fields: rcv-settle-mode, state, resume, aborted, batchable."""
        p = skip(b, p, end)
        if n > 7:
            self.transactional = p < end and b[p] == 0 and is_transactional(b, p, end)
            p = skip(b, p, end)
        if n > 8:
            self.resume = read_uint(b, p, end) == _TRUE
            p = skip(b, p, end)
        if n > 9:
            self.aborted = read_uint(b, p, end) == _TRUE

    def read_tag(
        self, b: cython.const[cython.uchar][::1], p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Length of the delivery-tag at p; the position behind it."""
        if p >= end:
            raise truncated("transfer")
        after: cython.Py_ssize_t
        if b[p] == 0xA0 and end - p >= 2:
            self.tag_bytes = b[p + 1]
            after = p + 2 + self.tag_bytes
            if after > end:
                raise truncated("delivery-tag")
            return after
        after = skip(b, p, end)
        if b[p] == 0xB0:
            self.tag_bytes = after - p - 5
        elif b[p] != 0x40:
            raise DecodeError("a delivery-tag that is no binary")
        return after


FIELDS = TransferFields()
"""Filled and emptied within one call of `Session.on_transfer`, so one is enough."""
