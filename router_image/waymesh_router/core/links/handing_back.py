"""A link retires: what arrived on it and waits for a consumer goes back to its sender, in portions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waymesh_router.core.model import Branch
from waymesh_router.core.portions import RoundsOfEach
from waymesh_router.core.settlement.outcomes import RELEASED

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.multicast import Multicast
    from waymesh_router.core.forwarding.pending import PendingDeliveries
    from waymesh_router.core.model import Queued, RouterLink
    from waymesh_router.core.portions import Portions

A_STEP = 64
"""Number of waiting deliveries that a step looks at."""
STEP_COST = 20


class HandingBack:
    """Releases the unsettled deliveries of retiring links that wait at their address, or, as part of a message group,
    for one of its consumers.

    The newest ones go first: a consumer that issues credit meanwhile gets the oldest ones, in order.
    """

    def __init__(self, portions: Portions, pending: PendingDeliveries, copies: Multicast) -> None:
        self._pending = pending
        self._copies = copies
        self._rounds = RoundsOfEach(portions, "deliveries of links that retire", places, self._release_some)

    def begin(self, lk: RouterLink) -> None:
        """Release what waits, the first ones now. Those that arrive later stay: call it again."""
        if lk.address is not None:
            self._pending.streams.lost_links.tell(lk.address)
        self._rounds.begin(lk)

    def _release_some(self, lk: RouterLink, left: list[Any]) -> int:
        """A step; returns its cost."""
        if lk.over or not lk.retiring:  # what waits goes on without its sender, or the link is used again
            left.clear()
            return 1
        count = A_STEP
        while count > 0 and left:
            some = left[-1].some(count)
            if not some:
                left.pop()
            count -= len(some) or 1
            for e in some:
                if isinstance(e, Branch):
                    self._release_copy(e, lk)
                elif e is not None and _is_of(e, lk) and self._pending.take_out(e.address, e):
                    self._pending.give_back(e, RELEASED)
        return STEP_COST

    def _release_copy(self, branch: Branch, lk: RouterLink) -> None:
        """Release a delivery that waits for one consumer alone."""
        q: Queued = branch.queued
        if q.alone and q.unstarted and q.branches == [branch] and _is_of(q, lk):
            self._copies.drop_branch(branch.out, branch, RELEASED)
            self._copies.abort_branch(branch.out)


class QueueWalk:
    """A walk over what waits for a consumer, the newest first; like `PendingWalk`."""

    def __init__(self, out: RouterLink) -> None:
        self._out = out
        self._left = out.undelivered()  # places that it has not reached

    def some(self, count: int) -> list[Any]:
        """The next ones, in order of arrival; [] at the end. Places only move to the front."""
        queue = self._out.queue or ()
        end = min(self._left, len(queue))
        self._left = max(end - count, 0)
        return [queue[place] for place in range(self._left, end)]


def _is_of(q: Queued, lk: RouterLink) -> bool:
    """Whether the sender of a link still waits for the outcome of a delivery."""
    return q.delivery is not None and q.delivery.link is lk


def places(lk: RouterLink) -> list[Any]:
    """Where deliveries of a link may wait: walks over those at its address, and over those for each consumer of its
    message groups."""
    address = lk.address
    if address is None:
        return []
    found: list[Any] = address.pending.walks() if address.pending is not None else []
    if address.groups is not None:
        found += [QueueWalk(out) for out in (*address.groups.lost, *address.groups.held)]
    return found
