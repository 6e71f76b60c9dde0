"""Finds the sections of a message without decoding it. Spec: 3.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import DecodeError

if cython.compiled:
    from cython.cimports.waymesh_amqp.reading import list_body, list_count, read_uint, skip
    from cython.cimports.waymesh_amqp.wire import Octets, read_u32, to_bytes
else:
    from waymesh_amqp.reading import list_body, list_count, read_uint, skip
    from waymesh_amqp.wire import Octets, read_u32, to_bytes

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

HEADER = cython.declare(cython.int, 0x70)
DELIVERY_ANNOTATIONS = cython.declare(cython.int, 0x71)
MESSAGE_ANNOTATIONS = cython.declare(cython.int, 0x72)
PROPERTIES = cython.declare(cython.int, 0x73)
SMALL_CODE = cython.declare(cython.int, 0x53)
SYMBOL = cython.declare(cython.int, 0xA3)
NAMES: dict[bytes, int] = {
    b"amqp:header:list": 0x70,
    b"amqp:delivery-annotations:map": 0x71,
    b"amqp:message-annotations:map": 0x72,
    b"amqp:properties:list": 0x73,
    b"amqp:application-properties:map": 0x74,
    b"amqp:data:binary": 0x75,
    b"amqp:amqp-sequence:list": 0x76,
    b"amqp:amqp-value:*": 0x77,
    b"amqp:footer:map": 0x78,
}
"""Codes of the sections by their symbolic descriptors. Spec: 3.2"""
LIST8 = cython.declare(cython.int, 0xC0)
SHORT_HEADER = cython.declare(cython.Py_ssize_t, 5)
USER_ID = cython.declare(cython.int, 1)
TO = cython.declare(cython.int, 2)
UNREADABLE = cython.declare(cython.int, -4)


class Sections:
    """Result of a scan: b[start:head] has header and delivery-annotations, b[head:rest] the message-annotations section
    (empty if there is none), and the other sections begin at `rest`."""

    def __init__(self) -> None:
        self.head = 0
        self.rest = 0
        self.header_at = -1

    def scan(self, transfer: IncomingTransfer) -> cython.bint:
        """Scan a message. False if header and annotations continue in a later frame, or end inside a section."""
        b: Octets = transfer.data
        p: cython.Py_ssize_t = transfer.start
        end: cython.Py_ssize_t = transfer.end
        code: cython.int = section_code(b, p, end)
        self.header_at = -1
        if code == HEADER and end - p > SHORT_HEADER and b[p + 1] == SMALL_CODE and b[p + 3] == LIST8:
            at: cython.Py_ssize_t = p + 3
            after: cython.Py_ssize_t = p + 5 + b[p + 4]
            code = section_code(b, after, end)
            if code > MESSAGE_ANNOTATIONS:
                self.header_at = at
                self.head = self.rest = after
                return True
            code = HEADER
        if code > MESSAGE_ANNOTATIONS:  # most messages: only a header, or nothing, before the sections to forward
            self.head = self.rest = p
            return True
        return self.scan_all(transfer, code)

    def scan_all(self, transfer: IncomingTransfer, code: cython.int) -> cython.bint:
        """Scan a message that begins with any section; `code`: of the first one."""
        b: Octets = transfer.data
        p: cython.Py_ssize_t = transfer.start
        end: cython.Py_ssize_t = transfer.end
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
            return False
        return code != -1 or (p == end and not transfer.more)

    def needed(self, transfer: IncomingTransfer) -> cython.Py_ssize_t:
        """Octets from the start of an incomplete message to the end of the section that is cut off; 0 if unknown."""
        b: Octets = transfer.data
        p: cython.Py_ssize_t = transfer.start
        end: cython.Py_ssize_t = transfer.end
        kind: cython.int
        while HEADER <= section_code(b, p, end) <= PROPERTIES:
            p = value_at(b, p)
            if end - p < 5:
                return 0
            kind = b[p] >> 4
            if kind == 0xA or kind == 0xC or kind == 0xE:
                p += 2 + b[p + 1]
            elif kind == 0xB or kind == 0xD or kind == 0xF:
                p += 5
                p += read_u32(b, p - 4)  # by itself: a sum with a number would have 32 bits
            else:
                return 0
            if p > end:
                return p - transfer.start
        return 0

    def priority(self, transfer: IncomingTransfer) -> cython.int:
        """The priority in the header, 4 if it is not set. Spec: 3.2.1."""
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
        """Position of the value of properties.to after a scan, -1 if there is none, -2 if more bytes are needed."""
        return self.find_property(transfer, TO)

    def find_user_id(self, transfer: IncomingTransfer) -> cython.Py_ssize_t:
        """Position of the value of properties.user-id after a scan, -1 and -2 as in `find_to`."""
        return self.find_property(transfer, USER_ID)

    def find_property(self, transfer: IncomingTransfer, index: cython.int) -> cython.Py_ssize_t:
        """Position of the value of a property after a scan, -1 if there is none, -2 if more bytes are needed,
        UNREADABLE for properties that are not a list of values. Spec: 3.2.4.
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
            count: cython.Py_ssize_t = list_count(b, p, end)
            end = skip(b, p, end)
        except DecodeError:
            return -2
        try:
            p = list_body(b, p)
            if count <= index:
                while count > 0:
                    count -= 1
                    p = skip(b, p, end)
                return -1 if p == end else UNREADABLE  # more values than were announced
            while index > 0:
                index -= 1
                p = skip(b, p, end)
            skip(b, p, end)
        except DecodeError:
            return UNREADABLE
        return p


def section_code(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Descriptor code of the section at p; 0 for anything else, -1 if the bytes end before it."""
    if end - p >= 3 and b[p] == 0 and b[p + 1] == SMALL_CODE:
        return b[p + 2]
    return rare_code(b, p, end)


def rare_code(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Like `section_code`, of a section whose descriptor is not a small number. Spec: 3.2"""
    if end - p < 3:
        return -1
    if b[p] != 0:
        return 0
    if b[p + 1] == 0x80:
        if end - p < 10:
            return -1
        return b[p + 9]
    if b[p + 1] != SYMBOL:
        return 0
    after: cython.Py_ssize_t = p + 3 + b[p + 2]
    if after > end:
        return -1
    return NAMES.get(to_bytes(b, p + 3, after), 0)


def value_at(b: Octets, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Position of the value of the described section at p."""
    if b[p + 1] == SMALL_CODE:
        return p + 3
    return p + 3 + b[p + 2] if b[p + 1] == SYMBOL else p + 10
