# cython: boundscheck=False
"""A transfer frame that arrives, read without making a list of its fields. Spec: 2.7.5.

Bounds are not checked by the compiler: each index is compared with the frame's end before.
"""

from __future__ import annotations

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        is_transactional,
        list_body,
        list_count,
        octets,
        read_u32,
        read_uint,
        skip,
        truncated,
    )
else:
    from waymesh_amqp.wire import (
        Octets,
        is_transactional,
        list_body,
        list_count,
        octets,
        read_u32,
        read_uint,
        skip,
        truncated,
    )

LIST8 = cython.declare(cython.int, 0xC0)
_TRUE = cython.declare(cython.longlong, 1)


def number(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
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


class IncomingTransfer:
    """The transfer frame that is being handled. A connection has one, into which it reads each transfer.

    Numbers are -1 where the frame does not have them.
    """

    def __init__(self) -> None:
        self.data = octets(b"")  # what the frame was received in; the positions below are offsets into it
        self.memory: bytes | None = None  # keeps `data` alive where nobody else does
        self.at = 0  # of the field list
        self.start = 0  # of the payload
        self.end = 0  # of the frame
        self.first = True  # whether it begins a delivery
        self.handle = -1
        self.delivery_id = -1
        self.tag_bytes = -1
        self.message_format = -1
        self.settled = False
        self.more = False
        self.resume = False
        self.aborted = False
        self.transactional = False  # whether its state says that the delivery belongs to a transaction

    def payload(self) -> bytes:
        """A copy of what the frame has of the message."""
        return bytes(self.data[self.start : self.end])

    def read(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Read the field list at p of a frame in `data` that ends at `end`. Raises DecodeError."""
        b: Octets = self.data
        n: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        v: cython.longlong
        self.at = p
        self.end = end
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
        self.start = stop
        if n < 1:
            raise DecodeError("transfer without a handle")
        v = number(b, p, stop)
        self.handle = v >> 4
        p += v & 15
        self.delivery_id = self.tag_bytes = self.message_format = -1
        self.settled = self.more = self.resume = self.aborted = self.transactional = False
        if n > 1:
            v = number(b, p, stop)
            self.delivery_id = v >> 4
            p += v & 15
        if n > 2:
            p = self.read_tag(p, stop)
        if n > 3:
            v = number(b, p, stop)
            self.message_format = v >> 4
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
            self.read_rare(p, stop, n)

    def read_rare(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t, n: cython.Py_ssize_t) -> None:
        """What is behind `more` in a list of n fields: rcv-settle-mode, state, resume, aborted, batchable."""
        b: Octets = self.data
        p = skip(b, p, end)
        if n > 7:
            self.transactional = p < end and b[p] == 0 and is_transactional(b, p, end)
            p = skip(b, p, end)
        if n > 8:
            self.resume = read_uint(b, p, end) == _TRUE
            p = skip(b, p, end)
        if n > 9:
            self.aborted = read_uint(b, p, end) == _TRUE

    def read_tag(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Length of the delivery-tag at p; the position behind it."""
        b: Octets = self.data
        after: cython.Py_ssize_t
        if p >= end:
            raise truncated("transfer")
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


def whole_transfer(payload: bytes, more: cython.bint) -> IncomingTransfer:
    """The first frame of a delivery, with this payload and without anything else."""
    transfer: IncomingTransfer = IncomingTransfer()
    transfer.memory = payload
    transfer.data = octets(payload)
    transfer.end = len(payload)
    transfer.more = more
    return transfer
