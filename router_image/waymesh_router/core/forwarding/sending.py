"""How deliveries leave on outgoing links: straight from the frame that arrives, or from the queue where they waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.delivery_sampling import PRESETTLED, DeliverySampling
from waymesh_router.core.forwarding.annotations import Annotations, transit_section
from waymesh_router.core.forwarding.budget import Budget
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Address, Branch, Queued, RouterLink
from waymesh_router.core.settlement.outcomes import ACCEPTED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.delivery import new_delivery
    from cython.cimports.waymesh_amqp.outgoing import send_first, send_more
    from cython.cimports.waymesh_amqp.wire import octets
    from cython.cimports.waymesh_router.core.kinds import DATA, ENDPOINT, SETTLED_MODE
else:
    from waymesh_amqp.delivery import new_delivery
    from waymesh_amqp.outgoing import send_first, send_more
    from waymesh_amqp.wire import octets
    from waymesh_router.core.kinds import DATA, ENDPOINT, SETTLED_MODE

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.transfer import IncomingTransfer


def outgoing_annotations(out: RouterLink, annotations: Annotations) -> bytes:
    """The annotations section for a message that goes out on a link."""
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
    """Send the scanned first frame of a delivery straight on, with our annotations; its delivery-id on the link."""
    start: cython.Py_ssize_t = transfer.start
    head: cython.Py_ssize_t = sections.head
    rest: cython.Py_ssize_t = sections.rest
    ann: bytes = outgoing_annotations(out, annotations)
    if head == rest and not ann:
        head = rest = start
    more: cython.bint = transfer.more
    return send_first(out, settled, more, transfer.data, start, head, ann, rest, transfer.end, lk.transfer_format)


class QueuedSender:
    """Sends queued deliveries to links that are ready, and does the bookkeeping when their last part has left."""

    def __init__(
        self,
        sections: Sections,
        choice: ConsumerChoice,
        settlement: Settlement,
        budget: Budget,
        sampling: DeliverySampling,
    ) -> None:
        self.sections = sections
        self.choice = choice
        self.settlement = settlement
        self.budget = budget
        self.sampling = sampling

    def new_queued(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> Queued:
        """The scanned first frame as a record that can wait."""
        q: Queued = Queued(lk, annotations)
        q.address = address
        q.did = lk.transfer_id
        q.settled = lk.transfer_settled
        q.format = lk.transfer_format
        q.priority = self.choice.priority
        q.head = bytes(transfer.data[transfer.start : self.sections.head])
        q.chunks.append(bytes(transfer.data[self.sections.rest : transfer.end]))
        q.size = transfer.end - transfer.start
        q.complete = not transfer.more
        if transfer.more:
            lk.queued = q
        if self.sampling.current is not None:
            q.sample = self.sampling.current
            self.sampling.current.waits = True
        return q

    def track_incoming(self, q: Queued, lk: RouterLink) -> cython.bint:
        """Remember the incoming half of an unsettled delivery. False where its id is in use, which ends the session."""
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
        """Send what has come of a delivery to a link that is ready; `branch` for one of several consumers."""
        settled: cython.bint = q.settled or out.snd_settle_mode == SETTLED_MODE
        annotations: Annotations = q.annotations
        parts: cython.Py_ssize_t = len(q.chunks)
        data: bytes = q.head + outgoing_annotations(out, annotations) + q.chunks[0]
        oid: cython.uint = send_first(
            out, settled, parts > 1 or not q.complete, octets(data), 0, 0, b"", 0, len(data), q.format
        )
        if parts > 1:
            self.send_parts(q, out, parts)
        self.settlement.counters.count_out(q.link, q.address, out)
        if q.sample is not None:
            self.sampling.went_out(q.sample, out)
        q.unstarted -= 1
        if not settled:
            self.track_outgoing(q, out, oid, branch)
        if not q.complete:
            out.feeder = q.link
            if branch is None:
                branch = Branch(q, out)
                branch.delivery = None if settled else q.delivery
                q.branches = [branch]
            branch.started = True
        if q.unstarted == 0:
            q.chunks.clear()
            self.all_started(q)
        if settled and not q.settled and branch is None and q.complete:
            self.taken_settled(q)
        if q.unstarted == 0:
            self.return_credit(q)

    def send_parts(self, q: Queued, out: RouterLink, parts: cython.Py_ssize_t) -> None:
        """Send the further parts of a delivery one by one: joined, a large one would be in memory twice."""
        i: cython.Py_ssize_t
        for i in range(1, parts):
            part: bytes = q.chunks[i]
            if q.unstarted == 1:
                q.chunks[i] = b""  # no other branch needs it
            send_more(out, i + 1 < parts or not q.complete, octets(part), 0, len(part))

    def track_outgoing(self, q: Queued, out: RouterLink, oid: cython.uint, branch: Branch | None) -> None:
        """Remember the outgoing half of an unsettled delivery."""
        d: Delivery
        if branch is None:
            d = q.delivery
        else:
            d = new_delivery()
            d.group = q.group
            branch.delivery = d
        d.sent = q.complete
        self.settlement.track_outgoing(d, out, oid, self.choice.picked if branch is None else None)

    def all_started(self, q: Queued) -> None:
        """No consumer is awaited any more: free the budget and let the sender's session go on."""
        lk: RouterLink | None = q.link
        self.budget.give(q)
        if lk is not None:
            self.budget.release(lk)
            if not q.complete and lk.session.holds:
                lk.session.window_soon()  # consumers wait for the rest

    def taken_settled(self, q: Queued) -> None:
        """An unsettled delivery went to a consumer that receives settled ones: accepted on its behalf."""
        d: Delivery | None = q.delivery
        if d is not None:
            self.settlement.settle_incoming(d, ACCEPTED)

    def return_credit(self, q: Queued) -> None:
        """Give the sender's credit back where no outcome does so: the last byte of a delivery has left."""
        lk: RouterLink | None = q.link
        if lk is None or not q.complete or q.unstarted:
            return
        if q.settled:
            q.link = None
            self.settlement.counters.count_presettled(lk)
            lk.give_back()
            self.end_sample(q, PRESETTLED)
        elif lk.kind == DATA:
            q.link = None
            lk.give_back()

    def end_sample(self, q: Queued, outcome: str) -> None:
        """A pre-settled queued delivery has come to its end. For unsettled ones the `Delivery` has the sample."""
        if q.sample is not None:
            self.sampling.end(q.sample, outcome)
            q.sample = None
