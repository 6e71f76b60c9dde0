"""Transfers and credit of routed links: forwards transfers unchanged, and credit and drain in the other direction.

Delivery-tags, delivery states (also transactional ones) and messages are copied as bytes. `Settlement` returns the
outcomes. Routing chapter "Link Route Flow Control", inter-router.md "Link routes across routers".
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import FRAME_SIZE_TOO_SMALL
from waymesh_router.core.attaching import EMPTY_REJECTED, POLICY_REJECTED, TAG_REJECTED
from waymesh_router.core.counters import Counters
from waymesh_router.core.forwarding.buffer_budget import BufferBudget
from waymesh_router.core.link_routing import no_local
from waymesh_router.core.model import Queued, RouterLink
from waymesh_router.core.settlement.outcomes import ACCEPTED, RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import conn_put, send_more
    from cython.cimports.waymesh_amqp.transfer import whole_transfer
    from cython.cimports.waymesh_amqp.wire import serial_add
    from cython.cimports.waymesh_router.core.forwarding.sending import goes_on
    from cython.cimports.waymesh_router.core.model import make_queued
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import conn_put, send_more
    from waymesh_amqp.transfer import whole_transfer
    from waymesh_amqp.wire import serial_add
    from waymesh_router.core.forwarding.sending import goes_on
    from waymesh_router.core.model import make_queued

if TYPE_CHECKING:
    from waymesh_amqp.codec_values import Raw
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.incoming_flow import IncomingFlow
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer

MAX_TAG_BYTES = cython.declare(cython.int, 32)
HELD_LIMIT = cython.declare(cython.Py_ssize_t, 1 << 18)
"""What may wait for a link, as the budgets count it, before the sender's session is held."""
_HEAD = struct.Struct(">IHHIIIBIBI")
_FORM = struct.Struct(">BI2s")
_FLAGS = {(False, False): b"BB", (False, True): b"BA", (True, False): b"AB", (True, True): b"AA"}


