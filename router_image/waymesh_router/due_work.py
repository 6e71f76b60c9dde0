"""Whether a router has anything to do in a turn of the event loop, besides serving connections: mostly not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.forwarding.spread import Spread
    from waymesh_router.management.service import ManagementService
    from waymesh_router.mesh import Mesh


class DueWork:
    """Does the router's own work when it is due. In each other turn, it compares the time with the next deadline, looks
    whether events have left work to do, and sends on a portion of what waits, without the other work."""

    def __init__(
        self, core: Core, mesh: Mesh | None, management: ManagementService, work: Callable[[float], float]
    ) -> None:
        """`work(now)` does it all; returns when it must be called again at the latest."""
        self._core = core
        self._context = core.context
        self._spread: Spread = core.spread
        self._mesh = mesh
        self._queries = management.long_queries
        self._walks = core.context.portions.walks
        self._groups = core.demand.groups.unseen
        self._paced = core.pacing.changed
        self._grown = core.pacing.grown
        self._work = work
        self._due = -math.inf
        self._following = -math.inf

    def run(self, now: cython.double) -> cython.double:
        """Called in each turn; returns when it must be called again at the latest."""
        core: Core = self._core
        self._context.now = now
        if now < self._due and not self._waits():
            # Where deliveries wait, some are sent in most turns, and mostly nothing else is left.
            return now if core.expiry.busy and core.credit.end_expired() else self._following
        self._due = -math.inf  # if it raises an error
        following: cython.double = self._work(now)
        self._following = following
        if core.connections:  # else nothing is regular, and a first connection must not wait for a distant deadline
            self._due = following
            if self._mesh is not None and self._mesh.listen_at < following:
                self._due = self._mesh.listen_at
        return following

    def _waits(self) -> cython.bint:
        """Whether an event has left work that does not wait for the deadline."""
        core: Core = self._core
        spread: Spread = self._spread
        if self._walks or self._queries or core.ending or spread.freed or spread.began:
            return True
        if self._paced or self._grown or self._groups or core.budget.excess:
            return True
        return self._mesh is not None and self._mesh.deadline < self._due
