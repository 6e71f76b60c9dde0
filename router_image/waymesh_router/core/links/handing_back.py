"""A link retires: what arrived on it and waits for a consumer goes back to its sender, in portions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waymesh_router.core.forwarding.pending_queue import PendingWalk
from waymesh_router.core.portions import RoundsOfEach
from waymesh_router.core.settlement.outcomes import RELEASED

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.multicast import Multicast
    from waymesh_router.core.forwarding.pending import PendingDeliveries
    from waymesh_router.core.model import Branch, Queued, RouterLink
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
        self._rounds = RoundsOfEach(portions, "deliveries of links that retire", _places, self._release_some)

    def begin(self, lk: RouterLink) -> None:
        """Release what waits, the first ones now. Those that arrive later stay: call it again."""
        self._rounds.begin(lk)

    def _release_some(self, lk: RouterLink, left: list[Any]) -> int:
        """A step; returns its cost."""
        if lk.over or not lk.retiring:  # what waits goes on without its sender, or the link is used again
            left.clear()
            return 1
        count = A_STEP
        while count > 0 and left:
            if isinstance(left[-1], PendingWalk):
                some = left[-1].some(count)
                count -= len(some)
                for q in some:
                    if q is not None and _is_of(q, lk) and self._pending.take_out(q.address, q):
                        self._pending.give_back(q, RELEASED)
                if some:
                    continue
            else:
                self._release_copy(left[-1], lk)
            left.pop()
            count -= 1
        return STEP_COST

    def _release_copy(self, branch: Branch, lk: RouterLink) -> None:
        """Release a delivery that waits for one consumer alone."""
        q: Queued = branch.queued
        if q.alone and q.unstarted and q.branches == [branch] and _is_of(q, lk):
            self._copies.drop_branch(branch.out, branch, RELEASED)
            self._copies.abort_branch(branch.out)


def _is_of(q: Queued, lk: RouterLink) -> bool:
    """Whether the sender of a link still waits for the outcome of a delivery."""
    return q.delivery is not None and q.delivery.link is lk


def _places(lk: RouterLink) -> list[Any]:
    """Where deliveries of a link may wait: walks over those at its address, and all that wait for consumers of its
    message groups."""
    address = lk.address
    if address is None:
        return []
    found: list[Any] = address.pending.walks() if address.pending is not None else []
    for out in (*address.groups.lost, *address.groups.held) if address.groups is not None else ():
        found += reversed(out.queue or ())
    return found
