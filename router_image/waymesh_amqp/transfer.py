# cython: boundscheck=False
"""Incoming transfer frames, parsed without a list of their fields. Spec: 2.7.5.

Bounds checks are off: the code compares each index with the end of the frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import (
    INVALID_FIELD,
    NO_TRANSACTIONS,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    WINDOW_VIOLATION,
    DecodeError,
)
from waymesh_amqp.refused import is_refused

if cython.compiled:
    from cython.cimports.waymesh_amqp.dispositions import check_state
    from cython.cimports.waymesh_amqp.reading import (
        check_end,
        list_body,
        list_count,
        number,
        skip,
        strict_flag,
        truncated,
    )
    from cython.cimports.waymesh_amqp.states import DETACH_SENT
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        copy,
        equal,
        octets,
        read_u32,
        serial_add,
        serial_gap,
        to_bytes,
    )
else:
    from waymesh_amqp.dispositions import check_state
    from waymesh_amqp.reading import check_end, list_body, list_count, number, skip, strict_flag, truncated
    from waymesh_amqp.states import DETACH_SENT
    from waymesh_amqp.wire import Octets, copy, equal, octets, read_u32, serial_add, serial_gap, to_bytes

if TYPE_CHECKING:
    from waymesh_amqp.link import Link
    from waymesh_amqp.session import Session

LAYOUT_BYTES = cython.declare(cython.Py_ssize_t, 64)
LIST8 = cython.declare(cython.int, 0xC0)
FIELDS = cython.declare(cython.Py_ssize_t, 11)
"""Number of fields of a transfer. Spec: 2.7.5."""
_TRUE = cython.declare(cython.longlong, 1)


class IncomingTransfer:
    """The current transfer frame. A connection has one such object and reads each transfer into it.

    Numbers are -1 if the frame does not have them.
    """

    def __init__(self) -> None:
        self.data = octets(b"")  # the buffer of the frame; the positions below are offsets into it
        self.layout_bytes = 0  # of the field list in `layout`, 0 for none; see `matches_last`
        if not cython.compiled:
            self.layout = memoryview(bytearray(LAYOUT_BYTES))  # compiled, an array of C bytes
        self.id_at = 0  # positions of fields in `layout`
        self.tag_at = 0
        self.rest_at = 0
        self.tag_from = 0  # positions of encoded fields in the field list: the delivery-tag, and those after `more`
        self.tag_to = 0
        self.rest_from = 0
        self.rest_fields = 0  # the number of fields after `more`
        self.state_from = 0
        self.state_bytes = 0  # 0 if the delivery state is null
        self.memory: bytes | None = None  # keeps `data` alive if no other reference does
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
        self.state = b""  # the checked delivery state, valid if `state_bytes` is not 0

    def payload(self) -> bytes:
        """A copy of the frame's part of the message."""
        part: bytes = to_bytes(self.data, self.start, self.end)
        return part

    def tag(self) -> bytes:
        """The encoded delivery-tag."""
        tag: bytes = to_bytes(self.data, self.at + self.tag_from, self.at + self.tag_to)
        return tag

    def rest(self) -> bytes:
        """The encoded fields after `more`, `rest_fields` of them: a peer can decode each."""
        rest: bytes = to_bytes(self.data, self.at + self.rest_from, self.start) if self.rest_fields else b""
        return rest

    def hold(self, data: bytes) -> None:
        """Use these bytes as `data` instead of the connection's input."""
        self.memory = data
        self.data = octets(data)

    def read(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Read the field list at p of a frame in `data` that ends at `end`. Raises DecodeError."""
        if not self.matches_last(p, end):
            self.layout_bytes = 0
            self.parse(p, end)
            self.remember()

    def matches_last(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Read the field list at p if it equals the last one except for delivery-id and delivery-tag; False if not.

        All other fields keep the values of the last frame, because their bytes and positions are the same.
        """
        n: cython.Py_ssize_t = self.layout_bytes
        if n == 0 or end - p < n:
            return False
        b: Octets = self.data
        if not equal(b, p, self.layout, 0, self.id_at + 1):
            return False
        if b[p + self.tag_at] != 0xA0 or b[p + self.tag_at + 1] != self.tag_bytes:
            return False
        if not equal(b, p + self.rest_at, self.layout, self.rest_at, n - self.rest_at):
            return False
        self.at = p
        self.start = p + n
        self.end = end
        p += self.id_at
        self.delivery_id = read_u32(b, p + 1) if b[p] == 0x70 else b[p + 1]
        return True

    def remember(self) -> cython.void:
        """Keep the parsed field list for `matches_last`, if it begins a delivery and has the usual encoding."""
        b: Octets = self.data
        n: cython.Py_ssize_t = self.start - self.at
        p: cython.Py_ssize_t = self.at + 3
        if n > LAYOUT_BYTES or b[self.at] != LIST8 or self.delivery_id < 0 or self.tag_bytes < 0:
            return
        if b[p] != 0x70 and b[p] != 0x52 and b[p] != 0x43:
            return
        p += 5 if b[p] == 0x70 else (2 if b[p] == 0x52 else 1)
        if b[p] != 0x70 and b[p] != 0x52:
            return
        self.id_at = p - self.at
        p += 5 if b[p] == 0x70 else 2
        if b[p] != 0xA0:
            return
        self.tag_at = p - self.at
        self.rest_at = self.tag_at + 2 + self.tag_bytes
        copy(self.layout, 0, b, self.at, n)
        self.layout_bytes = n

    def parse(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Read a field list of any layout."""
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
        if n < 1 or n > FIELDS:
            raise DecodeError(f"transfer with {n} fields")
        v = number(b, p, stop)
        self.handle = v >> 4
        p += v & 15
        self.delivery_id = self.tag_bytes = self.message_format = -1
        self.settled = self.more = self.resume = self.aborted = False
        self.state_bytes = self.rest_fields = 0
        if n > 1:
            v = number(b, p, stop)
            self.delivery_id = v >> 4
            p += v & 15
        if n > 2:
            self.tag_from = p - self.at
            p = self.read_tag(p, stop)
            self.tag_to = p - self.at
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
            p = self.read_rare(p, stop, n)
        if p != stop:
            check_end(p, stop)

    def read_rare(
        self, p: cython.Py_ssize_t, end: cython.Py_ssize_t, n: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Read the fields after `more` in a list of n fields: rcv-settle-mode, state, resume, aborted, batchable.

        Returns the position after them. `take_transfer` checks the state.
        """
        b: Octets = self.data
        v: cython.int
        self.rest_from = p - self.at
        self.rest_fields = n - 6
        if p < end and b[p] == 0x50 and end - p >= 2 and b[p + 1] <= 1:
            p += 2
        elif p < end and b[p] == 0x40:
            p += 1
        else:
            raise DecodeError("transfer: the rcv-settle-mode is not 0 or 1")
        if n > 7:
            self.state_from = p - self.at
            p = skip(b, p, end)
            if b[self.at + self.state_from] != 0x40:
                self.state_bytes = p - self.at - self.state_from
        if n > 8:
            v = strict_flag(b, p, end)
            self.resume = v > 15
            p += v & 15
        if n > 9:
            v = strict_flag(b, p, end)
            self.aborted = v > 15
            p += v & 15
        if n > 10:
            p += strict_flag(b, p, end) & 15
        return p

    def take_state(self, session: Session) -> cython.bint:
        """Check the delivery state; returns whether it is a transactional one. Raises DecodeError."""
        p: cython.Py_ssize_t = self.at + self.state_from
        self.state = to_bytes(self.data, p, p + self.state_bytes)
        check_state(session, self.state)
        return session.state_transactional

    def read_tag(self, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read the length of the delivery-tag at p; returns the position after it."""
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
            raise DecodeError("the delivery-tag is not a binary")
        return after


def whole_transfer(payload: bytes, more: cython.bint) -> IncomingTransfer:
    """The first frame of a delivery, with this payload and no other fields."""
    transfer: IncomingTransfer = IncomingTransfer()
    transfer.hold(payload)
    transfer.end = len(payload)
    transfer.more = more
    return transfer


def take_transfer(session: Session, transfer: IncomingTransfer, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
    """Handle the transfer whose field list is at p, in a frame that ends at `end`. Spec: 2.7.5."""
    transfer.read(p, end)
    transactional: cython.bint = transfer.state_bytes > 0 and transfer.take_state(session)
    session.next_incoming_id = serial_add(session.next_incoming_id, 1)
    left: cython.int = serial_gap(session.window_end, session.next_incoming_id)
    if left < 0:
        if session.spare == 0:
            session.end(WINDOW_VIOLATION, "transfer outside the session window")  # Spec: 2.5.6
            return
        session.spare -= 1
        session.window_end = session.next_incoming_id
        left = 0
    if left * 2 < session.window if session.holds == 0 else left == 0:
        session.window_is_low()
    link: Link | None = session.remote_link(transfer.handle)
    if link is None:
        if is_refused(session, transfer.handle):
            return
        session.end(UNATTACHED_HANDLE, "transfer on a handle that is not attached")
        return
    if not link.attached:
        if link.state != DETACH_SENT:
            session.end(UNATTACHED_HANDLE, "transfer on a handle that is not attached")
        return  # Spec: 2.6.5: transfers after our detach are discarded
    if link.is_sender:
        link.detach(NOT_ALLOWED, "transfer from the receiver of the link")
        return
    if not link.mid_delivery:
        if transfer.delivery_id < 0 or transfer.tag_bytes < 0:
            link.detach(INVALID_FIELD, "a delivery's first transfer needs delivery-id and delivery-tag")
            return
        if link.passing:
            if link.credit <= 0 and exceeds_credit(link):
                return
        elif refuse_new_delivery(link, transfer):
            return
        link.credit -= 1
        if link.credit <= 0 and link.replenish > 0:  # perhaps no delivery ends until the sender sends more
            link.flow_soon()
        link.delivery_count = serial_add(link.delivery_count, 1)
        link.outstanding += 1
        transfer.first = True
        link.transfer_id = transfer.delivery_id
        link.transfer_settled = transfer.settled
        link.transfer_format = transfer.message_format if transfer.message_format >= 0 else 0
        link.transfer_bytes = 0
    else:
        transfer.first = False
        if transfer.delivery_id >= 0 and transfer.delivery_id != link.transfer_id:
            link.detach(INVALID_FIELD, "another delivery-id inside a delivery")
            return
        if transfer.settled:
            link.transfer_settled = True
    if transactional and not link.passing:
        link.detach(NOT_IMPLEMENTED, NO_TRANSACTIONS)
        return
    if transfer.aborted:
        link.mid_delivery = False
        session.handler.on_abort(link)
        return
    link.mid_delivery = transfer.more
    if link.max_message_size:
        link.transfer_bytes += end - transfer.start
        # Whether the message exceeds the maximum by this frame:
        if 0 < link.transfer_bytes - link.max_message_size <= end - transfer.start:
            if not link.counts_sizes:
                session.handler.on_oversized(link, transfer)
                return
            link.oversized += 1
    session.handler.on_transfer(link, transfer)


def refuse_new_delivery(link: Link, transfer: IncomingTransfer) -> cython.bint:
    """Detach a link that ends at this router if its peer may not begin a delivery; returns whether it was detached."""
    if transfer.resume:
        link.detach(NOT_IMPLEMENTED, "resuming deliveries is not supported")
        return True
    if link.credit <= 0:
        if exceeds_credit(link):
            return True
        link.excess += 1
    return False


def exceeds_credit(link: Link) -> cython.bint:
    """Detach a link whose peer begins a delivery without credit; returns whether it was detached.

    `capacity` deliveries are tolerated: some clients send slightly more than their credit after a flow with session
    state only.
    """
    if link.credit + link.taken_back > -link.capacity:
        return False
    link.detach(TRANSFER_LIMIT_EXCEEDED, "transfer without credit")
    return True
