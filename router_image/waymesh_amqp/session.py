"""Sessions: windows, transfers in and out, dispositions merged to ranges. Spec: 2.5, 2.6.12, 2.7.

This module is longer than its neighbours because the hot readers and writers of transfer, flow and disposition share
the session's counters; split, each frame would cross a module border several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp import states
from waymesh_amqp.delivery import Delivery, DeliveryRing
from waymesh_amqp.errors import (
    FRAME_SIZE_TOO_SMALL,
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    LINK_STOLEN,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    WINDOW_VIOLATION,
    AmqpError,
    DecodeError,
)
from waymesh_amqp.fitting import fitting_frame
from waymesh_amqp.free_numbers import FreeNumbers
from waymesh_amqp.link import OUTGOING_WINDOW, Link, told_flow
from waymesh_amqp.outcome_ranges import OutcomeRanges
from waymesh_amqp.performatives import Attach, Begin, Detach, End, ErrorInfo
from waymesh_amqp.transfer import IncomingTransfer
from waymesh_amqp.types import Described, decode

if cython.compiled:
    from cython.cimports.waymesh_amqp.outgoing import flush_backlog
    from cython.cimports.waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        list_body,
        list_count,
        octets,
        read_uint,
        serial_add,
        serial_gap,
        skip,
        write_u32,
    )
else:
    from waymesh_amqp.outgoing import flush_backlog
    from waymesh_amqp.wire import (
        Octets,
        WritableOctets,
        list_body,
        list_count,
        octets,
        read_uint,
        serial_add,
        serial_gap,
        skip,
        write_u32,
    )

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.performatives import Performative

HANDLE_MAX = 65535
TRANSACTIONAL_STATE = (0x34, "amqp:transactional-state:list")
"""Spec: 4.5.8."""
MAX_TAG_BYTES = cython.declare(cython.int, 32)
FEW_FRAMES = cython.declare(cython.uint, 16)
NO_TRANSACTIONS = "a router has no transactions; there are some where link routes lead"


class Session:
    """`channel` is ours, `remote_channel` the peer's. `window` is the incoming window that we keep open, in frames."""

    def __init__(self, connection: Connection, channel: cython.int, window: cython.uint) -> None:
        self.connection = connection
        self.handler = connection.handler
        self.channel = channel
        self.remote_channel = -1
        self.state = "UNMAPPED"
        self.mapped = False
        self.links: list[Link | None] = []
        self.handles = FreeNumbers()
        self.remote_links: dict[int, Link] = {}
        self.last_handle = -1
        self.last_link: Link | None = None  # the Link at `last_handle`
        self.remote_handle_max = 0xFFFFFFFF
        self.window = window
        self.next_incoming_id = 0
        self.window_end = 0
        self.next_outgoing_id = 0
        self.remote_window = 0
        self.next_delivery_id = 0
        self.unsettled_in = DeliveryRing(False)
        self.unsettled_out = DeliveryRing(True)
        self.outcomes = OutcomeRanges()
        self.outcome_state = b""
        self.checked_state = b""
        self.state_transactional = False
        self.flow_links: list[Link] = []
        self.window_due = False
        self.listed = False
        self.holds = 0
        self.holds_out = 0  # by outgoing links
        self.owing = 0
        self.blocked: list[Link] = []

    # ---- begin and end
    def begin(self) -> None:
        """Send our begin, first or answering. Spec: 2.5.1."""
        answering = self.state == "BEGIN_RCVD"
        self.state = states.advance(states.SESSION, "session", self.state, "begin>", self)
        self.mapped = self.state == "MAPPED"
        self.window_end = serial_add(self.next_incoming_id, self.window)
        self.send_frame(
            Begin(
                remote_channel=self.remote_channel if answering else None,
                next_outgoing_id=self.next_outgoing_id,
                incoming_window=self.window,
                outgoing_window=OUTGOING_WINDOW,
                handle_max=HANDLE_MAX,
            )
        )

    def on_begin(self, begin: Begin, remote_channel: cython.int) -> None:
        self.state = states.advance(states.SESSION, "session", self.state, "begin<", self)
        self.mapped = self.state == "MAPPED"
        self.remote_channel = remote_channel
        self.next_incoming_id = begin.next_outgoing_id
        self.window_end = serial_add(self.next_incoming_id, self.window)
        self.remote_window = begin.incoming_window
        if begin.handle_max is not None:
            self.remote_handle_max = begin.handle_max

    def end(self, condition: str = "", description: str = "") -> None:
        """End the session from our side; with a condition, because of an error. Spec: 2.5.4."""
        if (self.state, "end>") not in states.SESSION:
            return
        self.state = states.advance(states.SESSION, "session", self.state, "end>", self)
        self.mapped = False
        error = ErrorInfo(condition, description) if condition else None
        self.send_frame(End(error=error))
        self.over(error)

    def on_end(self, end: End) -> None:
        self.state = states.advance(states.SESSION, "session", self.state, "end<", self)
        self.mapped = False
        if self.state == "END_RCVD":
            self.over(end.error)
            if self.owing == 0:
                self.answer_end()

    def answer_end(self) -> None:
        self.state = states.advance(states.SESSION, "session", self.state, "end>", self)
        self.send_frame(End())
        self.connection.free_channel(self)

    def over(self, error: ErrorInfo | None) -> None:
        """Each link of the session is gone."""
        self.mapped = False
        self.remote_window = 0
        for link in list(self.links):
            if link is not None:
                self.lose(link, error)
        self.flow_links.clear()
        self.outcomes.clear()

    def stop(self) -> list[Link]:
        """The connection is over: links carry nothing any more, `lose` has still to be called for each of them."""
        self.mapped = False
        self.flow_links.clear()
        self.outcomes.clear()
        found = [link for link in self.links if link is not None]
        for link in found:
            link.attached = False
        return found

    def lose(self, link: Link, error: ErrorInfo | None) -> None:
        """The link is gone with its session."""
        self.link_over(link, error)
        self.forget(link)

    def send_frame(self, performative: Performative) -> None:
        """Write a frame behind what was collected before it; one that does not fit, shorter. Raises AmqpError.

        A connection that is over has nothing more to say to its links.
        """
        if self.connection.over:
            return
        frame = fitting_frame(self.channel, performative, self.connection.peer_max)
        if frame is None:
            text = f"{type(performative).__name__.lower()} of more than {self.connection.peer_max} octets"
            raise AmqpError(FRAME_SIZE_TOO_SMALL, text, self)
        self.connection.flush_outcomes()
        self.connection.put(frame)
        self.connection.mark_dirty()

    # ---- links
    def new_handle(self, link: Link) -> None:
        """Give the link the lowest free handle."""
        self.connection.links += 1
        link.handle = self.handles.take()
        if link.handle < len(self.links):
            self.links[link.handle] = link
        else:
            self.links.append(link)

    def free_handle(self, link: Link) -> None:
        """The link needs its handle no more."""
        if link.handle < len(self.links) and self.links[link.handle] is link:
            self.links[link.handle] = None
            self.handles.give(link.handle)
            self.connection.links -= 1
            if self.handles.used == 0:
                self.links.clear()

    def open_link(self, link: Link, attach: Attach) -> None:
        """Attach a link of ours: `link` is new, `attach` has its name, role, modes and termini. Spec: 2.6.3.

        Raises AmqpError where the peer takes no further link, or no attach of this length.
        """
        link.name = attach.name
        link.is_sender = not attach.role
        self.new_handle(link)
        if link.handle > self.remote_handle_max:
            self.free_handle(link)
            raise AmqpError(NOT_ALLOWED, f"the peer allows {self.remote_handle_max + 1} links a session", self)
        attach.handle = link.handle
        if link.is_sender:
            attach.initial_delivery_count = 0
        link.snd_settle_mode = 2 if attach.snd_settle_mode is None else attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode or 0
        self.connection.names[(link.name, link.is_sender)] = link
        try:
            link.send_attach(attach)
        except AmqpError:
            self.forget(link)
            raise

    def on_attach(self, attach: Attach) -> None:
        if attach.handle > HANDLE_MAX:
            raise AmqpError(FRAMING_ERROR, f"handle {attach.handle} is over handle-max {HANDLE_MAX}")
        if attach.handle in self.remote_links:
            self.end(HANDLE_IN_USE, f"handle {attach.handle} is attached already")
            return
        is_sender: bool = bool(attach.role)
        link: Link | None = self.connection.names.get((attach.name, is_sender))
        if link is not None and link.state not in ("ATTACH_SENT", "DETACH_PIPE"):
            self.steal(link)
            link = None
        ours = link is not None
        if link is None:
            self.connection.check_links()
            link = self.handler.new_link(self)
            link.name = attach.name
            link.is_sender = is_sender
            self.new_handle(link)
            self.connection.names[(link.name, is_sender)] = link
            if link.handle > self.remote_handle_max:
                self.end(NOT_ALLOWED, f"more links than handle-max {self.remote_handle_max} lets us answer")
                return
        link.remote_handle = attach.handle
        link.state = states.advance(states.LINK, "link", link.state, "attach<", self)
        link.attached = link.state == "ATTACHED"
        self.remote_links[attach.handle] = link
        if not is_sender:
            if attach.initial_delivery_count is None:
                if ours:
                    link.detach(INVALID_FIELD, "a sender's attach needs initial-delivery-count")
                else:
                    link.refuse(INVALID_FIELD, "a sender's attach needs initial-delivery-count")
                return
            link.delivery_count = attach.initial_delivery_count
        if not ours:
            link.snd_settle_mode = 2 if attach.snd_settle_mode is None else attach.snd_settle_mode
            link.rcv_settle_mode = attach.rcv_settle_mode or 0
        link.source = attach.source
        link.target = attach.target
        if link.state != "DETACH_SENT":
            self.handler.on_attach(link, attach)

    def on_detach(self, detach: Detach) -> None:
        link = self.remote_link(detach.handle)
        if link is None:
            self.end(UNATTACHED_HANDLE, f"detach of handle {detach.handle}, which is not attached")
            return
        unanswered = link.state == "ATTACH_RCVD"
        link.state = states.advance(states.LINK, "link", link.state, "detach<", self)
        link.attached = False
        link.closed = detach.closed
        if link.state == "DETACH_RCVD":
            if unanswered:
                self.send_frame(link.bare_answer())
            self.free_remote_handle(link)  # the peer may use it again
            self.link_over(link, detach.error)
            if not link.owing:
                link.answer_detach()
        else:
            self.forget(link, detach)

    def steal(self, link: Link) -> None:
        """The peer attaches again under the name of a link: the old one is over. Spec: 2.6.1."""
        if link.state == "ATTACH_RCVD":
            link.send_attach(link.bare_answer())
        link.detach(LINK_STOLEN, "attached again under the same name")

    def link_over(self, link: Link, error: ErrorInfo | None) -> None:
        """The link carries nothing any more; tells the handler, once."""
        if link.state != "DETACH_PIPE":  # then the peer's attach is still to come, and to be recognised
            self.forget_name(link)
        if not link.over:
            link.over = True
            link.attached = False
            link.backlog = None
            self.handler.on_detach(link, error)
            if link.holding is not None:
                link.holding.release(link)

    def forget_name(self, link: Link) -> None:
        """Let the name be used again."""
        key = (link.name, link.is_sender)
        if self.connection.names.get(key) is link:
            del self.connection.names[key]

    def forget(self, link: Link, answer: Detach | None = None) -> None:
        """Free the link's handles. `answer`: the peer's to our detach."""
        self.forget_name(link)
        self.free_handle(link)
        self.free_remote_handle(link)
        waiting = link.awaited_by
        if waiting is not None:
            link.awaited_by = None
            waiting.answer_now(None if answer is None else answer.error, answer is not None and answer.closed)

    def remote_link(self, handle: cython.longlong) -> Link | None:
        """The link that the peer calls `handle`."""
        if handle == self.last_handle:
            return self.last_link
        link = self.remote_links.get(handle)
        if link is not None:
            self.last_handle = handle
            self.last_link = link
        return link

    def free_remote_handle(self, link: Link) -> None:
        """The peer does not call the link by its handle any more."""
        if self.remote_links.get(link.remote_handle) is link:
            del self.remote_links[link.remote_handle]
            self.last_handle = -1
            self.last_link = None

    # ---- incoming frames
    def on_transfer(self, transfer: IncomingTransfer, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """The transfer whose field list is at p, in a frame that ends at `end`. Spec: 2.7.5."""
        transfer.read(p, end)
        self.next_incoming_id = serial_add(self.next_incoming_id, 1)
        left: cython.int = serial_gap(self.window_end, self.next_incoming_id)
        if left < 0:
            self.end(WINDOW_VIOLATION, "transfer outside the session window")  # Spec: 2.5.6
            return
        if left * 2 < self.window if self.holds == 0 else left == 0:
            self.window_soon()
        link: Link | None = self.remote_link(transfer.handle)
        if link is None:
            self.end(UNATTACHED_HANDLE, "transfer on a handle that is not attached")
            return
        if not link.attached:
            if link.state != "DETACH_SENT":
                self.end(UNATTACHED_HANDLE, "transfer on a handle that is not attached")
            return  # Spec: 2.6.5: what arrives after our detach is discarded
        if link.is_sender:
            link.detach(NOT_ALLOWED, "transfer from the receiver of the link")
            return
        if not link.mid_delivery:
            if transfer.delivery_id < 0 or transfer.tag_bytes < 0:
                link.detach(INVALID_FIELD, "a delivery's first transfer needs delivery-id and delivery-tag")
                return
            if transfer.tag_bytes > MAX_TAG_BYTES:
                link.detach(INVALID_FIELD, "delivery-tag of over 32 octets")
                return
            if not link.passing and self.beyond_us(link, transfer):
                return
            link.credit -= 1
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
        if transfer.transactional and not link.passing:
            link.detach(NOT_IMPLEMENTED, NO_TRANSACTIONS)
            return
        if transfer.aborted:
            link.mid_delivery = False
            self.handler.on_abort(link)
            return
        link.mid_delivery = transfer.more
        if link.max_message_size:
            link.transfer_bytes += end - transfer.start
            if link.transfer_bytes > link.max_message_size:
                link.detach(MESSAGE_SIZE_EXCEEDED, f"messages over {link.max_message_size} octets are refused")
                return
        self.handler.on_transfer(link, transfer)

    def beyond_us(self, link: Link, transfer: IncomingTransfer) -> cython.bint:
        """Whether a delivery may not begin on a link that ends here; then it is detached."""
        if transfer.resume:
            link.detach(NOT_IMPLEMENTED, "deliveries cannot be resumed here")
            return True
        if link.credit <= 0:
            link.detach(TRANSFER_LIMIT_EXCEEDED, "transfer without credit")
            return True
        return False

    def on_flow(self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """The flow whose field list is at p. Spec: 2.7.4."""
        n: cython.Py_ssize_t = list_count(b, p, end)
        v: cython.longlong
        if n < 4:
            raise DecodeError("flow without its session fields")
        end = skip(b, p, end)
        p = list_body(b, p)
        v = read_uint(b, p, end)
        seen: cython.uint = v if v >= 0 else 0
        p = skip(b, p, end)
        v = read_uint(b, p, end)
        if v < 0:
            raise DecodeError("flow without incoming-window")
        # what the peer can still take is its window less what is on the way. Spec: 2.5.6
        self.remote_window = v - serial_gap(self.next_outgoing_id, seen)
        p = skip(b, skip(b, skip(b, p, end), end), end)
        handle: cython.longlong = read_uint(b, p, end) if n > 4 else -1
        if self.blocked:
            self.unblock()
        if handle < 0:
            echo: cython.bint = n > 9 and self.flow_echo(b, p, end)
            if echo:
                self.window_soon()
            self.credit_everywhere()
            return
        link: Link | None = self.remote_link(handle)
        if link is None or not (link.attached or link.state == "ATTACH_RCVD"):
            if link is None or link.state != "DETACH_SENT":
                self.end(UNATTACHED_HANDLE, f"flow for handle {handle}, which is not attached")
            return
        self.on_link_flow(link, b, p, end, n)

    def on_link_flow(
        self,
        link: Link,
        b: Octets,
        p: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        n: cython.Py_ssize_t,
    ) -> None:
        """The link's part of a flow: p is at its handle field. Spec: 2.6.7."""
        count: cython.longlong = -1
        credit: cython.longlong = -1
        drain: cython.bint = False
        echo: cython.bint = False
        q: cython.Py_ssize_t = skip(b, p, end)
        if n > 5:
            count = read_uint(b, q, end)
            q = skip(b, q, end)
            if n > 6:
                credit = read_uint(b, q, end)
                q = skip(b, q, end)
                if n > 7 and link.passing:
                    self.handler.on_flow_details(link, bytes(b[q:end]), n - 7)
                if n > 8:
                    q = skip(b, q, end)
                    drain = read_uint(b, q, end) == 1
                    echo = n > 9 and read_uint(b, skip(b, q, end), end) == 1
        if link.is_sender:
            if credit >= 0:
                base: cython.uint = count if count >= 0 else 0
                unseen: cython.int = serial_gap(link.delivery_count, base)
                link.credit = credit - unseen if unseen > 0 else credit
            link.drain = drain
            self.handler.on_credit(link)
        elif count >= 0:
            skipped: cython.int = serial_gap(count, link.delivery_count)
            if skipped > 0:
                link.delivery_count = count
                link.credit -= skipped
                if link.credit < 0:
                    link.credit = 0
                if link.accepting:
                    link.grant()
            if link.credit <= 0:
                link.drain = False
            if link.passing:
                self.handler.on_sender_flow(link)
        if echo and link.attached:
            link.flow_soon()

    def unblock(self) -> None:
        """The peer's window opened: write what deliveries under way had to keep back."""
        links = self.blocked
        self.blocked = []
        for link in links:
            if link.attached:
                flush_backlog(link)

    def flow_echo(
        self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a flow without a link asks for an answer; p is at its handle field."""
        _: cython.int
        for _ in range(5):
            p = skip(b, p, end)
        return read_uint(b, p, end) == 1

    def credit_everywhere(self) -> None:
        """The session window moved: any outgoing link may have become ready."""
        self.connection.budget -= len(self.links) >> 2
        link: Link
        for e in list(self.links):
            if e is not None:
                link = e
                if link.is_sender and link.attached and link.credit > 0:
                    self.handler.on_credit(link)

    def on_disposition(
        self, b: Octets, p: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> None:
        """The disposition whose field list is at p. Spec: 2.7.6."""
        n: cython.Py_ssize_t = list_count(b, p, end)
        settled: cython.bint = False
        state: bytes = b""
        v: cython.longlong
        q: cython.Py_ssize_t
        if n < 2:
            raise DecodeError("disposition without role and first")
        end = skip(b, p, end)
        p = list_body(b, p)
        from_receiver: cython.bint = read_uint(b, p, end) == 1
        p = skip(b, p, end)
        v = read_uint(b, p, end)
        if v < 0:
            raise DecodeError("disposition without first")
        first: cython.uint = v
        last: cython.uint = first
        if n > 2:
            p = skip(b, p, end)
            v = read_uint(b, p, end)
            if v >= 0:
                last = v
            if n > 3:
                p = skip(b, p, end)
                settled = read_uint(b, p, end) == 1
                if n > 4:
                    p = skip(b, p, end)
                    q = skip(b, p, end)
                    if b[p] != 0x40:
                        state = bytes(b[p:q])
                        if q - p != 4 or b[p] != 0 or b[p + 1] != 0x53 or b[p + 3] != 0x45:
                            self.check_state(state)
        ring: DeliveryRing = self.unsettled_out if from_receiver else self.unsettled_in
        d: Delivery
        count: cython.longlong = serial_gap(last, first)
        if count < 0:
            raise DecodeError("disposition whose last is before its first")
        if count < len(ring.slots):
            did: cython.uint = first
            while True:
                f = ring.find(did)
                if f is not None:
                    self.apply_outcome(f, from_receiver, settled, state, ring)
                if did == last:
                    break
                did = serial_add(did, 1)
            return
        for e in ring.live():  # a range wider than what is unsettled: look at what there is
            d = e
            if 0 <= serial_gap(d.oid if from_receiver else d.did, first) <= count:
                self.apply_outcome(d, from_receiver, settled, state, ring)

    def check_state(self, state: bytes) -> None:
        """A state with contents passes untouched, so it must not break its next reader. Raises DecodeError."""
        if state != self.checked_state:
            described = decode(state)[0]
            if not isinstance(described, Described):
                raise DecodeError("delivery state that is not a described value")
            self.state_transactional = described.descriptor in TRANSACTIONAL_STATE
            self.checked_state = state

    def apply_outcome(
        self, d: Delivery, from_receiver: cython.bint, settled: cython.bint, state: bytes, ring: DeliveryRing
    ) -> None:
        """Hand on what a disposition says of one delivery."""
        link: Link | None = d.out if from_receiver else d.link
        if len(state) > 4 and link is not None and not link.passing and self.state_transactional:
            link.detach(NOT_IMPLEMENTED, NO_TRANSACTIONS)
            return
        if settled:
            ring.drop(d)
        if from_receiver:
            self.handler.on_outcome(d, settled, state)
        else:
            self.handler.on_sender_outcome(d, settled, state)

    # ---- outgoing outcomes
    def settle(self, did: cython.uint, state: bytes) -> None:
        """An incoming delivery is settled with this outcome: reported at the next flush, neighbours merged."""
        outcomes: OutcomeRanges = self.outcomes
        if outcomes.pending:
            if self.outcome_state == state:
                outcomes.add(did)
                return
            self.put_outcomes()
        outcomes.add(did)
        self.outcome_state = state
        self.list_for_flush()

    def list_for_flush(self) -> None:
        """Have `flush` called at the connection's next flush."""
        if not self.listed:
            self.listed = True
            self.connection.flush_sessions.append(self)
            self.connection.mark_dirty()

    def put_outcomes(self) -> None:
        """Write the collected outcomes as dispositions."""
        outcomes: OutcomeRanges = self.outcomes
        if not outcomes.pending:
            return
        if outcomes.single():
            self.put_disposition(True, outcomes.first, outcomes.last, True, self.outcome_state)
        else:
            for first, last in outcomes.merged():
                self.put_disposition(True, first, last, True, self.outcome_state)
        outcomes.clear()

    def put_disposition(
        self, receiver: cython.bint, first: cython.uint, last: cython.uint, settled: cython.bint, state: bytes
    ) -> None:
        """A disposition frame; `receiver`: in our role as receiver of the deliveries. `state` may be empty (null)."""
        conn: Connection = self.connection
        if len(state) > conn.peer_max - 32:  # the outcome matters more than its details
            view: Octets = octets(state)
            state = state[: skip(view, 1, len(state))] + b"\x45"
            if len(state) > conn.peer_max - 32:
                state = b""
        n: cython.Py_ssize_t = len(state)
        size: cython.Py_ssize_t = n if n else 1
        conn.reserve(32 + size)
        o: WritableOctets = conn.out
        p: cython.Py_ssize_t = conn.end
        self.frame_start(o, p, 32 + size, 0x15)
        o[p + 11] = 0xD0
        write_u32(o, p + 12, 16 + size)
        write_u32(o, p + 16, 5)
        o[p + 20] = 0x41 if receiver else 0x42
        o[p + 21] = 0x70
        write_u32(o, p + 22, first)
        o[p + 26] = 0x70
        write_u32(o, p + 27, last)
        o[p + 31] = 0x41 if settled else 0x42
        if n:
            conn.mem[p + 32 : p + 32 + n] = state
        else:
            o[p + 32] = 0x40
        conn.end = p + 32 + size

    def report(self, receiver: cython.bint, did: cython.uint, settled: cython.bint, state: bytes) -> None:
        """One disposition at once, behind the outcomes that were collected before it."""
        if self.connection.over:
            return
        self.put_outcomes()
        self.put_disposition(receiver, did, did, settled, state)
        self.connection.mark_dirty()

    # ---- flow out
    def window_soon(self) -> None:
        """Tell the peer of our window at the next flush."""
        if not self.window_due:
            self.window_due = True
            self.list_for_flush()

    def hold(self, link: Link) -> None:
        """Keep the incoming window closed while `link` cannot get rid of what it was given, or of what it brings.

        Any number of links may hold a session; an outgoing link lets go when its connection has caught up. A session
        that only incoming links hold gets a few frames at a time while the handler needs them: see `admit_few`.
        """
        before: Session | None = link.holding
        if before is self:
            return
        link.holding = self
        self.holds += 1
        self.holds_out += link.is_sender
        if before is not None:
            before.let_go(link)
        elif link.is_sender:
            link.connection.held.append(link)

    def release(self, link: Link) -> None:
        """`link` is no reason any more."""
        if link.holding is self:
            link.holding = None
            self.let_go(link)

    def let_go(self, link: Link) -> None:
        """One reason less to keep the window closed."""
        self.holds -= 1
        self.holds_out -= link.is_sender
        if self.holds_out == 0 and self.mapped:
            self.window_soon()

    def flush(self) -> None:
        """Write what was collected: outcomes first, since they free the peer's memory, then credit."""
        self.listed = False
        if not self.mapped:
            return
        self.put_outcomes()
        if self.window_due and self.holds:
            self.admit_few()
        link: Link
        if self.flow_links:
            links = self.flow_links
            self.flow_links = []
            for e in links:
                link = e
                link.flow_due = False
                if link.attached:
                    link.credit += link.replenish
                    link.replenish = 0
                    self.put_flow(link)
        if self.window_due:
            self.put_flow(None)

    def admit_few(self) -> None:
        """Let some frames in although the session is held, if the window is used up and the handler needs them."""
        used_up: cython.bint = self.window_end == self.next_incoming_id
        if used_up and self.holds_out == 0 and self.handler.on_held_window(self):
            self.window_end = serial_add(self.next_incoming_id, min(self.window, FEW_FRAMES))
        else:
            self.window_due = False

    def put_flow(self, link: Link | None) -> None:
        """A flow frame, with the link's part if one is given."""
        end: cython.uint = serial_add(self.next_incoming_id, self.window)
        if self.holds == 0 and serial_gap(end, self.window_end) > 0:  # what was granted cannot be taken back
            self.window_end = end
        self.window_due = False
        if link is not None and link.told is not None:
            self.send_frame(told_flow(self, link))
            return
        conn: Connection = self.connection
        conn.reserve(64)
        o: WritableOctets = conn.out
        p: cython.Py_ssize_t = conn.end
        size: cython.int = 34 if link is None else 52
        self.frame_start(o, p, size, 0x13)
        o[p + 11] = 0xC0
        o[p + 12] = size - 13
        o[p + 13] = 4 if link is None else 10
        o[p + 14] = 0x70
        write_u32(o, p + 15, self.next_incoming_id)
        o[p + 19] = 0x70
        write_u32(o, p + 20, serial_gap(self.window_end, self.next_incoming_id))
        o[p + 24] = 0x70
        write_u32(o, p + 25, self.next_outgoing_id)
        o[p + 29] = 0x70
        write_u32(o, p + 30, OUTGOING_WINDOW)
        if link is not None:
            o[p + 34] = 0x70
            write_u32(o, p + 35, link.handle)
            o[p + 39] = 0x70
            write_u32(o, p + 40, link.delivery_count)
            o[p + 44] = 0x70
            write_u32(o, p + 45, link.credit if link.credit > 0 else 0)
            o[p + 49] = 0x43
            o[p + 50] = 0x41 if link.drain else 0x42
            o[p + 51] = 0x40
        conn.end = p + size

    def frame_start(
        self, o: WritableOctets, p: cython.Py_ssize_t, size: cython.Py_ssize_t, code: cython.int
    ) -> None:
        """Frame header and descriptor of a performative, 11 octets. Spec: 2.3.1."""
        write_u32(o, p, size)
        o[p + 4] = 2
        o[p + 5] = 0
        o[p + 6] = self.channel >> 8
        o[p + 7] = self.channel & 255
        o[p + 8] = 0
        o[p + 9] = 0x53
        o[p + 10] = code
