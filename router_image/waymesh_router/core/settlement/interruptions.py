"""Deliveries that end early: aborted, refused while they arrive, or because their sender or consumer is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from waymesh_router.core.delivery_sampling import LOST
from waymesh_router.core.forwarding.credit import CreditEvents
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.groups import moves_in_portions
from waymesh_router.core.forwarding.multicast import Multicast, take_of
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.pending_queue import PendingQueue, PendingWalk
from waymesh_router.core.link_routing.transfers import RoutedLinks
from waymesh_router.core.model import Address, Branch, Queued, RouterConnection, RouterLink
from waymesh_router.core.portions import AT_ONCE, RoundsOfEach
from waymesh_router.core.settlement.outcomes import MODIFIED_FAILED, RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_amqp.outgoing import abort
    from cython.cimports.waymesh_router.core.forwarding.pending import move_on
    from cython.cimports.waymesh_router.core.link_kinds import ROUTED
    from cython.cimports.waymesh_router.core.settlement.outcomes import is_final, outcome_code
else:
    from waymesh_amqp.outgoing import abort
    from waymesh_router.core.forwarding.pending import move_on
    from waymesh_router.core.link_kinds import ROUTED
    from waymesh_router.core.settlement.outcomes import is_final, outcome_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from waymesh_amqp.delivery import Delivery, DeliveryRing
    from waymesh_amqp.session import Session
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.buffer_budget import BufferBudget

A_STEP = cython.declare(cython.int, 64)
"""Number of deliveries that a step of a walk looks at."""
STEP_COST = 10
MOVED_A_STEP = 16
"""Number of deliveries that a step moves to other consumers or routers."""
MOVE_COST = 50


class Interruptions:
    """Ends the deliveries of a lost link, and those that their sender aborts or their consumer refuses."""

    def __init__(
        self, credit: CreditEvents, settlement: Settlement, budget: BufferBudget, context: CoreContext
    ) -> None:
        self.credit = credit
        self.settlement = settlement
        self.budget = budget
        self.routed: RoutedLinks = credit.routed
        self.multicast: Multicast = credit.multicast
        self.pending: PendingDeliveries = credit.pending
        self.context = context
        portions = context.portions
        self.lost = RoundsOfEach(portions, "deliveries of links that have ended", self.live, self.end_some)
        self.lost_copies = RoundsOfEach(portions, "copies for links that have ended", only, self.drop_some)
        # Links whose deliveries end in portions; True: the link has ended otherwise, and must be reported
        self.ending: dict[DeliveryRing, dict[RouterLink, bool]] = {}
        self.gathering: Gathering = credit.gathering
        self.routed_link_ended: Callable[[RouterLink], object] = lambda lk: None
        """Called when deliveries of a routed link have ended in portions, the last one now."""

    # ---- while a delivery arrives
    def on_abort(self, lk: RouterLink) -> None:
        """The sender aborted the delivery: abort it toward its consumers too. It is settled. Spec: 2.7.5."""
        self.drop_arriving(lk)
        lk.drop_head()
        lk.discard = False
        if lk.partner is None:
            lk.return_credit()
        else:
            self.routed.return_credit(lk, lk.partner)

    def cut_short(self, lk: RouterLink, d: Delivery) -> None:
        """The consumer settled a delivery that still arrives, without accepting it: send no more frames of it."""
        if lk.queued is not None and lk.queued.delivery is d:
            self.drop_arriving(lk)
            lk.discard = True

    def drop_arriving(self, lk: RouterLink) -> None:
        """Drop the delivery that arrives on a link, if any, from its queue, and abort it toward its consumers."""
        q: Queued | None = lk.queued
        branch: Branch
        if q is None:
            return
        lk.queued = None
        if lk.kind != ROUTED:
            if q.gathers:
                self.gathering.leave(q)
            self.pending.withdraw(q)
        elif q.unstarted:
            self.routed.drop_held(lk, q)
            return
        q.unstarted = 0
        q.drop_data()
        branches = q.branches
        q.branches = None
        for e in branches or ():
            branch = e
            out: RouterLink = branch.out
            if branch.started and out.feeder is lk:
                out.feeder = None
                abort(out)
                if branch.delivery is not None:
                    self.settlement.forget(branch.delivery)
                self.credit.on_credit(out)
            elif not branch.started:
                self.multicast.abort_branch(out)
        if q.delivery is not None:
            self.settlement.forget(q.delivery)
        self.multicast.sender.all_started(q)

    # ---- links that are lost
    def consumer_lost(self, out: RouterLink) -> None:
        """An outgoing link has ended: report modified for sent deliveries, which may have been seen, else released.

        In sessions with many deliveries, they end in portions. One that still arrives ends now, as the credit of its
        sender depends on it.
        """
        ring: DeliveryRing = out.session.unsettled_out
        feeder: RouterLink | None = out.feeder
        out.feeder = None
        if feeder is not None:
            d: Delivery | None = None if feeder.queued is None else feeder.queued.delivery
            if d is not None:
                self.end_outgoing(out, d)
        if out.unsettled:
            if ring.count > AT_ONCE:
                self.end_later(ring, out)
            else:
                for e in ring.of(out):
                    self.end_outgoing(out, e)
        if feeder is not None:
            self.on_consumer_lost(feeder)
        if out.streaming:
            self.pending.streams.links.lost(out)
        if moves_in_portions(out) or out.undelivered() > AT_ONCE:
            self.pending.streams.lost_links.lose(out)
            self.lost_copies.begin(out)
        else:
            end_waiting(self, out, out.undelivered())
            self.multicast.drop_waiting(out, out.undelivered())

    def end_outgoing(self, out: RouterLink, d: Delivery) -> None:
        """End a delivery that was sent on a link that has ended, if it has not ended yet.

        If it was a client's receiver on a link route, the container decides about it.
        """
        if d.out is not out:
            return
        if out.kind == ROUTED and out.route is None:
            self.settlement.forget(d)
        else:
            out.session.unsettled_out.drop(d)
            arriving = self.settlement.on_outcome(d, True, MODIFIED_FAILED if d.sent else RELEASED)
            if arriving is not None:
                self.cut_short(arriving, d)

    def on_consumer_lost(self, feeder: RouterLink) -> None:
        """A consumer of a delivery that still arrives is lost, perhaps the only one."""
        q: Queued | None = feeder.queued
        if q is None or q.group is not None or q.branches is None or len(q.branches) > 1:
            return
        if q.delivery is None:
            self.multicast.sender.end_sample(q, LOST)
        else:  # it was sent settled, otherwise it has its outcome
            self.settlement.settle_incoming(q.delivery, RELEASED)
        q.branches = None
        feeder.queued = None
        feeder.discard = True

    def producer_lost(self, lk: RouterLink) -> None:
        """An incoming link has ended: abort its incomplete delivery; complete ones continue without a sender."""
        self.drop_arriving(lk)
        lk.drop_head()
        ring: DeliveryRing = lk.session.unsettled_in
        if lk.unsettled:
            if ring.count > AT_ONCE:
                self.end_later(ring, lk)
            else:
                for e in ring.of(lk):
                    self.end_incoming(lk, e)
        lk.session.release(lk)
        self.budget.forget(lk)

    def end_incoming(self, lk: RouterLink, d: Delivery) -> None:
        """A delivery goes on without its sender, whose link has ended."""
        if d.link is lk:
            self.settlement.leave_incoming(d, lk)
            if d.sample is not None:
                self.settlement.sampling.end_of(d, LOST)
            if d.group is None and d.state and is_final(outcome_code(d.state)):
                # The sender never confirmed the outcome, so it may still have the message.
                self.settlement.settle_outgoing(d, RELEASED)

    def end_later(self, ring: DeliveryRing, lk: RouterLink) -> None:
        """End the deliveries of a link in portions, the first ones now."""
        self.ending.setdefault(ring, {})[lk] = False
        self.lost.begin(ring)

    def report_end(self, lk: RouterLink) -> None:
        """Tell telemetry that a link has ended, after its last delivery: the outcomes count."""
        links = self.ending.get(lk.session.unsettled_out if lk.is_sender else lk.session.unsettled_in)
        if links is not None and lk in links:
            links[lk] = True
        else:
            self.context.telemetry.link_detached(lk)

    def ends_later(self, lk: RouterLink) -> bool:
        """Whether a link has ended and some of its deliveries have not."""
        links = self.ending.get(lk.session.unsettled_out if lk.is_sender else lk.session.unsettled_in)
        return links is not None and lk in links

    def end_if_last(self, ring: DeliveryRing, lk: RouterLink) -> None:
        """All deliveries of a session were looked at: a link of which none is left has ended altogether."""
        links = self.ending.get(ring)
        if links is None or lk.unsettled > 0:
            return
        reported = links.pop(lk, False)
        if not links:
            del self.ending[ring]
        if reported:
            if lk.kind == ROUTED:
                self.routed_link_ended(lk)
            self.context.telemetry.link_detached(lk)

    def live(self, ring: DeliveryRing) -> list[Any]:
        """The unsettled deliveries of a session in one direction, and then its links that have ended."""
        return [*ring.live(), *self.ending.get(ring, ())]

    def end_some(self, ring: DeliveryRing, left: list[Any]) -> cython.int:
        """Look at some deliveries of a session with thousands of them, and end those whose link has ended; or, after
        the last one, at one of its links that have ended. Returns the cost.

        Until then such a delivery stays in its session, and ends as always if its other side settles it. Decision 0057.
        """
        d: Delivery
        link: RouterLink | None
        count: cython.int = A_STEP
        while count > 0 and left:
            count -= 1
            e = left.pop()
            if isinstance(e, RouterLink):
                self.end_if_last(ring, e)
                break
            d = e
            link = d.out if ring.outgoing else d.link
            if link is None or not link.over:
                continue
            if ring.outgoing:
                self.end_outgoing(link, d)
            else:
                self.end_incoming(link, d)
        return STEP_COST

    def drop_some(self, out: RouterLink, left: list[Any]) -> cython.int:
        """Drop or move some of what waits for a link that has ended. Returns the cost."""
        left.clear()
        if out.awaited is None:
            self.multicast.drop_waiting(out, A_STEP)
        else:
            end_waiting(self, out, MOVED_A_STEP + self.pending.streams.take_behind())
        if out.queue is not None:
            left.append(out)
        elif out.awaited is not None:
            self.pending.streams.lost_links.moved(out)
        return STEP_COST if out.awaited is None else MOVE_COST

    def routed_link_lost(self, lk: RouterLink) -> None:
        """One of two link-route partners has ended: end its deliveries. Until `part`, what the other link sends waits
        for it."""
        other: RouterLink | None = lk.partner
        if lk.is_sender:
            self.routed.release_held(lk)
            self.consumer_lost(lk)
        else:
            if other is not None:
                self.drop_arriving(lk)
                self.routed.release_held(other)
            self.producer_lost(lk)

    def part(self, lk: RouterLink) -> None:
        """Remove a link that has ended and its partner from each other. What waits between them is released."""
        other: RouterLink | None = lk.partner
        if other is not None:
            self.routed.release_held(lk if lk.is_sender else other)
            lk.partner = None
            other.partner = None

    # ---- sessions
    def needs_frames(self, session: Session) -> cython.bint:
        """Whether a delivery of the session is partly sent to consumers: they cannot receive others before its end."""
        lk: RouterLink | None
        for e in session.links:
            lk = e  # type: ignore[assignment]
            if lk is None or lk.is_sender:
                continue
            if lk.queued is not None and lk.queued.unstarted == 0:
                return True
        return False


def end_waiting(parts: Interruptions, out: RouterLink, count: cython.Py_ssize_t) -> None:
    """Up to `count` deliveries that wait for a link that has ended, the oldest ones, or for links whose deliveries must
    move before: those that wait for it alone go elsewhere, of the others the copy for it is dropped."""
    first: RouterLink
    branch: Branch
    lost_links = parts.pending.streams.lost_links
    while count > 0 and out.queue is not None:
        count -= 1
        first = lost_links.before(out)
        if first.queue is not None:
            branch = first.queue[0]
            if branch.queued.alone and branch.queued.unstarted:
                parts.multicast.leave_queue(first)
                move_on(parts.pending, branch.queued)
            else:
                parts.multicast.drop_first(first)
        if first.queue is None:
            lost_links.moved(first)


def only(out: RouterLink) -> tuple[RouterLink]:
    """The only part: the link itself, until no copy waits for it."""
    return (out,)


def search_waiting(
    parts: Interruptions,
    connection: RouterConnection | None,
    links: list[Any],
    addresses: list[Any],
    until: cython.longlong,
) -> list[Any]:
    """Find the messages of a client that is about to be disconnected, or, with None, of all senders that are gone, at
    some links and addresses. Returns what `drop_found` drops: copies that have left their queue, and walks over
    deliveries. What still arrives is dropped now. `until`: see `Queued.came_from`."""
    lk: RouterLink
    address: Address
    waiting: PendingQueue | None
    found: list[Any] = []
    for e in links:
        lk = e
        if lk.is_sender:
            if lk.partner is None and lk.queue is not None:
                found += take_of(parts.multicast, lk, connection, until)
        elif lk.connection is connection:
            parts.drop_arriving(lk)
            lk.drop_head()
            if lk.partner is not None:
                parts.routed.release_held(lk.partner)
    for e in addresses:
        address = e
        waiting = address.pending
        if waiting is not None:
            found += waiting.walks()
    return found


def drop_found(
    parts: Interruptions,
    connection: RouterConnection | None,
    found: list[Any],
    until: cython.longlong,
    count: cython.int,
) -> None:
    """Look at up to `count` messages of `found`, and release those of the client that wait still."""
    branch: Branch
    walk: PendingWalk
    q: Queued
    while count > 0 and found:
        count -= 1
        e = found.pop()
        if isinstance(e, PendingWalk):
            walk = e
            some = walk.some(A_STEP)
            if some:
                found.append(walk)
                found += some
        elif isinstance(e, Branch):
            branch = e
            if branch.queued.unstarted:
                parts.multicast.count_dropped(branch.out, branch.queued)
                parts.multicast.drop_branch(branch.out, branch, RELEASED)
        elif e is not None:
            q = e
            if q.came_from(connection, until) and parts.pending.take_out(q.address, q):
                parts.pending.give_back(q, RELEASED)
