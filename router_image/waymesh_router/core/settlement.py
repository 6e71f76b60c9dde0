"""Outcomes on their way back from consumer to producer, and what becomes of deliveries when one of the two is lost.

Routing chapter "Message Settlement and Reliability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.delivery_sampling import DROPPED, LOST, OUTCOMES, PRESETTLED, SETTLED
from waymesh_router.core.forwarding import MODIFIED_FAILED, RELEASED
from waymesh_router.core.model import Address, Branch, Group, Queued, RouterLink, Target
from waymesh_router.core.queueing import Queueing

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding import outcome_code
else:
    from waymesh_router.core.forwarding import outcome_code

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.session import Session

SETTLED_MODE = cython.declare(cython.int, 1)
ENDPOINT = cython.declare(cython.int, 0)

# How strong an outcome is when branches of a multicast disagree: any rejected, else any accepted, else any modified.
RANKS = {0x25: 4, 0x24: 3, 0x27: 2, 0x26: 1}
FIRST_FINAL = cython.declare(cython.int, 0x24)
LAST_FINAL = cython.declare(cython.int, 0x27)


class Settlement(Queueing):
    """Settlement end to end: each unsettled delivery that came in gets exactly one outcome."""

    def on_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        d: Delivery = delivery
        out: RouterLink | None = d.out
        if not settled:
            self.unsettled_outcome(d, state)
            return
        if out is not None:
            out.unsettled -= 1
            d.out = None
        if d.target is not None:
            target: Target = d.target
            target.outstanding -= 1
            d.target = None
        if not state:
            state = d.state
        if d.group is not None:
            self.branch_done(d.group, state)
            return
        lk: RouterLink | None = d.link
        self.settle_incoming(d, state)
        if lk is not None and not d.sent and outcome_code(state) > FIRST_FINAL:
            self.cut_short(lk, d)

    def unsettled_outcome(self, d: Delivery, state: bytes) -> None:
        """The receiver has a state but waits for the sender to settle (rcv-settle-mode second, or two steps)."""
        if not state:
            return
        d.state = state
        code: cython.int = outcome_code(state)
        if d.group is None:
            lk: RouterLink | None = d.link
            if lk is not None and lk.attached:
                lk.session.report(True, d.did, False, state)
            elif code >= FIRST_FINAL:
                self.settle_outgoing(d, RELEASED)  # the sender that was to settle first is gone; see producer_lost
        elif FIRST_FINAL <= code <= LAST_FINAL and d.out is not None:
            out: RouterLink = d.out  # the group answers for its branches: settle this one
            out.session.report(False, d.oid, True, state)
            out.session.unsettled_out.drop(d)
            out.unsettled -= 1
            d.out = None
            self.branch_done(d.group, state)

    def settle_incoming(self, d: Delivery, state: bytes) -> None:
        lk: RouterLink | None = d.link
        if lk is None:
            return
        d.link = None
        lk.session.unsettled_in.drop(d)
        lk.unsettled -= 1
        self.count_outcome(lk, state)
        if d.sample is not None:
            self.sampling.end_of(d, OUTCOMES.get(outcome_code(state), SETTLED))
        if lk.attached:
            lk.session.settle(d.did, state)
            # of a delivery that is still arriving the credit goes back when its last frame has come
            if lk.kind == ENDPOINT and not (lk.mid_delivery and lk.transfer_id == d.did):
                lk.give_back()

    def branch_done(self, group: Group, state: bytes) -> None:
        """One branch of a multicast has its outcome."""
        strength: cython.int = RANKS.get(outcome_code(state), 3 if not state else 0)
        if strength > group.rank:
            group.rank = strength
            group.state = state
        group.waiting -= 1
        if group.waiting == 0 and group.sealed:
            self.group_done(group, group.state)

    def group_done(self, group: Group, state: bytes) -> None:
        d: Delivery | None = group.delivery
        group.delivery = None
        if d is not None:
            self.settle_incoming(d, state)

    def on_sender_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        d: Delivery = delivery
        if settled:
            self.sender_settled(d, state)
        elif d.out is not None:
            out: RouterLink = d.out
            out.session.report(False, d.oid, False, state)

    def sender_settled(self, d: Delivery, state: bytes) -> None:
        lk: RouterLink | None = d.link
        if lk is not None:
            d.link = None
            lk.session.unsettled_in.drop(d)
            lk.unsettled -= 1
            if d.state:
                self.count_outcome(lk, d.state)
            if d.sample is not None:
                self.sampling.end_of(d, OUTCOMES.get(outcome_code(d.state), PRESETTLED))
            if lk.kind == ENDPOINT and not (lk.mid_delivery and lk.transfer_id == d.did):
                lk.give_back()
        if d.group is None:
            self.settle_outgoing(d, state if state else d.state)

    def settle_outgoing(self, d: Delivery, state: bytes) -> None:
        """Tell the receiver of an anycast delivery that it is settled, if it went out and was not settled yet."""
        out: RouterLink | None = d.out
        if out is None:
            return
        out.session.report(False, d.oid, True, state)
        out.session.unsettled_out.drop(d)
        out.unsettled -= 1
        d.out = None
        if d.target is not None:
            d.target.outstanding -= 1
            d.target = None

    # ---- losses
    def consumer_lost(self, out: RouterLink) -> None:
        """An outgoing link is gone: what it had may have been seen, what it did not have goes back."""
        d: Delivery
        feeder: RouterLink | None = out.feeder
        out.feeder = None
        for e in out.session.unsettled_out.of(out) if out.unsettled else ():
            d = e
            if d.out is out:
                out.session.unsettled_out.drop(d)
                self.on_outcome(d, True, MODIFIED_FAILED if d.sent else RELEASED)
        if feeder is not None:
            self.on_consumer_lost(feeder, out)
        queue = out.queue
        out.queue = None
        for e in queue or ():
            self.branch_lost(e)

    def on_consumer_lost(self, feeder: RouterLink, out: RouterLink) -> None:
        """The consumer of a delivery that is still arriving is gone. For one that it took settled we must answer."""
        if feeder.stream is out:
            if feeder.stream_delivery is None and not feeder.transfer_settled:
                self.count_outcome(feeder, RELEASED)
                feeder.session.settle(feeder.transfer_id, RELEASED)
            feeder.stream = None
            feeder.stream_delivery = None
            feeder.discard = True
        elif feeder.queued is not None and feeder.queued.group is None and feeder.queued.delivery is not None:
            self.settle_incoming(feeder.queued.delivery, RELEASED)

    def branch_lost(self, branch: Branch) -> None:
        """A copy that never went out."""
        q: Queued = branch.queued
        q.unstarted -= 1
        if q.group is not None and branch.out.snd_settle_mode != SETTLED_MODE:
            self.branch_done(q.group, RELEASED)
        if q.unstarted == 0:
            q.chunks.clear()
            self.let_go(q)
            self.settled_copies_out(q)

    def producer_lost(self, lk: RouterLink) -> None:
        """An incoming link is gone: an incomplete delivery is aborted, whole ones go on with nobody to report to."""
        d: Delivery
        if lk.stream is not None:
            self.drop_stream(lk)
        elif lk.queued is not None:
            self.drop_queued(lk)
        for e in lk.session.unsettled_in.of(lk) if lk.unsettled else ():
            d = e
            if d.link is lk:
                lk.session.unsettled_in.drop(d)
                d.link = None
                lk.unsettled -= 1
                if d.sample is not None:
                    self.sampling.end_of(d, LOST)
                if d.group is None and d.state and outcome_code(d.state) >= FIRST_FINAL:
                    # The sender never confirmed the outcome: for all we know it still has the message.
                    self.settle_outgoing(d, RELEASED)
        lk.session.release(lk)
        self.budget.forget(lk)

    def on_held_window(self, session: Session) -> cython.bint:
        """Whether a delivery of the session is partly with consumers: they can take no other one before its end."""
        lk: RouterLink | None
        for e in session.links:
            lk = e  # type: ignore[assignment]
            if lk is None or lk.is_sender:
                continue
            if lk.stream is not None:
                return True
            if lk.partner is None and lk.queued is not None and lk.queued.unstarted == 0:
                return True
        return False

    def release_pending(self, address: Address) -> None:
        """No consumer is left: give back what waits for one."""
        q: Queued
        pending = address.pending
        address.pending = None
        for e in pending or ():
            q = e
            self.release_queued(q)

    def refuse_pending(self, address: Address, state: bytes) -> None:
        """No consumer comes: what waits for one has this outcome."""
        q: Queued
        for e in address.pending or ():
            q = e
            if q.delivery is not None:
                self.settle_incoming(q.delivery, state)
        self.release_pending(address)

    def release_queued(self, q: Queued) -> None:
        lk: RouterLink | None = q.link
        if q.settled:
            self.dropped_presettled += 1
            self.queued_sample_ends(q, DROPPED)
            if lk is not None:
                lk.dropped_presettled += 1
                if q.complete:
                    lk.give_back()
        elif q.delivery is not None:
            self.settle_incoming(q.delivery, RELEASED)
            if lk is not None and lk.kind != ENDPOINT and q.complete:
                lk.give_back()
        if lk is not None and not q.complete:
            lk.queued = None
            lk.discard = True
        self.let_go(q)
