"""Outcomes of deliveries, on the way from consumer to producer.

Each incoming unsettled delivery gets exactly one outcome. Routing chapter "Message Settlement and Reliability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_amqp.errors import INVALID_FIELD
from waymesh_router.core.delivery_sampling import DROPPED, PRESETTLED, SETTLED, DeliverySampling, Sample
from waymesh_router.core.settlement.outcomes import (
    ACCEPTED,
    MULTICAST_RANKS,
    OUTCOME_NAMES,
    RELEASED,
    kept_state,
)

if cython.compiled:
    from cython.cimports.waymesh_amqp.outcomes import ACCEPTED_CODE
    from cython.cimports.waymesh_router.core.counters import Counters, count_on_link
    from cython.cimports.waymesh_router.core.link_kinds import ENDPOINT
    from cython.cimports.waymesh_router.core.settlement.outcomes import is_final, outcome_code
else:
    from waymesh_amqp.outcomes import ACCEPTED_CODE
    from waymesh_router.core.counters import Counters, count_on_link
    from waymesh_router.core.link_kinds import ENDPOINT
    from waymesh_router.core.settlement.outcomes import is_final, outcome_code

if TYPE_CHECKING:
    from waymesh_amqp.delivery import Delivery
    from waymesh_router.core.forwarding.spread import Spread
    from waymesh_router.core.model import Group, RouterLink, Target


class Settlement:
    """Connects the incoming and the outgoing half of each delivery until both are settled."""

    def __init__(self, counters: Counters, sampling: DeliverySampling, spread: Spread) -> None:
        self.counters = counters
        self.sampling = sampling
        self.spread = spread

    # ---- deliveries that begin
    def track(self, lk: RouterLink, d: Delivery) -> cython.bint:
        """Record an incoming unsettled delivery; False if its id is in use, which ends the session."""
        if not lk.session.unsettled_in.put(d):
            lk.session.end(INVALID_FIELD, f"delivery-id {d.did} is in use")
            return False
        lk.unsettled += 1
        return True

    def track_outgoing(self, d: Delivery, out: RouterLink, oid: cython.uint, target: Target | None) -> None:
        """Record that the delivery was sent unsettled as `oid`; `target`: its remote router."""
        d.out = out
        d.oid = oid
        if not out.session.unsettled_out.put(d):
            raise KeyError(oid)  # this router assigns the ids, so they are unique
        out.unsettled += 1
        lk: RouterLink | None = d.link
        if lk is not None and lk.pace is not None:
            lk.pace.sent(lk)
        if target is not None:
            d.target = target
            target.outstanding += 1
            target.address.ordered = 0
            if target.speed is not None:
                self.spread.sent_to_target(d, target)
        elif out.speed is not None:
            self.spread.sent_to_link(d, out)

    def forwarded_settled(self, lk: RouterLink) -> None:
        """A delivery was sent settled: settle its incoming half too, and return the credit."""
        if not lk.transfer_settled:
            lk.accepted += 1
            self.counters.accepted += 1
            lk.session.settle(lk.transfer_id, ACCEPTED)
            if lk.pace is not None:
                lk.pace.accepted()
                lk.pace.touch(lk)
        lk.return_credit()

    def refuse(self, lk: RouterLink, more: cython.bint, state: bytes) -> None:
        """Refuse a new delivery: report the outcome now, ignore its remaining frames."""
        lk.drop_head()
        sample: Sample | None = self.sampling.current
        if sample is not None:
            sample.outcome = DROPPED if lk.transfer_settled else OUTCOME_NAMES[outcome_code(state)]
        if lk.transfer_settled:
            lk.dropped_presettled += 1
            self.counters.dropped_presettled += 1
        else:
            self.counters.count_outcome(lk, outcome_code(state))
            lk.session.settle(lk.transfer_id, state)
        if more:
            lk.discard = True
        else:
            lk.return_credit()

    # ---- the receiver reports
    def on_outcome(self, d: Delivery, settled: cython.bint, state: bytes) -> RouterLink | None:
        """The receiver reported a state. Returns the link on which a delivery that was not accepted still arrives."""
        if not settled:
            self.unsettled_outcome(d, state)
            return None
        out: RouterLink | None = d.out
        if not state:
            state = d.state
        code: cython.int = outcome_code(state)
        if out is not None:
            out.unsettled -= 1
            d.out = None
            count_on_link(out, code)
            if out.speed is not None:
                self.spread.link_settled(d, out, code == ACCEPTED_CODE)
        if d.target is not None:
            self.leave_target(d, code == ACCEPTED_CODE)
        if d.group is not None:
            self.branch_done(d.group, state)
            return None
        lk: RouterLink | None = None if d.sent or code <= ACCEPTED_CODE else d.link
        self.settle_incoming(d, state)
        return lk

    def unsettled_outcome(self, d: Delivery, state: bytes) -> None:
        """The receiver reported a state but did not settle: it waits for the sender (rcv-settle-mode second, or two
        steps)."""
        if not state or is_final(outcome_code(d.state)):  # a final outcome does not change
            return
        d.state = kept_state(state)
        code: cython.int = outcome_code(state)
        if d.group is None:
            lk: RouterLink | None = d.link
            if lk is not None and lk.usable():
                lk.session.report(True, d.did, False, state)
            elif is_final(code):
                # The sender, which had to settle first, is gone; see Interruptions.producer_lost.
                self.settle_outgoing(d, RELEASED)
        elif is_final(code) and d.out is not None:
            self.settle_outgoing(d, state)  # the group reports for its branches
            self.branch_done(d.group, state)

    def settle_incoming(self, d: Delivery, state: bytes) -> None:
        """Report the final outcome to the sender."""
        lk: RouterLink | None = d.link
        if lk is not None:
            code: cython.int = outcome_code(state)
            self.leave_incoming(d, lk)
            self.counters.count_outcome(lk, code)
            if d.sample is not None:
                self.sampling.end_of(d, OUTCOME_NAMES.get(code, SETTLED))
            if lk.pace is not None and code == ACCEPTED_CODE:
                lk.pace.accepted()
            if lk.attached:
                lk.session.settle(d.did, state)
                self.return_credit(d, lk)

    def branch_done(self, group: Group, state: bytes) -> None:
        """One branch of a multicast has its outcome."""
        rank: cython.int = MULTICAST_RANKS.get(outcome_code(state), 3 if not state else 0)
        if rank > group.rank:
            group.rank = rank
            group.state = state
        group.waiting -= 1
        if group.waiting == 0 and group.sealed:
            self.group_done(group, group.state)
        else:
            group.state = kept_state(group.state)

    def group_done(self, group: Group, state: bytes) -> None:
        """All branches have an outcome: report the combined one."""
        d: Delivery | None = group.delivery
        group.delivery = None
        if d is not None:
            self.settle_incoming(d, state)

    # ---- the sender reports
    def on_sender_outcome(self, d: Delivery, settled: cython.bint, state: bytes) -> None:
        """The sender reported a state of an incoming delivery, or settled it."""
        if settled:
            self.sender_settled(d, state)
        elif d.out is not None:
            out: RouterLink = d.out
            out.session.report(False, d.oid, False, state)

    def sender_settled(self, d: Delivery, state: bytes) -> None:
        """The sender settled an unsettled delivery on its own."""
        lk: RouterLink | None = d.link
        if lk is not None:
            self.leave_incoming(d, lk)
            if d.state:
                self.counters.count_outcome(lk, outcome_code(d.state))
            if d.sample is not None:
                self.sampling.end_of(d, OUTCOME_NAMES.get(outcome_code(d.state), PRESETTLED))
            self.return_credit(d, lk)
        if d.group is None:
            self.settle_outgoing(d, state if state else d.state)

    def settle_outgoing(self, d: Delivery, state: bytes) -> None:
        """Settle an anycast delivery toward its receiver, if it was sent and is not settled yet."""
        out: RouterLink | None = d.out
        if out is None:
            return
        out.session.report(False, d.oid, True, state)
        count_on_link(out, outcome_code(state))
        self.leave_outgoing(d, out)

    # ---- records
    def return_credit(self, d: Delivery, lk: RouterLink) -> None:
        """A client's delivery is settled: return its credit, after the last frame if it still arrives."""
        if lk.kind == ENDPOINT and not (lk.edge and lk.shared()) and not (lk.mid_delivery and lk.transfer_id == d.did):
            if lk.pace is None:
                lk.return_credit()
            else:
                lk.outstanding -= 1
                lk.held_back += 1
                lk.pace.touch(lk)

    def leave_incoming(self, d: Delivery, lk: RouterLink) -> None:
        """The delivery is no longer unsettled on its incoming link."""
        d.link = None
        lk.session.unsettled_in.drop(d)
        lk.unsettled -= 1

    def leave_outgoing(self, d: Delivery, out: RouterLink) -> None:
        """The delivery is no longer unsettled on its outgoing link."""
        out.session.unsettled_out.drop(d)
        out.unsettled -= 1
        d.out = None
        if out.speed is not None:
            self.spread.link_settled(d, out, False)
        self.leave_target(d, False)

    def leave_target(self, d: Delivery, done: cython.bint) -> None:
        """The delivery no longer counts as outstanding at a remote router. `done`: it was accepted there."""
        if d.target is not None:
            target: Target = d.target
            target.outstanding -= 1
            target.address.ordered = 0
            d.target = None
            if target.speed is not None:
                self.spread.target_settled(d, target, done)

    def forget(self, d: Delivery) -> None:
        """Remove a delivery from both sides without an outcome."""
        lk: RouterLink | None = d.link
        out: RouterLink | None = d.out
        if lk is not None:
            self.leave_incoming(d, lk)
        if out is not None:
            self.leave_outgoing(d, out)
        self.leave_target(d, False)
