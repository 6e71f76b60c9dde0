"""The fields of a transfer, read without making a list of them. Spec: 2.7.5."""

from __future__ import annotations

import struct

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import is_transactional, list_body, list_count, read_uint, skip
else:
    from waymesh_amqp.wire import is_transactional, list_body, list_count, read_uint, skip

_unpack_u32 = struct.Struct(">I").unpack_from
_CONSTANTS = {0x40: -1, 0x41: 1, 0x42: 0, 0x43: 0}
_STATE = 7
_TAG = 2
_OTHER = -3


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
        if not cython.compiled:
            return self.read_interpreted(b, p, end)
        n: cython.Py_ssize_t = list_count(b, p, end)
        body: cython.Py_ssize_t = skip(b, p, end)
        if n < 1:
            raise DecodeError("transfer without a handle")
        self.did = -1
        self.tag_bytes = -1
        self.form = 0
        self.settled = self.more = self.resume = self.aborted = self.transactional = False
        p = list_body(b, p)
        self.handle = read_uint(b, p, body)
        p = skip(b, p, body)
        if n > 1:
            self.did = read_uint(b, p, body)
            p = skip(b, p, body)
        if n > 2:
            p = self.read_tag(b, p, body)
        if n > 3:
            self.form = read_uint(b, p, body)
            p = skip(b, p, body)
        if n > 4:
            self.settled = read_uint(b, p, body) == 1
            p = skip(b, p, body)
        if n > 5:
            self.more = read_uint(b, p, body) == 1
            p = skip(b, p, body)
        if n > 7:
            p = skip(b, p, body)
            if p < body and b[p] == 0:
                self.transactional = is_transactional(b, p, body)
        if n > 8:
            p = skip(b, p, body)
            self.resume = read_uint(b, p, body) == 1
            p = skip(b, p, body)
        if n > 9:
            self.aborted = read_uint(b, p, body) == 1
        return body

    def read_tag(
        self, b: cython.const[cython.uchar][::1], p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Length of the delivery-tag at p; the position behind it."""
        after: cython.Py_ssize_t = skip(b, p, end)
        if b[p] == 0xA0:
            self.tag_bytes = after - p - 2
        elif b[p] == 0xB0:
            self.tag_bytes = after - p - 5
        elif b[p] != 0x40:
            raise DecodeError("a delivery-tag that is no binary")
        return after

    def read_interpreted(self, b: memoryview, p: int, end: int) -> int:
        """The same with as few calls as CPython can do it in: bytes are looked at one by one in one loop."""
        n = list_count(b, p, end)
        stop = skip(b, p, end)
        p = list_body(b, p)
        values = [-1, -1, -1, -1, 0, 0, -1, -1, 0, 0, 0]
        self.tag_bytes = -1
        self.transactional = False
        if n < 1:
            raise DecodeError("transfer without a handle")
        for i in range(n if n < 11 else 11):
            k = b[p] if p < stop else -1
            if k in _CONSTANTS:
                values[i] = _CONSTANTS[k]
                p += 1
            elif i == _TAG:
                p = self.read_tag(b, p, stop)
            elif k == 0x70 and stop - p >= 5:
                values[i] = _unpack_u32(b, p + 1)[0]
                p += 5
            elif i == _STATE:
                self.transactional = k == 0 and is_transactional(b, p, stop)
                p = skip(b, p, stop)
            else:
                values[i] = read_uint(b, p, stop)
                p = skip(b, p, stop)
        self.handle, self.did, _, self.form = values[:4]
        self.settled, self.more = values[4] == 1, values[5] == 1
        self.resume, self.aborted = values[8] == 1, values[9] == 1
        return stop


FIELDS = TransferFields()
"""Filled and emptied within one call of `Session.on_transfer`, so one is enough."""
