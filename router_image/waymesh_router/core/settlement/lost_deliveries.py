"""Deliveries of links that have ended in sessions with thousands of them: they end in portions.

Until its portion comes, such a delivery stays in its session, and ends as always if its other side settles it. So each
portion looks at what is still there. A walk over a session serves all of its links that have ended. Decision 0057.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from waymesh_router.core.portions import COPIED

if TYPE_CHECKING:
    from waymesh_amqp.delivery import DeliveryRing
    from waymesh_router.core.model import RouterLink
    from waymesh_router.core.portions import Portions

A_STEP = 64
"""Number of deliveries that a step looks at."""
STEP_COST = 10


class LostDeliveries:
    """What is left of sessions with links that have ended, and of the copies that waited for one."""

    def __init__(
        self,
        portions: Portions,
        end_some: Callable[[list[Any], int, bool], None],
        drop_some: Callable[[RouterLink, int], bool],
    ) -> None:
        """`end_some` removes up to a number of deliveries from the end of a list, outgoing or incoming ones, and ends
        those whose link has ended. `drop_some` drops waiting copies; it returns whether some are left."""
        self._portions = portions
        self._end_some = end_some
        self._drop_some = drop_some
        self._rings: dict[DeliveryRing, list[Any]] = {}  # the deliveries to look at, the next one last
        self._again: set[DeliveryRing] = set()  # links have ended since
        self._copies: dict[RouterLink, None] = {}

    def __str__(self) -> str:
        return "deliveries of links that have ended"

    def begin(self, ring: DeliveryRing) -> None:
        """A link of a session has ended: end its first deliveries now."""
        self._again.add(ring)
        self._rings.setdefault(ring, [])
        self._portions.begin(self)

    def begin_copies(self, link: RouterLink) -> None:
        """A link has ended for which copies wait: drop the first ones now."""
        self._copies[link] = None
        self._portions.begin(self)

    def step(self) -> int:
        """End some deliveries, see core/portions.py."""
        if self._rings:
            return self._step(next(iter(self._rings)))
        if not self._copies:
            return 0
        link = next(iter(self._copies))
        if not self._drop_some(link, A_STEP):
            del self._copies[link]
        return STEP_COST

    def _step(self, ring: DeliveryRing) -> int:
        left = self._rings[ring]
        if left:
            self._end_some(left, A_STEP, ring.outgoing)
        elif ring in self._again:
            self._again.discard(ring)
            left = self._rings[ring] = ring.live()
            left.reverse()
            return 1 + len(left) // COPIED
        else:
            del self._rings[ring]
        return STEP_COST