class RoutedLinks:
    """Forwards frames of routed links. A link has a `partner` from its attach until one of the two is gone."""

    def __init__(self, settlement: Settlement, budget: BufferBudget) -> None:
        self.settlement = settlement
        self.counters: Counters = settlement.counters
        self.budget = budget

    # ---- transfers
    def first_frame(self, lk: RouterLink, out: RouterLink, transfer: IncomingTransfer) -> None:
        """A delivery begins: forward it, or queue it until the receiver can take it."""
        if transfer.tag_bytes > MAX_TAG_BYTES:
            self.settlement.refuse(lk, transfer.more, TAG_REJECTED)
            self.return_credit(lk, out)
            return
        if transfer.start == transfer.end and not transfer.more:
            self.settlement.refuse(lk, False, EMPTY_REJECTED)
            self.return_credit(lk, out)
            return
        if lk.checks_messages and lk.permit.denies(lk, transfer.payload(), transfer.more):
            lk.permit.message_denied()
            self.settlement.refuse(lk, transfer.more, POLICY_REJECTED)
            self.return_credit(lk, out)
            return
        q: Queued = make_queued(lk, None)
        q.tag = transfer.tag()
        q.rest = transfer.rest()
        q.rest_fields = transfer.rest_fields
        self.counters.count_routed_in(lk)
        q.did = lk.transfer_id
        q.settled = lk.transfer_settled
        q.format = lk.transfer_format
        q.complete = not transfer.more
        if not q.settled:
            d: Delivery = new_delivery()
            d.link = lk
            d.did = q.did
            d.sent = False
            if not self.settlement.track(lk, d):
                return
            q.delivery = d
        if lk.client is not None:
            transfer = whole_transfer(no_local.marked(transfer.payload(), transfer.more, lk.client), transfer.more)
        elif out.client is not None and no_local.is_from(transfer.payload(), out.client):
            self.keep_back(q, lk, out)
            return
        q.size = transfer.end - transfer.start
        q.unstarted = 1
        if out.queue is None and out.ready():
            self.send(q, out, transfer)
            return
        if transfer.more:
            lk.queued = q
        if out.queue is None:
            out.queue = deque()
        out.queue.append(q)
        self.hold(q, lk, transfer.payload())

    def keep_back(self, q: Queued, lk: RouterLink, out: RouterLink) -> None:
        """The receiver requested no messages from its own client: accept this one on its behalf."""
        if q.delivery is not None:
            self.settlement.settle_incoming(q.delivery, ACCEPTED)
        self.return_credit(lk, out)

    def hold(self, q: Queued, lk: RouterLink, payload: bytes) -> None:
        """Keep more bytes of a delivery that waits for the partner of lk."""
        out: RouterLink = lk.partner  # type: ignore[assignment]
        q.add(payload)
        out.held -= q.kept
        self.budget.take(q, len(payload))
        out.held += q.kept
        if out.held > HELD_LIMIT:
            lk.session.hold_window(lk)

    def send(self, q: Queued, out: RouterLink, transfer: IncomingTransfer) -> None:
        """Begin a delivery on a ready link with all that has arrived of it."""
        lk: RouterLink = q.link  # type: ignore[assignment]
        session: Session = out.session
        conn: Connection = out.connection
        start: cython.Py_ssize_t = transfer.start
        n: cython.Py_ssize_t = transfer.end - start
        room: cython.Py_ssize_t = conn.peer_max - 37 - len(q.tag) - len(q.rest)
        if room < 1:
            out.detach(FRAME_SIZE_TOO_SMALL, "no room for delivery-tag and state")
            return
        split: cython.bint = n > room
        if split:
            n = room
        conn.flush_outcomes()  # a discharge must not overtake outcomes of its transaction
        oid: cython.uint = session.new_delivery_id()
        self.counters.count_routed_out(out)
        out.credit -= 1
        out.delivery_count = serial_add(out.delivery_count, 1)
        conn.put(transfer_header(out, oid, q, transfer.more or split, n))
        conn.reserve(n)
        conn_put(conn, transfer.data, start, start + n)
        session.next_outgoing_id = serial_add(session.next_outgoing_id, 1)
        session.remote_window -= 1
        conn.mark_dirty()
        out.busy = transfer.more or split
        q.unstarted = 0
        if q.delivery is not None:
            self.settlement.track_outgoing(q.delivery, out, oid, None)
        if split:
            send_more(out, transfer.more, transfer.data, start + n, transfer.end)
        if not transfer.more:
            self.sent(lk, q, out)
            return
        lk.queued = q
        goes_on(q, out, None, q.settled)
        if lk.session.holds:
            lk.session.window_soon()  # the receiver waits for the remaining frames

    def sent(self, lk: RouterLink, q: Queued, out: RouterLink) -> None:
        """The last frame of a delivery was sent."""
        d: Delivery | None = q.delivery
        if d is None:
            out.presettled += 1
        else:
            d.sent = True
            if lk.transfer_settled and lk.transfer_id == d.did and d.link is lk:
                self.settlement.sender_settled(d, b"")  # settled on a later frame. Spec: 2.7.5
        if out.backlog is not None:
            lk.session.hold_window(out)

    def drop_held(self, lk: RouterLink, q: Queued) -> None:
        """Drop the incomplete delivery of lk, the last one that waits for its partner."""
        out: RouterLink = lk.partner  # type: ignore[assignment]
        queue = out.queue
        if queue is not None:
            queue.pop()
            out.held -= q.kept
            if not queue:
                out.queue = None
        if q.delivery is not None:
            self.settlement.forget(q.delivery)
        self.budget.give(q)
        if out.held <= HELD_LIMIT:
            self.budget.release(lk)
        self.return_credit(lk, out)

    # ---- credit
    def return_credit(self, lk: RouterLink, out: RouterLink) -> None:
        """A delivery of lk went no further: its sender has the credit again, if it had any.

        What it begins without credit counts until the receiver issues some, also if nothing of it stays here:
        `exceeds_credit`.
        """
        if lk.credit + lk.taken_back >= 0:
            self.pass_credit(out)

    def pass_credit(self, out: RouterLink) -> None:
        """Issue the receiver's credit to the sender, less the deliveries that wait here."""
        lk: RouterLink = out.partner  # type: ignore[assignment]
        if not out.usable() or not lk.usable():
            return
        if out.queue is not None:
            self.send_held(out, lk)
        if out.partner is None:
            return
        waiting: cython.longlong = len(out.queue) if out.queue is not None else 0
        want: cython.longlong = out.credit - waiting
        if lk.credit != want or (out.drain and not lk.drain and want > 0):
            lk.drain = out.drain
            lk.set_credit(want)
        self.end_drain(out, lk)

    def send_held(self, out: RouterLink, lk: RouterLink) -> None:
        """Send waiting deliveries as far as possible."""
        q: Queued
        while out.queue is not None and out.ready():
            q = out.queue.popleft()
            if not out.queue:
                out.queue = None
            if lk.queued is q:
                lk.queued = None
            out.held -= q.kept
            self.send(q, out, whole_transfer(q.payload(), not q.complete))
            q.drop_data()
            self.budget.give(q)
        if out.held <= HELD_LIMIT:
            self.budget.release(lk)

    def on_flow_details(self, link: RouterLink, flow: IncomingFlow) -> None:
        """Forward `available`, `echo` and the properties of a flow to the partner."""
        out: RouterLink | None = link.partner
        available: int | None = None
        if flow.available >= 0 and not link.is_sender:  # only valid from senders
            available = flow.available
        echo: bool = bool(flow.echo)
        properties: Raw | None = flow.properties
        if out is None or (available is None and not echo and properties is None):
            return
        if out.next_flow_details is not None:
            before, asked, said = out.next_flow_details
            available = before if available is None else available
            echo, properties = echo or asked, properties or said
        out.next_flow_details = available, echo, properties
        out.flow_soon()

    def end_drain(self, out: RouterLink, lk: RouterLink) -> None:
        """The receiver drains, and the sender has no more messages: use up the credit and send a flow. Spec: 2.6.7."""
        if out.drain and out.credit > 0 and lk.credit <= 0 and out.queue is None and not out.busy and out.usable():
            out.delivery_count = serial_add(out.delivery_count, cython.cast(cython.uint, out.credit))
            out.credit = 0
            out.flow_soon()

    # ---- links that are lost
    def release_held(self, out: RouterLink) -> None:
        """The link has ended: release the deliveries that wait for it."""
        q: Queued
        queue = out.queue
        out.queue = None
        out.held = 0
        for e in queue or ():
            q = e
            self.budget.give(q)
            if q.delivery is not None:
                self.settlement.settle_incoming(q.delivery, RELEASED)
            if q.link is not None:
                if q.link.queued is q:
                    q.link.queued = None
                    q.link.discard = True
                self.budget.release(q.link)


def transfer_header(
    out: RouterLink, oid: cython.uint, q: Queued, more: cython.bint, payload: cython.Py_ssize_t
) -> bytes:
    """Frame header and performative of a first transfer with the sender's own tag and state."""
    body: bytes = q.tag + _FORM.pack(0x70, q.format, _FLAGS[bool(q.settled), bool(more)]) + q.rest
    size: cython.Py_ssize_t = len(body)
    return (
        _HEAD.pack(
            size + 30 + payload,
            0x0200,
            out.session.channel,
            0x005314D0,
            size + 14,
            6 + q.rest_fields,
            0x70,
            out.handle,
            0x70,
            oid,
        )
        + body
    )
