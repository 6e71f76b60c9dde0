"""Deliveries for other routers of which only a part has arrived, before they wait at their address.

Most messages of a few frames are complete at once, and go on the links for all senders. What arrives slowly, or is
long, goes on a link of its own: see streams.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.annotations import Annotations
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.model import Address, Queued, RouterLink
from waymesh_router.core.portions import Rounds

if TYPE_CHECKING:
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.portions import Portions


class Gathering:
    """Keeps the first parts of deliveries until they are complete or longer than `LONG_BYTES`, or for a tick."""

    def __init__(self, pending: PendingDeliveries, portions: Portions) -> None:
        self.pending = pending
        self.deliveries: dict[Queued, None] = {}
        self.slow = Rounds(portions, "deliveries that arrive slowly", self.deliveries, self.end_slow)

    def begin(self, lk: RouterLink, address: Address, annotations: Annotations, transfer: IncomingTransfer) -> None:
        """Keep the scanned first frame of an incomplete delivery."""
        q: Queued | None = self.pending.sender.new_single(lk, address, annotations, transfer)
        if q is None:
            return
        q.gathers = True
        self.deliveries[q] = None
        self.pending.sender.budget.take(q, q.size)

    def leave(self, q: Queued) -> None:
        """A delivery is dropped, or will be sent on."""
        q.gathers = False
        del self.deliveries[q]

    def end(self, q: Queued) -> None:
        """Enough of a delivery has arrived: send it on."""
        self.leave(q)
        self.pending.wait_again(q)

    def tick(self) -> None:
        """Send on all that arrives slowly. Must be called several times a second."""
        self.slow.begin()

    def end_slow(self, q: Queued) -> cython.long:
        """Send on what arrives slowly. Returns the cost, see core/portions.py."""
        if not q.gathers:
            return 1
        self.end(q)
        return 20
