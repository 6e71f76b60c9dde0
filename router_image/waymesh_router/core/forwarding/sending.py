"""Sends deliveries on outgoing links: directly from the incoming frame, or from the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.codec_values import Raw
from waymesh_amqp.performatives import Transfer, encode_frame
from waymesh_router.core.delivery_sampling import PRESETTLED, DeliverySampling
from waymesh_router.core.forwarding.annotations import Annotations, transit_section
from waymesh_router.core.forwarding.buffer_budget import BufferBudget
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.expiry import Expiry
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Address, Branch, Queued, RouterLink, Target
from waymesh_router.core.settlement.outcomes import ACCEPTED, kept_state
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import send_first, send_more
    from cython.cimports.waymesh_amqp.wire import octets, serial_add, to_bytes
    from cython.cimports.waymesh_router.core.link_kinds import ENDPOINT, PRESETTLED_WAITING, SETTLED_MODE
    from cython.cimports.waymesh_router.core.model import make_queued
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import send_first, send_more
    from waymesh_amqp.wire import octets, serial_add, to_bytes
    from waymesh_router.core.link_kinds import ENDPOINT, PRESETTLED_WAITING, SETTLED_MODE
    from waymesh_router.core.model import make_queued

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer


STATE_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 64)
"""Maximum size of a transfer with a state, without the state."""


def outgoing_annotations(out: RouterLink, annotations: Annotations) -> bytes:
    """The annotations section of a message on an outgoing link."""
    if out.strip and out.kind == ENDPOINT:
        return annotations.client
    return annotations.transit if not annotations.unmarked else transit_section(annotations)


def send_scanned(
    lk: RouterLink,
    out: RouterLink,
    settled: cython.bint,
    annotations: Annotations,
    sections: Sections,
    transfer: IncomingTransfer,
) -> cython.uint:
    """Forward the scanned first frame of a delivery, with the router's annotations; returns its delivery-id."""
    start: cython.Py_ssize_t = transfer.start
    head: cython.Py_ssize_t = sections.head
    rest: cython.Py_ssize_t = sections.rest
    ann: bytes = outgoing_annotations(out, annotations)
    if head == rest and not ann:
        head = rest = start
    more: cython.bint = transfer.more
    return send_first(out, settled, more, transfer.data, start, head, ann, rest, transfer.end, lk.transfer_format)


def send_with_state(
    out: RouterLink, settled: cython.bint, more: cython.bint, data: bytes, form: cython.uint, state: bytes
) -> cython.uint:
    """Begin a delivery whose transfer carries a delivery state, on a ready link; returns the delivery-id."""
    session: Session = out.session
    oid: cython.uint = session.new_delivery_id()
    room: cython.Py_ssize_t = out.connection.peer_max - STATE_HEADER_BYTES - len(state)
    if room < 1:
        return send_first(out, settled, more, octets(data), 0, 0, b"", 0, len(data), form)
    out.credit -= 1
    out.delivery_count = serial_add(out.delivery_count, 1)
    split: cython.bint = len(data) > room
    tag = oid.to_bytes(4, "big")
    terms = Transfer(out.handle, oid, tag, form, bool(settled), bool(more or split), state=Raw(state))
    out.connection.put(encode_frame(session.channel, terms, data[:room]))
    session.next_outgoing_id = serial_add(session.next_outgoing_id, 1)
    session.remote_window -= 1
    out.connection.mark_dirty()
    out.busy = more or split
    if split:
        send_more(out, more, octets(data), room, len(data))
    return oid


def size_on(out: RouterLink, q: Queued) -> cython.longlong:
    """The size of a queued delivery on an outgoing link, as far as it has arrived."""
    size: cython.longlong = len(q.data) + len(outgoing_annotations(out, q.annotations))
    if q.later is not None:
        for part in q.later:
            size += len(part)
    return size


def enough_wait_for(sender: QueuedSender, out: RouterLink, lk: RouterLink) -> cython.bint:
    """Whether so much waits for this consumer that a pre-settled delivery of `lk` is dropped: for its credit, not for
    the next turn of the event loop."""
    if out.queue is None:
        return False
    if len(out.queue) >= PRESETTLED_WAITING * lk.capacity and not out.ready() and out not in sender.expiry.links:
        return True
    return sender.budget.must_drop(lk)


def goes_on(q: Queued, out: RouterLink, branch: Branch | None, settled: cython.bint) -> None:
    """What has arrived of an incomplete delivery was sent on a link: further frames follow on it, see `Outflow`."""
    lk: RouterLink = q.link  # type: ignore[assignment]  # its frames arrive on it
    out.feeder = lk
    if branch is None:
        branch = Branch(q, out)
        branch.delivery = None if settled else q.delivery
        branch.started = True
        q.branches = [branch]
    if out.backlog is not None:
        lk.session.hold_window(out)


