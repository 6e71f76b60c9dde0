"""Link routes: what comes on one link goes out on its partner, untouched, and so do credit and drain the other way.

Delivery-tags, delivery states (transactional ones too) and messages are passed as bytes. Outcomes go the way of all
deliveries, see settlement.py. Routing chapter "Link Route Flow Control", inter-router.md "Link routes across routers".
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL
from waymesh_amqp.transfer import TransferFields
from waymesh_amqp.types import Raw, decode
from waymesh_router.core.forwarding import ACCEPTED, RELEASED
from waymesh_router.core.link_routing import no_local
from waymesh_router.core.model import Queued, RouterLink
from waymesh_router.core.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import conn_put, send_more
    from cython.cimports.waymesh_amqp.transfer import FIELDS
    from cython.cimports.waymesh_amqp.wire import list_body, list_count, read_uint, serial_add, skip
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import conn_put, send_more
    from waymesh_amqp.transfer import FIELDS
    from waymesh_amqp.wire import list_body, list_count, read_uint, serial_add, skip

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.link import Link
    from waymesh_amqp.session import Session

HELD_LIMIT = cython.declare(cython.Py_ssize_t, 1 << 18)
"""Bytes that may wait for a link before the sender's session is held."""
_HEAD = struct.Struct(">IHHIIIBIBI")
_FORM = struct.Struct(">BI2s")
_FLAGS = {(False, False): b"BB", (False, True): b"BA", (True, False): b"AB", (True, True): b"AA"}


