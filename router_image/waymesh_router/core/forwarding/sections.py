"""Where a message's sections are, found without decoding it. Spec: 3.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import Octets, list_body, list_count, read_uint, skip
else:
    from waymesh_amqp.wire import Octets, list_body, list_count, read_uint, skip

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

HEADER = cython.declare(cython.int, 0x70)
DELIVERY_ANNOTATIONS = cython.declare(cython.int, 0x71)
MESSAGE_ANNOTATIONS = cython.declare(cython.int, 0x72)
PROPERTIES = cython.declare(cython.int, 0x73)

TRUNCATED = 0
ENDED = 1
FOUND = 2


class Sections:
    """Result of a scan: b[start:head] is header and delivery-annotations, b[head:rest] the message-annotations section
    (empty if there is none), and what follows begins at `rest`."""

    def __init__(self) -> None:
        self.head = 0
        self.rest = 0
        self.header_at = -1

    def scan(self, transfer: IncomingTransfer) -> cython.int:
        """Scan a message: TRUNCATED where b ends inside a section, ENDED where it ends right behind one, else FOUND."""
        b: Octets = transfer.data
        p: cython.Py_ssize_t = transfer.start
        end: cython.Py_ssize_t = transfer.end
        code: cython.int = section_code(b, p, end)
        self.header_at = -1
        if code > MESSAGE_ANNOTATIONS:  # most messages: nothing stands before what is passed on
            self.head = self.rest = p
            return FOUND
        try:
            if code == HEADER:
                self.header_at = value_at(b, p)
                p = skip(b, self.header_at, end)
                code = section_code(b, p, end)
            if code == DELIVERY_ANNOTATIONS:
                p = skip(b, value_at(b, p), end)
                code = section_code(b, p, end)
            self.head = p
            if code == MESSAGE_ANNOTATIONS:
                p = skip(b, value_at(b, p), end)
                code = section_code(b, p, end)
            self.rest = p
        except DecodeError:
            return TRUNCATED
        return ENDED if code == -1 and p == end else (TRUNCATED if code == -1 else FOUND)

    def priority(self, transfer: IncomingTransfer) -> cython.int:
        """The header's priority, 4 where it does not say. Spec: 3.2.1."""
        b: Octets = transfer.data
        end: cython.Py_ssize_t = transfer.end
        if self.header_at < 0:
            return 4
        try:
            if list_count(b, self.header_at, end) < 2:
                return 4
            end = skip(b, self.header_at, end)
            v: cython.longlong = read_uint(b, skip(b, list_body(b, self.header_at), end), end)
        except DecodeError:
            return 4
        return 4 if v < 0 else (9 if v > 9 else v)

    def find_to(self, transfer: IncomingTransfer) -> cython.Py_ssize_t:
        """Position of the value of properties.to after a scan, -1 where there is none, -2 where more bytes are needed.

        Spec: 3.2.4.
        """
        b: Octets = transfer.data
        p: cython.Py_ssize_t = self.rest
        end: cython.Py_ssize_t = transfer.end
        code: cython.int = section_code(b, p, end)
        if code == -1:
            return -2
        if code != PROPERTIES:
            return -1
        p = value_at(b, p)
        try:
            if list_count(b, p, end) < 3:
                return -1
            end = skip(b, p, end)
        except DecodeError:
            return -2
        try:
            p = skip(b, skip(b, list_body(b, p), end), end)
            skip(b, p, end)
        except DecodeError:
            return -1
        return p


def section_code(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Descriptor code of the section at p; 0 for anything else, -1 where the bytes end before it is known."""
    if end - p < 3:
        return -1
    if b[p] != 0:
        return 0
    if b[p + 1] == 0x53:
        return b[p + 2]
    if b[p + 1] == 0x80:
        if end - p < 10:
            return -1
        return b[p + 9]
    return 0


def value_at(b: Octets, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Position of the value of the described section at p."""
    return p + 3 if b[p + 1] == 0x53 else p + 10