def is_simple_unsettled(q: Queued) -> cython.bint:
    """Whether a queued delivery is unsettled, complete, in one piece, for one consumer, and sent as it came."""
    return (
        q.complete
        and q.later is None
        and q.unstarted == 1
        and q.ttl_at == 0
        and not q.state
        and q.sample is None
        and q.group is None
        and q.delivery is not None
    )


def is_simple_settled(q: Queued) -> cython.bint:
    """Whether a queued delivery is pre-settled, complete, in one piece, and sent as it came."""
    return q.settled and q.complete and q.later is None and q.ttl_at == 0 and not q.state and q.sample is None


class QueuedSender:
    """Sends queued deliveries to ready links, and updates the records after the last part."""

    def __init__(
        self,
        sections: Sections,
        choice: ConsumerChoice,
        settlement: Settlement,
        budget: BufferBudget,
        sampling: DeliverySampling,
        expiry: Expiry,
    ) -> None:
        self.expiry = expiry
        self.sections = sections
        self.choice = choice
        self.settlement = settlement
        self.budget = budget
        self.sampling = sampling
        self.arrived = 0  # number of records so far

    def next_arrival(self) -> cython.Py_ssize_t:
        """The number of a new record: the order in which deliveries began to wait in this router."""
        self.arrived += 1
        return self.arrived

    def new_queued(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> Queued:
        """Create a record that can wait from the scanned first frame."""
        start: cython.Py_ssize_t = transfer.start
        head: cython.Py_ssize_t = self.sections.head
        rest: cython.Py_ssize_t = self.sections.rest
        q: Queued = make_queued(lk, annotations)
        q.address = address
        q.arrival = self.next_arrival()
        q.did = lk.transfer_id
        q.settled = lk.transfer_settled
        q.format = lk.transfer_format
        q.priority = self.choice.priority
        q.slot = self.choice.slot
        q.head_size = head - start
        if head == rest:
            q.data = to_bytes(transfer.data, start, transfer.end)
        else:
            q.data = to_bytes(transfer.data, start, head) + to_bytes(transfer.data, rest, transfer.end)
        q.size = transfer.end - start
        q.complete = not transfer.more
        if transfer.state_bytes:
            q.state = kept_state(transfer.state)
        if transfer.more:
            lk.queued = q
        if self.sampling.current is not None:
            q.sample = self.sampling.current
            self.sampling.current.waits = True
        return q

    def new_single(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> Queued | None:
        """A record for one consumer. None if the id of the delivery is in use, which ends the session."""
        q: Queued = self.new_queued(lk, address, annotations, transfer)
        q.unstarted = 1
        return q if q.settled or self.track_incoming(q, lk) else None

    def track_incoming(self, q: Queued, lk: RouterLink) -> cython.bint:
        """Record the incoming half of an unsettled delivery. False if its id is in use, which ends the session."""
        d: Delivery = new_delivery()
        d.link = lk
        d.did = q.did
        d.sent = False
        d.sample = q.sample
        if not self.settlement.track(lk, d):
            return False
        q.delivery = d
        return True

    def send(self, q: Queued, out: RouterLink, branch: Branch | None) -> None:
        """Send all bytes that have arrived of a delivery to a ready link; `branch` for one of several consumers."""
        settled: cython.bint = q.settled or out.snd_settle_mode == SETTLED_MODE
        if not settled and branch is None and is_simple_unsettled(q) and out.max_message_size == 0:
            self.send_simple_unsettled(q, out)
        elif is_simple_settled(q) and out.max_message_size == 0:
            self.send_simple_settled(q, out, branch)
        else:
            self.send_any(q, out, branch, settled)

    def send_any(self, q: Queued, out: RouterLink, branch: Branch | None, settled: cython.bint) -> None:
        """`send` of any delivery."""
        annotations: Annotations = q.annotations
        if out.max_message_size:
            out.transfer_bytes = size_on(out, q)
        parts: cython.bint = q.later is not None
        more: cython.bint = parts or not q.complete
        data: bytes = q.data if q.ttl_at == 0 else self.expiry.aged(q)
        ann: bytes = outgoing_annotations(out, annotations)
        head: cython.Py_ssize_t = q.head_size if ann else 0
        oid: cython.uint
        if q.state:
            oid = send_with_state(out, settled, more, data[:head] + ann + data[head:], q.format, q.state)
        else:
            oid = send_first(out, settled, more, octets(data), 0, head, ann, head, len(data), q.format)
        if parts:
            self.send_parts(q, out)
        self.settlement.counters.count_out(q.address, out)
        if q.sample is not None:
            self.sampling.went_out(q.sample, out)
        q.unstarted -= 1
        if settled:
            out.presettled += 1
        else:
            self.track_outgoing(q, out, oid, branch)
        if branch is not None:
            branch.started = True
        if not q.complete:
            goes_on(q, out, branch, settled)
        if q.unstarted == 0:
            q.drop_data()
            self.all_started(q)
        if settled and not q.settled and (branch is None or q.alone) and q.complete:
            self.taken_settled(q)
        if q.unstarted == 0:
            self.return_credit(q)

    def send_simple_unsettled(self, q: Queued, out: RouterLink) -> None:
        """`send` of an unsettled delivery of which nothing is unusual, to its only consumer."""
        d: Delivery = q.delivery  # type: ignore[assignment]  # it is unsettled
        lk: RouterLink | None = q.link
        data: bytes = q.data
        ann: bytes = outgoing_annotations(out, q.annotations)
        head: cython.Py_ssize_t = q.head_size if ann else 0
        oid: cython.uint = send_first(out, False, False, octets(data), 0, head, ann, head, len(data), q.format)
        self.settlement.counters.count_out(q.address, out)
        q.unstarted = 0
        q.data = b""
        d.sent = True
        self.settlement.track_outgoing(d, out, oid, self.choice.picked)
        self.budget.give(q)
        if lk is not None:
            if lk.holding is not None:
                self.budget.release(lk)
            if lk.kind != ENDPOINT or lk.edge:
                self.return_credit(q)

    def send_simple_settled(self, q: Queued, out: RouterLink, branch: Branch | None) -> None:
        """`send` of a pre-settled message of which nothing is unusual."""
        data: bytes = q.data
        ann: bytes = outgoing_annotations(out, q.annotations)
        head: cython.Py_ssize_t = q.head_size if ann else 0
        send_first(out, True, False, octets(data), 0, head, ann, head, len(data), q.format)
        self.settlement.counters.count_out(q.address, out)
        out.presettled += 1
        if branch is not None:
            branch.started = True
        q.unstarted -= 1
        if q.unstarted == 0:
            q.data = b""
            self.all_started(q)
            self.return_credit(q)

    def send_parts(self, q: Queued, out: RouterLink) -> None:
        """Send the later parts of a delivery one by one: joining them would double the memory of a large one."""
        later: list[bytes] = q.later  # type: ignore[assignment]
        parts: cython.Py_ssize_t = len(later)
        i: cython.Py_ssize_t
        for i in range(parts):
            part: bytes = later[i]
            if q.unstarted == 1:
                later[i] = b""  # not needed by another branch
            send_more(out, i + 1 < parts or not q.complete, octets(part), 0, len(part))

    def track_outgoing(self, q: Queued, out: RouterLink, oid: cython.uint, branch: Branch | None) -> None:
        """Record the outgoing half of an unsettled delivery."""
        d: Delivery
        target: Target | None = None
        if branch is None:
            d = q.delivery  # type: ignore[assignment]
            target = self.choice.picked
        elif q.alone:
            d = q.delivery  # type: ignore[assignment]
            branch.delivery = d
            target = q.target
        else:
            d = new_delivery()
            d.group = q.group
            branch.delivery = d
        d.sent = q.complete
        self.settlement.track_outgoing(d, out, oid, target)

    def all_started(self, q: Queued) -> None:
        """All consumers have started: free the budget and release the sender's session."""
        lk: RouterLink | None = q.link
        if q.complete:
            q.branches = None  # each refers to the record
        self.budget.give(q)
        if lk is not None:
            self.budget.release(lk)
            if not q.complete and lk.session.holds:
                lk.session.window_soon()  # consumers wait for the remaining frames

    def taken_settled(self, q: Queued) -> None:
        """An unsettled delivery was sent settled, as the consumer requested: accept it on its behalf."""
        d: Delivery | None = q.delivery
        if d is not None:
            self.settlement.settle_incoming(d, ACCEPTED)

    def return_early(self, q: Queued) -> None:
        """Return the sender's credit of a complete delivery that waits for consumers of this router.

        Otherwise one consumer that issues no credit would stop a link between routers, for all addresses, and the
        sender of pre-settled deliveries, for all consumers. `enough_wait` and `enough_wait_for` limit those; the credit
        of their senders limits unsettled deliveries. Deliveries for another router return their credit when the link to
        it has credit, which is soon.
        """
        lk: RouterLink | None = q.link
        if lk is None or q.credited or not q.complete or q.unstarted == 0:
            pass
        elif q.settled or (lk.shared() and not self.budget.half_used(lk)):
            q.credited = True
            lk.return_credit()

    def return_credit(self, q: Queued) -> None:
        """Return the sender's credit after the last byte of a delivery was sent, if no outcome returns it."""
        lk: RouterLink | None = q.link
        if lk is None or not q.complete or q.unstarted:
            pass
        elif q.settled:
            q.link = None
            if not q.credited:
                lk.return_credit()
            self.end_sample(q, PRESETTLED)
        elif lk.shared():
            q.link = None
            if not q.credited:
                lk.return_credit()

    def end_sample(self, q: Queued, outcome: str) -> None:
        """End the sample of a pre-settled queued delivery. For unsettled ones the `Delivery` has the sample."""
        if q.sample is not None:
            self.sampling.end(q.sample, outcome)
            q.sample = None
