"""Deliveries that wait at their address until a consumer gives credit."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_router.core.counters import Counters
from waymesh_router.core.delivery_sampling import DROPPED, LOST
from waymesh_router.core.forwarding.annotations import Annotations, redirected
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.model import Address, Queued, RouterLink
from waymesh_router.core.settlement.outcomes import RELEASED
from waymesh_router.core.settlement.settlement import Settlement

if cython.compiled:
    from cython.cimports.waymesh_router.core.kinds import ENDPOINT
else:
    from waymesh_router.core.kinds import ENDPOINT

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer


class PendingDeliveries:
    """The queues of all addresses, `Address.pending`: in order of arrival, and empty as long as consumers are ready."""

    def __init__(
        self,
        router_id: str,
        choice: ConsumerChoice,
        sender: QueuedSender,
        settlement: Settlement,
    ) -> None:
        self.router_id = router_id
        self.choice = choice
        self.sender = sender
        self.settlement = settlement
        self.counters: Counters = settlement.counters

    # ---- coming in
    def enqueue(
        self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """No consumer is ready for the scanned first frame of a delivery: keep it with the address."""
        q: Queued = self.sender.new_queued(lk, address, annotations, transfer)
        if not q.settled and not self.sender.track_incoming(q, lk):
            return
        q.unstarted = 1
        self.sender.budget.take(q, q.size)
        self.wait(address, q)

    def enqueue_at_fallback(
        self, lk: RouterLink, fallback: Address, annotations: Annotations, transfer: IncomingTransfer
    ) -> None:
        """No consumer of the address can be reached: the delivery goes to its fallback destination."""
        self.counters.redirected += 1
        self.enqueue(lk, fallback, redirected(annotations, fallback.key, self.router_id), transfer)
        self.drain(fallback)

    def wait(self, address: Address, q: Queued) -> None:
        """Put a delivery behind the others that wait at the address."""
        if address.pending is None:
            address.pending = deque()
        address.pending.append(q)
        self.await_credit(address)

    def await_credit(self, address: Address) -> None:
        """Look at what waits at an address whenever a neighbour that leads to consumers gives credit."""
        for t in address.targets.values():
            neighbour = t.node.neighbour()
            if neighbour is not None:
                neighbour.connection.waiting[address] = None

    # ---- going out
    def drain(self, address: Address) -> None:
        """Send what waits, in order, as far as consumers are ready. What has no path any more is released."""
        q: Queued
        while address.pending is not None:
            q = address.pending[0]
            self.choice.priority = q.priority
            out = self.choice.pick(address, q.annotations)
            if out is None and self.choice.has_path(address, q.annotations):
                return
            address.pending.popleft()
            if not address.pending:
                address.pending = None
            if out is not None:
                self.sender.send(q, out, None)
            elif address.fallback is not None and address.fallback.direct() and (q.link is None or not q.link.stored):
                self.redirect(q, address.fallback)
            else:
                self.release(q)

    def redirect(self, q: Queued, fallback: Address) -> None:
        """Move a waiting delivery to a fallback destination."""
        self.counters.redirected += 1
        q.address = fallback
        q.annotations = redirected(q.annotations, fallback.key, self.router_id)
        self.wait(fallback, q)
        self.drain(fallback)

    # ---- going back
    def release(self, q: Queued) -> None:
        """Give a delivery back that waited in vain: released, or dropped where it is settled."""
        lk: RouterLink | None = q.link
        if q.settled:
            self.counters.dropped_presettled += 1
            self.sender.end_sample(q, DROPPED)
            if lk is not None:
                lk.dropped_presettled += 1
                if q.complete:
                    lk.give_back()
        elif q.delivery is not None:
            self.settlement.settle_incoming(q.delivery, RELEASED)
            if lk is not None and lk.kind != ENDPOINT and q.complete:
                lk.give_back()
        if lk is not None and not q.complete:
            lk.queued = None
            lk.discard = True
        self.sender.all_started(q)

    def release_all(self, address: Address) -> None:
        """No consumer is left: give back what waits for one."""
        pending = address.pending
        address.pending = None
        for q in pending or ():
            self.release(q)

    def refuse_all(self, address: Address, state: bytes) -> None:
        """No consumer will come: what waits for one gets this outcome."""
        q: Queued
        for e in address.pending or ():
            q = e
            if q.delivery is not None:
                self.settlement.settle_incoming(q.delivery, state)
        self.release_all(address)

    def release_from(self, lk: RouterLink) -> None:
        """Give back what came on a link and waits for a consumer, unless it is settled."""
        address = lk.address
        waiting = address.pending if address is not None else None
        if address is None or waiting is None:
            return
        back = [q for q in waiting if q.link is lk and q.delivery is not None]
        if back:
            address.pending = deque([q for q in waiting if q.link is not lk or q.delivery is None]) or None
        for q in back:
            self.release(q)

    def withdraw(self, q: Queued) -> None:
        """The sender of an incomplete delivery is gone, or has aborted it: it waits no longer."""
        self.sender.end_sample(q, LOST)
        address: Address = q.address
        if address.pending is not None and q in address.pending:
            address.pending.remove(q)
            if not address.pending:
                address.pending = None
