"""Deliveries that wait at their address until a consumer issues credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.attaching import EXPIRED_REJECTED, OVER_CONSUMER_MAXIMUM
from waymesh_router.core.counters import Counters
from waymesh_router.core.delivery_sampling import DROPPED, LOST
from waymesh_router.core.forwarding.annotations import Annotations, meant_for, redirected
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.expiry import Expiry
from waymesh_router.core.forwarding.pending_queue import PendingQueue
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.forwarding.size_limits import SizeLimits
from waymesh_router.core.forwarding.streams import Streams
from waymesh_router.core.model import Address, Queued, RouterConnection, RouterLink, Target
from waymesh_router.core.settlement.outcomes import ACCEPTED, RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.grouped import pass_on_grouped, place_waiting, wait_behind
    from cython.cimports.waymesh_router.core.forwarding.spread import (
        await_neighbours,
        has_announced_window,
        is_awaited,
        is_spread,
        passes,
        waits_for_consumers,
    )
    from cython.cimports.waymesh_router.core.link_kinds import ENDPOINT, PRESETTLED_WAITING
else:
    from waymesh_router.core.forwarding.grouped import pass_on_grouped, place_waiting, wait_behind
    from waymesh_router.core.forwarding.spread import (
        await_neighbours,
        has_announced_window,
        is_awaited,
        is_spread,
        passes,
        waits_for_consumers,
    )
    from waymesh_router.core.link_kinds import ENDPOINT, PRESETTLED_WAITING

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer

A_SHARE = cython.declare(cython.int, 3)
"""A_SHARE + 1 deliveries that are sent count as one expired one that ends, see `Expiry.may_end`."""


class PendingDeliveries:
    """The queues `Address.pending`; None while consumers are ready."""

    def __init__(
        self,
        stamp: str,
        choice: ConsumerChoice,
        sender: QueuedSender,
        settlement: Settlement,
        streams: Streams,
    ) -> None:
        self.stamp = stamp  # see CoreContext
        self.choice = choice
        self.sender = sender
        self.expiry: Expiry = sender.expiry
        self.settlement = settlement
        self.streams = streams
        self.sizes = SizeLimits(choice, streams)
        self.counters: Counters = settlement.counters

    # ---- incoming
    def enqueue(
        self,
        lk: RouterLink,
        address: Address,
        annotations: Annotations,
        transfer: IncomingTransfer,
        examine: cython.bint,
    ) -> None:
        """Queue the scanned first frame of a delivery at its address. `examine`: perhaps it can be sent at once."""
        q: Queued = self.sender.new_queued(lk, address, annotations, transfer)
        if q.settled or self.sender.track_incoming(q, lk):
            q.unstarted = 1
            self.sender.budget.take(q, q.size)
            self.wait(address, q)
            if examine:
                self.begin(address, q)

    def wait_again(self, q: Queued) -> None:
        """A delivery that waited elsewhere waits at its address."""
        self.wait(q.address, q)
        self.begin(q.address, q)

    def enough_wait(self, address: Address, lk: RouterLink) -> cython.bint:
        """Whether to drop a pre-settled delivery instead of queueing it, as local consumers are too slow: the queue
        waits for their credit, not for the next turn of the event loop."""
        pending: PendingQueue | None = address.pending
        if pending is None or not address.consumers:
            return False
        if pending.count >= PRESETTLED_WAITING * lk.capacity:
            if not self.expiry.has_turn(address) and address not in self.settlement.spread.freed:
                return True
        return self.sender.budget.must_drop(lk)

    def enqueue_at_fallback(
        self, lk: RouterLink, fallback: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """No consumer of the address is reachable: send the delivery to the fallback destination, behind those that
        still wait at the address because a turn of the event loop could not redirect all of them."""
        if fallback.primary is not None and fallback.primary in self.expiry.addresses:
            self.enqueue(lk, fallback.primary, annotations, transfer, False)
            return
        self.count_redirected(fallback.primary)
        self.enqueue(lk, fallback, redirected(annotations, fallback.key, self.stamp), transfer, True)

    def count_redirected(self, address: Address | None) -> None:
        """Count a delivery that is redirected to the fallback destination."""
        self.counters.redirected += 1
        if address is not None:
            address.redirected += 1

    def wait(self, address: Address, q: Queued) -> None:
        """Append a delivery to the queue of the address, or to older ones of its message group elsewhere."""
        self.expiry.begin(q)
        self.expiry.joined += q.settled
        if q.slot == 0 or not wait_behind(self, address, q):
            self.append(address, q)
        return_if_shared(self, address, q)

    def append(self, address: Address, q: Queued) -> None:
        """Append a delivery to the queue of the address."""
        pending: PendingQueue | None = address.pending
        if pending is None:
            pending = address.pending = PendingQueue()
        pending.append(q)
        if not (address.targets and is_awaited(address, pending)):
            self.await_credit(address)

    def await_credit(self, address: Address) -> None:
        """Check the queue of an address whenever a neighbour that leads to consumers issues credit, which is of no use
        while the window of those consumers is full; and look at windows after a while."""
        if not address.watched and is_spread(address):
            self.settlement.spread.watch(address)
        if address.targets:
            await_neighbours(address)

    # ---- outgoing
    def begin(self, address: Address, q: Queued) -> None:
        """Send a delivery that was appended to the queue if a consumer is ready and it passes only what windows hold.

        What waits before it waits for another reason, so nothing else is examined.
        """
        pending: PendingQueue | None = address.pending
        if pending is not None and not q.alone and (pending.leads(q) or passes(address, q)):
            self.pass_on(address, q)

    def drain(self, address: Address) -> None:
        """Send queued deliveries, in order, as far as consumers are ready. Release those without a path."""
        self.drain_groups(address, True)
        if address.pending is not None:
            self.await_credit(address)

    def drain_groups(self, address: Address, paths_changed: cython.bint) -> None:
        """Send the oldest delivery until no group can go on. `paths_changed`: some may have no path any more, so that
        each group is examined even if no consumer is ready."""
        pending: PendingQueue | None = address.pending
        q: Queued | None
        waiting: cython.int = 0
        sent: cython.int = 0
        left: cython.Py_ssize_t
        if pending is not None and pending.grouped is not None:
            place_waiting(self, address)
        try:
            while address.pending is not None:
                pending = address.pending
                q = pending.first()
                if q is None:
                    break
                left = self.expiry.left
                if self.pass_on(address, q):
                    if self.expiry.left != left:
                        continue  # it had expired, and counted
                    sent += 1
                    if sent & A_SHARE == 0 and not self.expiry.may_end():
                        self.expiry.addresses[address] = None
                        break
                    continue
                if q.barring() is None and not q.annotations.trace and not paths_changed:
                    break  # no consumer is ready
                pending.pass_over()
                waiting += 1
                if waiting == 2 and not paths_changed and not self.choice.any_ready(address):
                    break  # a ready consumer would be on another connection than one of two that bar deliveries
        finally:
            if waiting and pending is not None:
                pending.restore()

    def pass_on(self, address: Address, q: Queued) -> cython.bint:
        """Send the first delivery of a group, or end its wait if it has expired or has no path. False if no consumer is
        ready."""
        if q.expires != 0.0 and self.expiry.is_over(q):
            return expire(self, address, q)
        if q.slot and address.groups is not None:
            return pass_on_grouped(self, address, q)
        lk: RouterLink | None = q.barring()
        self.choice.priority = q.priority
        self.choice.settled = q.settled
        if lk is not None:
            out = self.choice.pick_elsewhere(address, q.annotations, lk)
            if out is None and self.choice.has_path_elsewhere(address, q.annotations, lk):
                return False
        else:
            out = self.choice.pick(address, q.annotations)
            if out is None and self.choice.has_path(address, q.annotations):
                return False
        self.take_out(address, q)
        if out is not None:
            send_to(self, q, out)
        elif address.fallback is not None and address.fallback.direct() and (q.link is None or not q.link.stored):
            self.redirect(q, address.fallback)
        else:
            self.give_back(q, RELEASED)
        return True

    def drain_to(self, address: Address, out: RouterLink) -> None:
        """Like `drain`, when `out` may have become ready.

        Deliveries wait, so it is usually the only ready link: they go to it without examining all others each time.
        """
        if not self.choice.only_ready(address, out):
            self.drain_groups(address, False)
            return
        q: Queued
        pending: PendingQueue
        sent: cython.int = 0
        while True:
            pending = address.pending  # type: ignore[assignment]  # some wait
            if pending.barred is not None or pending.grouped is not None:  # some may be barred from this consumer
                self.drain_groups(address, False)
                return
            q = pending.first()  # type: ignore[assignment]  # some wait
            if q.expires != 0.0 and self.expiry.is_over(q):
                if not expire(self, address, q):
                    return
            else:
                self.choice.priority = q.priority
                self.choice.picked = None
                pending.remove(q)
                if pending.count == 0:
                    address.pending = None
                send_to(self, q, out)
                sent += 1
                if sent & A_SHARE == 0 and not self.expiry.may_end():
                    self.expiry.go_on_later(out)
                    return
            if address.pending is None or not self.choice.takes(address, out):
                return

    def consumer_left(self, address: Address) -> None:
        """A consumer has left, others remain. If they are all on one connection, what it bars has no path any more."""
        pending: PendingQueue | None = address.pending
        first: RouterLink = address.consumers[0]
        if pending is None or pending.barred is None or first.connection not in pending.barred:
            return
        other: RouterLink
        for e in address.consumers:
            other = e
            if other.connection is not first.connection:
                return
        self.drain(address)

    def redirect(self, q: Queued, fallback: Address) -> None:
        """Move a queued delivery to a fallback destination."""
        self.count_redirected(q.address)
        q.address = fallback
        q.annotations = redirected(q.annotations, fallback.key, self.stamp)
        self.wait(fallback, q)
        self.begin(fallback, q)

    # ---- returned to the sender
    def give_back(self, q: Queued, state: bytes) -> None:
        """End a queued delivery with this outcome for its sender. One that is settled is dropped."""
        lk: RouterLink | None = q.link
        if q.settled:
            self.counters.dropped_presettled += 1
            self.sender.end_sample(q, DROPPED)
            if lk is not None:
                lk.dropped_presettled += 1
                if q.complete and not q.credited:
                    lk.return_credit()
        elif q.delivery is not None:
            self.settlement.settle_incoming(q.delivery, state)
            if lk is not None and lk.shared() and q.complete and not q.credited:
                lk.return_credit()
        if lk is not None and not q.complete:
            lk.queued = None
            lk.discard = True
        self.sender.all_started(q)

    def release_all(self, address: Address) -> None:
        """No consumer is left: return all queued deliveries."""
        pending: PendingQueue | None = address.pending
        address.pending = None
        q: Queued
        for e in pending or ():
            q = e
            pending.count_kind(q, -1)  # type: ignore[union-attr]
            self.give_back(q, RELEASED)

    def release_some(self, address: Address, count: cython.int) -> None:
        """Return up to `count` queued deliveries, the oldest ones."""
        while count > 0 and address.pending is not None:
            count -= 1
            pending: PendingQueue = address.pending
            q: Queued | None = pending.first_of_all()
            if q is None:
                return
            self.take_out(address, q)
            self.give_back(q, RELEASED)

    def refuse_all(self, address: Address, state: bytes) -> None:
        """No consumer is possible: report this outcome for all queued deliveries."""
        q: Queued
        for e in address.pending or ():
            q = e
            if q.delivery is not None:
                self.settlement.settle_incoming(q.delivery, state)
        self.release_all(address)

    def withdraw(self, q: Queued) -> None:
        """Remove an incomplete delivery from the queue: its sender is gone or has aborted it."""
        if q.delivery is None or q.delivery.link is not None:
            self.sender.end_sample(q, LOST)
        self.take_out(q.address, q)

    def take_out(self, address: Address, q: Queued) -> cython.bint:
        """Remove a delivery from the queue of its address; returns whether it was there."""
        pending: PendingQueue | None = address.pending
        if pending is None:
            return False
        there: cython.bint = pending.remove(q)
        if pending.count == 0:
            address.pending = None
        return there


def return_if_shared(pending: PendingDeliveries, address: Address, q: Queued) -> None:
    """Return the credit of a delivery that begins to wait for consumers, if its sender's link serves others, too."""
    if q.link is not None and (q.settled or q.link.kind != ENDPOINT or q.link.edge):
        if waits_for_consumers(address, q):
            pending.sender.return_early(q)


