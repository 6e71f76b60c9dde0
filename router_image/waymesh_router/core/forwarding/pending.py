"""Deliveries that wait at their address until a consumer issues credit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from waymesh_router.core.counters import Counters
from waymesh_router.core.delivery_sampling import DROPPED, LOST
from waymesh_router.core.forwarding.annotations import Annotations, redirected
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.model import Address, PendingQueue, Queued, RouterConnection, RouterLink
from waymesh_router.core.settlement.outcomes import RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_router.core.kinds import PRESETTLED_WAITING
else:
    from waymesh_router.core.kinds import PRESETTLED_WAITING

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer


class PendingDeliveries:
    """The queues `Address.pending`: in order of arrival; empty while consumers are ready."""

    def __init__(
        self,
        stamp: str,
        choice: ConsumerChoice,
        sender: QueuedSender,
        settlement: Settlement,
    ) -> None:
        """`stamp`: see Context."""
        self.stamp = stamp
        self.choice = choice
        self.sender = sender
        self.settlement = settlement
        self.counters: Counters = settlement.counters

    # ---- incoming
    def enqueue(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """No consumer is ready for the scanned first frame of a delivery: queue it at the address."""
        q: Queued = self.sender.new_queued(lk, address, annotations, transfer)
        if not q.settled and not self.sender.track_incoming(q, lk):
            return
        q.unstarted = 1
        self.sender.budget.take(q, q.size)
        self.wait(address, q)

    def enough_wait(self, address: Address, lk: RouterLink) -> cython.bint:
        """Whether to drop a pre-settled delivery instead of queueing it, as local consumers are too slow."""
        pending: PendingQueue | None = address.pending
        if pending is None or not address.consumers:
            return False
        if pending.size() >= PRESETTLED_WAITING * lk.capacity:
            return True
        return self.sender.budget.must_drop(lk)

    def enqueue_at_fallback(
        self, lk: RouterLink, fallback: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """No consumer of the address is reachable: send the delivery to the fallback destination."""
        self.count_redirected(fallback.primary)
        self.enqueue(lk, fallback, redirected(annotations, fallback.key, self.stamp), transfer)
        self.drain(fallback)

    def count_redirected(self, address: Address | None) -> None:
        """Count a delivery that is redirected to the fallback destination."""
        self.counters.redirected += 1
        if address is not None:
            address.redirected += 1

    def wait(self, address: Address, q: Queued) -> None:
        """Append a delivery to the queue of the address."""
        if address.pending is None:
            address.pending = PendingQueue()
        address.pending.append(q)
        self.await_credit(address)
        if address.consumers:
            self.sender.return_early(q)

    def await_credit(self, address: Address) -> None:
        """Check the queue of an address whenever a neighbour that leads to consumers issues credit."""
        if not address.targets:
            return
        for t in address.targets.values():
            neighbour = t.node.neighbour()
            if neighbour is not None and neighbour.connection is not None:
                neighbour.connection.waiting[address] = None

    # ---- outgoing
    def drain(self, address: Address) -> None:
        """Send queued deliveries, in order, as far as consumers are ready. Release those without a path."""
        q: Queued
        while address.pending is not None:
            q = address.pending.first()
            self.choice.priority = q.priority
            lk: RouterLink | None = q.barring()
            if lk is not None:
                out = self.choice.pick_elsewhere(address, q.annotations, lk)
                if out is None and self.choice.has_path_elsewhere(address, q.annotations, lk):
                    self.send_past_first(address)
                    return
            else:
                out = self.choice.pick(address, q.annotations)
                if out is None and self.choice.has_path(address, q.annotations):
                    return
            if address.pending.drop_first() == 0:
                address.pending = None
            if out is not None:
                self.sender.send(q, out, None)
            elif address.fallback is not None and address.fallback.direct() and (q.link is None or not q.link.stored):
                self.redirect(q, address.fallback)
            else:
                self.release(q)

    def drain_to(self, address: Address, out: RouterLink) -> None:
        """Like `drain`, when `out` may have become ready.

        Deliveries wait, so it is usually the only ready link: they go to it without examining all others each time.
        """
        if not self.choice.only_ready(address, out):
            self.drain(address)
            return
        q: Queued
        while address.pending is not None and out.ready():
            q = address.pending.first()
            if q.barring() is not None:  # it may be barred from this consumer
                self.drain(address)
                return
            self.choice.priority = q.priority
            self.choice.picked = None
            if address.pending.drop_first() == 0:
                address.pending = None
            self.sender.send(q, out, None)

    def edge_waits(self, address: Address) -> cython.bint:
        """Whether the first delivery in the queue came from an edge router: others may overtake it."""
        if address.pending is None:
            return False
        q: Queued = address.pending.first()
        return q.barring() is not None

    def send_past_first(self, address: Address) -> None:
        """The first delivery must not return to its edge router, which may have the only ready consumer: send
        deliveries from elsewhere. Those of one edge router stay in order, and so do all others."""
        blocked: list[Any] = []
        for e in list(address.pending or ()):
            q: Queued = e
            lk: RouterLink | None = q.barring()
            if lk is not None and lk.connection in blocked:
                continue
            self.choice.priority = q.priority
            if lk is None:
                out = self.choice.pick(address, q.annotations)
            else:
                out = self.choice.pick_elsewhere(address, q.annotations, lk)
            if out is not None:
                address.pending.remove(q)  # type: ignore[union-attr]
                self.sender.send(q, out, None)
            elif lk is None:
                return  # no consumer is ready
            else:
                blocked.append(lk.connection)

    def redirect(self, q: Queued, fallback: Address) -> None:
        """Move a queued delivery to a fallback destination."""
        self.count_redirected(q.address)
        q.address = fallback
        q.annotations = redirected(q.annotations, fallback.key, self.stamp)
        self.wait(fallback, q)
        self.drain(fallback)

    # ---- returned to the sender
    def release(self, q: Queued) -> None:
        """Return a queued delivery to its sender: released, or dropped if it is settled."""
        lk: RouterLink | None = q.link
        if q.settled:
            self.counters.dropped_presettled += 1
            self.sender.end_sample(q, DROPPED)
            if lk is not None:
                lk.dropped_presettled += 1
                if q.complete and not q.credited:
                    lk.return_credit()
        elif q.delivery is not None:
            self.settlement.settle_incoming(q.delivery, RELEASED)
            if lk is not None and lk.shared() and q.complete and not q.credited:
                lk.return_credit()
        if lk is not None and not q.complete:
            lk.queued = None
            lk.discard = True
        self.sender.all_started(q)

    def release_all(self, address: Address) -> None:
        """No consumer is left: return all queued deliveries."""
        pending = address.pending
        address.pending = None
        for q in pending or ():
            self.release(q)

    def refuse_all(self, address: Address, state: bytes) -> None:
        """No consumer is possible: report this outcome for all queued deliveries."""
        q: Queued
        for e in address.pending or ():
            q = e
            if q.delivery is not None:
                self.settlement.settle_incoming(q.delivery, state)
        self.release_all(address)

    def release_from(self, lk: RouterLink) -> None:
        """Return the unsettled deliveries that arrived on a link and wait for a consumer."""
        address = lk.address
        if address is not None and address.pending is not None:
            self.take_out(address, [q for q in address.pending if q.link is lk and q.delivery is not None])

    def drop_of(self, address: Address, connection: RouterConnection | None) -> None:
        """Return all deliveries that arrived on a connection and wait here, and drop those that are settled.

        None: those of all connections that have ended.
        """
        if address.pending is not None:
            self.take_out(address, [q for q in address.pending if q.came_from(connection)])

    def take_out(self, address: Address, back: list[Any]) -> None:
        """Remove deliveries from the queue of an address and return them."""
        if not back:
            return
        gone = {id(q) for q in back}
        address.pending = PendingQueue([q for q in address.pending or () if id(q) not in gone])
        self.forget_empty(address)
        for q in back:
            self.release(q)

    def withdraw(self, q: Queued) -> None:
        """Remove an incomplete delivery from the queue: its sender is gone or has aborted it."""
        self.sender.end_sample(q, LOST)
        address: Address = q.address
        if address.pending is not None:
            address.pending.remove(q)
            self.forget_empty(address)

    def forget_empty(self, address: Address) -> None:
        """Remove the queue of an address if it is empty."""
        if address.pending is not None and address.pending.size() == 0:
            address.pending = None
