# cython: boundscheck=False
"""The fields of a flow frame. Spec: 2.7.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp import checks
from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import check_end, list_body, list_count, number, skip
    from cython.cimports.waymesh_amqp.wire import Octets, to_bytes
else:
    from waymesh_amqp.reading import check_end, list_body, list_count, number, skip
    from waymesh_amqp.wire import Octets, to_bytes

if TYPE_CHECKING:
    from waymesh_amqp.codec_values import Raw

FIELDS = cython.declare(cython.Py_ssize_t, 11)
"""Number of fields of a flow. Spec: 2.7.4."""


class IncomingFlow:
    """The current flow frame. A connection has one such object and reads each flow into it.

    Numbers are -1 if the frame does not have them.
    """

    def __init__(self) -> None:
        self.next_incoming_id = -1
        self.incoming_window = -1
        self.handle = -1
        self.delivery_count = -1
        self.link_credit = -1
        self.available = -1
        self.drain = False
        self.echo = False
        self.properties: Raw | None = None  # encoded; a peer can decode them

    def read(
        self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> None:
        """Read the field list at p of a frame that ends at `end`. Raises DecodeError."""
        n: cython.Py_ssize_t = list_count(b, p, end)
        v: cython.longlong
        if n < 4 or n > FIELDS:
            raise DecodeError(f"flow with {n} fields")
        end = skip(b, p, end)
        p = list_body(b, p)
        v = number(b, p, end)
        self.next_incoming_id = v >> 4
        p += v & 15
        v = number(b, p, end)
        if v < 0:
            raise DecodeError("flow without incoming-window")
        self.incoming_window = v >> 4
        p += v & 15
        p += number(b, p, end) & 15  # next-outgoing-id
        p += number(b, p, end) & 15  # outgoing-window
        self.handle = self.delivery_count = self.link_credit = self.available = -1
        self.drain = self.echo = False
        self.properties = None
        if n > 4:
            v = number(b, p, end)
            self.handle = v >> 4
            p += v & 15
        if n > 5:
            p = self.read_link_state(b, p, end, n)
        if p != end:
            check_end(p, end)

    def read_link_state(
        self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, n: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the fields after the handle in a list of n fields; returns the position after them."""
        v: cython.longlong = number(b, p, end)
        self.delivery_count = v >> 4
        p += v & 15
        if n > 6:
            v = number(b, p, end)
            self.link_credit = v >> 4
            p += v & 15
        if n > 7:
            v = number(b, p, end)
            self.available = v >> 4
            p += v & 15
        if n > 8:
            v = number(b, p, end)
            self.drain = v >> 4 == 1
            p += v & 15
        if n > 9:
            v = number(b, p, end)
            self.echo = v >> 4 == 1
            p += v & 15
        if n > 10:
            v = p
            p = skip(b, p, end)
            if b[v] != 0x40:
                self.properties = checks.flow_properties(to_bytes(b, v, p))
        return p