def move_on(pending: PendingDeliveries, q: Queued) -> None:
    """A delivery that waited for a link that has ended goes elsewhere: before what has come for its group since."""
    q.alone = False
    q.branches = None
    q.to_routers = 0
    pending.append(q.address, q)
    return_if_shared(pending, q.address, q)
    pending.begin(q.address, q)


def send_to(pending: PendingDeliveries, q: Queued, out: RouterLink) -> None:
    """Send a delivery that has left its queue on a ready link, or on another one if it is too large for this."""
    if out.max_message_size == 0 or pending.sizes.fits(q, out):
        target: Target | None = pending.choice.picked
        if target is not None and has_announced_window(target, q.annotations, q.settled):
            q.annotations = meant_for(q.annotations, target.node.id, q.address.key, pending.stamp)
        conn: RouterConnection = out.connection
        if conn.streams:
            pending.streams.send(q, out)
        else:
            pending.sender.send(q, out, None)
    elif not pending.sizes.send_elsewhere(q):
        q.unstarted = 0
        pending.give_back(q, OVER_CONSUMER_MAXIMUM)


def expire(pending: PendingDeliveries, address: Address, q: Queued) -> cython.bint:
    """End the wait of an expired delivery. False if it must wait for the next turn of the event loop."""
    if not pending.expiry.may_end():
        pending.expiry.addresses[address] = None
        return False
    pending.expiry.count(address)
    pending.take_out(address, q)
    pending.give_back(q, ACCEPTED if address.drops_expired else EXPIRED_REJECTED)
    return True