class Linked(Settlement):
    """Deliveries of link routes. A link has a `partner` from its attach until one of the two is gone."""

    def pass_on(
        self,
        lk: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        out: RouterLink = lk.partner
        if lk.transfer_first:
            lk.discard = False
            self.pass_first(lk, out, more, b, start, end)
        elif lk.queued is not None:
            q: Queued = lk.queued
            q.chunks.append(bytes(b[start:end]))
            self.budget.take(q, end - start)
            q.complete = not more
            if not more:
                lk.queued = None
            self.count_held(lk, out, end - start)
        elif lk.stream is not None:
            send_more(out, more, b, start, end)
            if not more:
                self.passed(lk, out)
            elif out.backlog is not None or out.connection.backed_up():
                lk.session.hold(out)
        elif not more:
            lk.discard = False

    def pass_first(
        self,
        lk: RouterLink,
        out: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """A delivery begins: send it on, or keep it while its way is blocked."""
        q: Queued = Queued(lk, None)
        self.read_tag_and_state(q, b, start)
        self.from_containers += lk.container
        q.did = lk.transfer_id
        q.settled = lk.transfer_settled
        q.format = lk.transfer_format
        q.complete = not more
        if not q.settled:
            d: Delivery = new_delivery()
            d.link = lk
            d.did = q.did
            d.sent = False
            if not self.track(lk, d):
                return
            q.delivery = d
        if lk.client is not None:
            data: bytes = no_local.marked(bytes(b[start:end]), more, lk.client)
            b = data if cython.compiled else memoryview(data)
            start, end = 0, len(data)
        elif out.client is not None and no_local.is_from(bytes(b[start:end]), out.client):
            self.keep_back(q, out)
            return
        if out.queue is None and out.ready():
            self.send_linked(q, out, more, b, start, end)
            return
        q.chunks.append(bytes(b[start:end]))
        if more:
            lk.queued = q
        if out.queue is None:
            out.queue = deque()
        out.queue.append(q)
        self.budget.take(q, end - start)
        self.count_held(lk, out, end - start)

    def keep_back(self, q: Queued, out: RouterLink) -> None:
        """What a receiver's own client sent and is not to have: accepted in the receiver's place."""
        if q.delivery is not None:
            self.settle_incoming(q.delivery, ACCEPTED)
        self.pass_credit(out)

    def read_tag_and_state(self, q: Queued, b: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> None:
        """What the first transfer says besides numbers and flags; its field list ends at `end`. Spec: 2.7.5."""
        fields: TransferFields = FIELDS
        p: cython.Py_ssize_t = fields.at
        n: cython.Py_ssize_t = list_count(b, p, end)
        p = skip(b, skip(b, list_body(b, p), end), end)
        after: cython.Py_ssize_t = skip(b, p, end)
        q.tag = bytes(b[p:after])
        if n <= 6:
            return
        p = skip(b, skip(b, skip(b, after, end), end), end)
        q.head = bytes(b[p : skip(b, fields.at, end)])

    def count_held(self, lk: RouterLink, out: RouterLink, size: cython.Py_ssize_t) -> None:
        """So much more waits for `out`."""
        out.held += size
        if out.held > HELD_LIMIT:
            lk.session.hold(lk)

    def send_linked(
        self,
        q: Queued,
        out: RouterLink,
        more: cython.bint,
        b: cython.const[cython.uchar][::1],
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> None:
        """Begin a delivery on a link that is ready; `more`: further calls follow for it."""
        lk: RouterLink = q.link  # type: ignore[assignment]
        session: Session = out.session
        conn: Connection = out.connection
        n: cython.Py_ssize_t = end - start
        room: cython.Py_ssize_t = conn.peer_max - 37 - len(q.tag) - len(q.head)
        if room < 1:
            out.detach(FRAME_SIZE_TOO_SMALL, "no room for delivery-tag and state")
            return
        split: cython.bint = n > room
        if split:
            n = room
        conn.flush_outcomes()  # an outcome within a transaction must not be overtaken by the discharge of that
        oid: cython.uint = session.next_delivery_id
        session.next_delivery_id = serial_add(oid, 1)
        self.to_containers += out.container
        out.credit -= 1
        out.delivery_count = serial_add(out.delivery_count, 1)
        conn.put(linked_head(out, oid, q, more or split, n))
        conn.reserve(n)
        conn_put(conn, b, start, start + n)
        session.next_outgoing_id = serial_add(session.next_outgoing_id, 1)
        session.remote_window -= 1
        conn.mark_dirty()
        out.busy = more or split
        if q.delivery is not None:
            d: Delivery = q.delivery
            d.out = out
            d.oid = oid
            session.unsettled_out.put(d)
            out.unsettled += 1
        lk.stream = out
        lk.stream_delivery = q.delivery
        out.feeder = lk
        if split:
            send_more(out, more, b, start + n, end)
        if not more:
            self.passed(lk, out)
            return
        if out.backlog is not None:
            lk.session.hold(out)
        if lk.session.holds:
            lk.session.window_soon()  # the receiver waits for the rest

    def passed(self, lk: RouterLink, out: RouterLink) -> None:
        """The last frame of a delivery was handed on."""
        d: Delivery | None = lk.stream_delivery
        lk.stream = None
        lk.stream_delivery = None
        out.feeder = None
        if d is None:
            lk.presettled += 1
            self.presettled += 1
        else:
            d.sent = True
            if lk.transfer_settled and lk.transfer_id == d.did and d.link is lk:
                self.sender_settled(d, b"")  # settled on a later fragment. Spec: 2.7.5
        if out.backlog is not None:
            lk.session.hold(out)

    def drop_held(self, lk: RouterLink, q: Queued) -> None:
        out: RouterLink = lk.partner
        lk.queued = None
        queue = out.queue
        if queue is not None and q in queue:
            queue.remove(q)
            out.held -= q.kept
            if not queue:
                out.queue = None
        if q.delivery is not None:
            self.forget(q.delivery)
        self.budget.give(q)
        if out.held <= HELD_LIMIT:
            self.budget.release(lk)
        self.pass_credit(out)

    # ---- credit
    def pass_credit(self, out: RouterLink) -> None:
        """The receiver's credit is the sender's, less what waits here."""
        lk: RouterLink = out.partner
        if not out.attached or not lk.attached:
            return
        if out.queue is not None:
            self.send_held(out, lk)
        if out.partner is None:
            return
        waiting: cython.longlong = len(out.queue) if out.queue is not None else 0
        want: cython.longlong = out.credit - waiting
        if lk.credit != want or (out.drain and not lk.drain and want > 0):
            lk.credit = want
            lk.drain = out.drain
            lk.flow_soon()
        self.end_drain(out, lk)

    def send_held(self, out: RouterLink, lk: RouterLink) -> None:
        """Send what waited, as far as it can go now."""
        q: Queued
        while out.queue is not None and out.ready():
            q = out.queue.popleft()
            if not out.queue:
                out.queue = None
            if lk.queued is q:
                lk.queued = None
            data: bytes = q.payload()
            out.held -= len(data)
            view: cython.const[cython.uchar][::1] = data if cython.compiled else memoryview(data)
            self.send_linked(q, out, not q.complete, view, 0, len(data))
            self.budget.give(q)
        if out.held <= HELD_LIMIT:
            self.budget.release(lk)

    def on_flow_details(self, link: Link, fields: bytes, count: cython.int) -> None:
        """`available`, `echo` and the properties of a flow are for the other side."""
        out: RouterLink | None = link.partner  # type: ignore[attr-defined]
        available, echo, properties = flow_details(fields, count)
        if link.is_sender:
            available = None  # only senders know
        if out is None or (available, echo, properties) == (None, False, None):
            return
        if out.told is not None:
            before, asked, said = out.told
            available = before if available is None else available
            echo, properties = echo or asked, properties or said
        out.told = available, echo, properties
        out.flow_soon()

    def on_sender_flow(self, link: Link) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        if lk.partner is not None:
            self.end_drain(lk.partner, lk)

    def end_drain(self, out: RouterLink, lk: RouterLink) -> None:
        """The receiver drains, and the sender has nothing more: use the credit up and say so. Spec: 2.6.7."""
        if out.drain and out.credit > 0 and lk.credit <= 0 and out.queue is None and not out.busy and out.attached:
            out.delivery_count = serial_add(out.delivery_count, cython.cast(cython.uint, out.credit))
            out.credit = 0
            out.flow_soon()

    # ---- losses
    def part(self, lk: RouterLink) -> None:
        """One of two partners is gone: end its deliveries. The other one is left without a partner."""
        other: RouterLink | None = lk.partner
        if lk.is_sender:
            self.release_held(lk)
            if lk.route is None:
                self.forget_all(lk)
            self.consumer_lost(lk)
        else:
            if other is not None:
                if lk.queued is not None:
                    self.drop_held(lk, lk.queued)
                self.release_held(other)
            self.producer_lost(lk)
        lk.partner = None
        if other is not None:
            other.partner = None

    def release_held(self, out: RouterLink) -> None:
        """What waits for a link goes back."""
        q: Queued
        queue = out.queue
        out.queue = None
        out.held = 0
        for e in queue or ():
            q = e
            self.budget.give(q)
            if q.delivery is not None:
                self.settle_incoming(q.delivery, RELEASED)
            if q.link is not None:
                if q.link.queued is q:
                    q.link.queued = None
                    q.link.discard = True
                self.budget.release(q.link)

    def forget_all(self, out: RouterLink) -> None:
        """A client's receiver is gone: its container knows best what that means for deliveries without an outcome."""
        d: Delivery
        for e in out.session.unsettled_out.of(out):
            d = e
            if d.out is out:
                self.forget(d)


def linked_head(out: RouterLink, oid: cython.uint, q: Queued, more: cython.bint, payload: cython.Py_ssize_t) -> bytes:
    """Frame header and performative of a first transfer with the sender's own tag and state."""
    tail: bytes = q.head
    fields: cython.int = 6 + values_in(tail)
    body: bytes = q.tag + _FORM.pack(0x70, q.format, _FLAGS[bool(q.settled), bool(more)]) + tail
    size: cython.Py_ssize_t = len(body)
    return (
        _HEAD.pack(
            size + 30 + payload,
            0x0200,
            out.session.channel,
            0x005314D0,
            size + 14,
            fields,
            0x70,
            out.handle,
            0x70,
            oid,
        )
        + body
    )


def flow_details(fields: bytes, count: cython.int) -> tuple[int | None, bool, Raw | None]:
    """`available`, `echo` and the encoded properties of a flow; `fields` begins at the first of them. Spec: 2.7.4.

    Raises DecodeError for properties that their next reader could not read.
    """
    view: cython.const[cython.uchar][::1] = fields if cython.compiled else memoryview(fields)
    end: cython.Py_ssize_t = len(fields)
    available: cython.longlong = read_uint(view, 0, end)
    p: cython.Py_ssize_t = skip(view, 0, end)
    echo: cython.bint = False
    properties = None
    if count > 2:
        p = skip(view, p, end)
        echo = read_uint(view, p, end) == 1
        if count > 3:
            p = skip(view, p, end)
            after: cython.Py_ssize_t = skip(view, p, end)
            if type(decode(fields[p:after])[0]) is dict:
                properties = Raw(fields[p:after])
    return None if available < 0 else available, bool(echo), properties


def values_in(data: bytes) -> cython.int:
    """Number of values in encoded data."""
    if not data:
        return 0
    view: cython.const[cython.uchar][::1] = data if cython.compiled else memoryview(data)
    p: cython.Py_ssize_t = 0
    count: cython.int = 0
    while p < len(data):
        p = skip(view, p, len(data))
        count += 1
    return count
