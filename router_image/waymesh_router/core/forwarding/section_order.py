"""Checks that the sections of a message are in the order of AMQP. Spec: 3.2.

Policy reads user-id and `to` at their place in AMQP. A consumer may read them elsewhere: in properties after the body,
in a second properties section, or with a symbolic descriptor. So messages that policy checks must not have such
sections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.model import RouterLink

if cython.compiled:
    from cython.cimports.libc.string import memcmp
    from cython.cimports.waymesh_amqp.wire import Octets, octets, read_u32, to_bytes
    from cython.cimports.waymesh_router.core.forwarding.sections import Sections
else:
    from waymesh_amqp.wire import Octets, octets, read_u32, to_bytes

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.forwarding.sections import Sections

SHORT = cython.declare(cython.uint, 0x5300)
"""The octets before the code in a short descriptor, as a number."""
LIST8 = cython.declare(cython.int, 0xC0)
FIRST_SECTION = cython.declare(cython.int, 0x70)
ANNOTATIONS = cython.declare(cython.int, 0x72)
DATA_SECTION = cython.declare(cython.int, 0x75)
SEQUENCE_SECTION = cython.declare(cython.int, 0x76)
LAST_SECTION = cython.declare(cython.int, 0x78)
PROPERTIES = cython.declare(cython.int, 0x73)
NULL = cython.declare(cython.int, 0x40)
MAX_VALUES = cython.declare(cython.int, 64)
"""Limit for the descriptors around a value, and for the values that must still begin."""
SECTIONS_DENIED = "message refused by local policy: its sections are not in the order of AMQP"


class SectionOrder:
    """Checks one message over all its frames, without decoding or storing it."""

    def __init__(self) -> None:
        self.last = 0  # descriptor code of the section that began last
        self.values = 0  # values that must begin before the next section may
        self.left = 0  # remaining octets of the current value
        self.part = b""  # start of a descriptor or constructor that was cut by the end of the last frame
        self.user = b""  # the last encoded user-id that policy allowed: most messages of a link have the same

    def begin(self) -> None:
        """A message begins."""
        self.last = self.values = self.left = 0
        self.part = b""

    def take(self, transfer: IncomingTransfer) -> cython.bint:
        """Check the next frame. False if the sections cannot be parsed, are out of order, or end too early."""
        b: Octets
        p: cython.Py_ssize_t
        if self.part:
            joined = self.part + transfer.payload()
            self.part = b""
            b = octets(joined)
            p = self.walk(b, 0, len(joined))
            if p >= 0:
                self.part = joined[p:]
        else:
            b = transfer.data
            p = self.walk(b, transfer.start, transfer.end)
            if 0 <= p < transfer.end:
                self.part = to_bytes(b, p, transfer.end)
        return p >= 0 and (transfer.more or (not self.part and self.values == 0 and self.left == 0))

    def walk(self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Position of the part that continues in the next frame, `end` if none, -1 for sections out of order."""
        n: cython.Py_ssize_t
        while True:
            if self.left:
                n = min(self.left, end - p)
                self.left -= n
                p += n
            if p == end:
                return p
            n = self.section(b, p, end) if self.values == 0 else self.value(b, p, end)
            if n <= 0:
                return -1 if n < 0 else p
            p += n

    def section(self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Size of the descriptor at p in octets; 0 if more octets are needed, -1 if the section is not allowed here."""
        size: cython.Py_ssize_t
        if b[p] != 0:
            return -1
        if end - p < 2:
            return 0
        if b[p + 1] == 0x53:
            size = 3
        elif b[p + 1] == 0x80:
            size = 10
        else:
            return -1
        if end - p < size:
            return 0
        at: cython.Py_ssize_t
        for at in range(p + 2, p + size - 1):
            if b[at] != 0:
                return -1
        code: cython.int = b[p + size - 1]
        if not self.follows(code):
            return -1
        self.last = code
        self.values = 1
        return size

    def follows(self, code: cython.int) -> cython.bint:
        """Whether a section may follow the last one. A body has sections of one kind only. Spec: 3.2."""
        if code < FIRST_SECTION or code > LAST_SECTION:
            return False
        if code == self.last:
            return code in (DATA_SECTION, SEQUENCE_SECTION)
        return code > self.last and (self.last < DATA_SECTION or code == LAST_SECTION)

    def value(self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Octets of the constructor and size field at p; 0 if more are needed, -1 if unknown. Spec: 1.2."""
        kind: cython.int = b[p] >> 4
        if b[p] == 0:  # a descriptor and a value instead of a value
            self.values += 1
            return 1 if self.values <= MAX_VALUES else -1
        if kind < 4 or kind == 9:
            return -1
        size: cython.Py_ssize_t = 1
        left: cython.longlong = 0
        if kind < 9:
            left = 0 if kind == 4 else 1 << (kind - 5)
        elif kind & 1:
            size = 5
        else:
            size = 2
        if end - p < size:
            return 0
        if size == 2:
            left = b[p + 1]
        elif size == 5:
            left = read_u32(b, p + 1)
        self.left = left
        self.values -= 1
        return size


def goes_on_in_order(lk: RouterLink, transfer: IncomingTransfer) -> cython.bint:
    """Whether a later frame of a message that policy checks has its sections in order."""
    if lk.section_order is None or lk.discard:
        return True
    order: SectionOrder = lk.section_order
    return order.take(transfer)


def is_usual(lk: RouterLink, sections: Sections, transfer: IncomingTransfer) -> cython.bint:
    """Fast check of a scanned message in one frame: True if it is allowed. If False, `SectionOrder` decides.

    Most messages have no annotations and no footer, each section once with a short descriptor, and no user-id or the
    same as the last message. For these, the check takes a few hundred instructions.
    """
    if transfer.more or lk.section_order is None:
        return False
    order: SectionOrder = lk.section_order
    b: Octets = transfer.data
    p: cython.Py_ssize_t = sections.rest
    end: cython.Py_ssize_t = transfer.end
    at: cython.Py_ssize_t = transfer.start + 3
    if p != transfer.start and (sections.header_at != at or b[at] != LIST8 or p != at + 2 + b[at + 1]):
        return False  # more than a header
    last: cython.uint = ANNOTATIONS
    while end - p >= 5:
        begin: cython.uint = read_u32(b, p)
        code: cython.uint = begin >> 8
        kind: cython.uint = begin & 0xF0
        if code <= SHORT | last or code > SHORT | LAST_SECTION or kind < 0xA0:
            return False
        if kind & 0x10 == 0:
            at = p + 5 + b[p + 4]
        elif end - p >= 8:
            at = p + 8 + read_u32(b, p + 4)
        else:
            return False
        last = code & 0xFF
        if last >= DATA_SECTION or at > end:
            return at == end
        if last == PROPERTIES and lk.checks_user and not _has_usual_user(b, p + 3, at, order.user):
            return False
        p = at
    return False


@cython.cfunc  # type: ignore[untyped-decorator]  # so that the C compiler inlines it
def _has_usual_user(b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t, user: bytes) -> cython.bint:
    """Fast check whether the properties b[p:end] have no user-id or this encoded one; may return False for others."""
    count: cython.Py_ssize_t
    if b[p] == LIST8 and end - p > 4:
        count = b[p + 2]
        p += 3
    elif b[p] == 0xD0 and end - p > 10:
        count = read_u32(b, p + 5)
        p += 9
    else:
        return False
    kind: cython.int = b[p]  # of the message-id
    if kind == NULL:
        p += 1
    elif kind == 0xA0 or kind == 0xA1:
        p += 2 + b[p + 1]
    elif kind == 0x80:
        p += 9
    elif kind == 0x53:
        p += 2
    elif kind == 0x98:
        p += 17
    else:
        return False
    if count < 2 or count > end - p:  # so p < end
        return False
    if b[p] == NULL:
        return True
    size: cython.Py_ssize_t = len(user)
    if size == 0 or size > end - p:
        return False
    if cython.compiled:
        return memcmp(cython.address(b[p]), octets(user), size) == 0
    return to_bytes(b, p, p + size) == user
