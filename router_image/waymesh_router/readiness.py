"""When a router is ready for clients: it is configured and knows the mesh."""

from __future__ import annotations

from waymesh_router.routing.engine import RoutingEngine

PATIENCE_S = 20.0
"""A router whose neighbours are all away serves its clients after this time: waiting longer would help nobody."""


class Readiness:
    """Ready once, ready for good: a mesh in trouble later is no reason to take clients away from their router."""

    def __init__(self, now: float) -> None:
        self._started_at = now
        self._reached = False

    def missing(self, routing: RoutingEngine | None, has_connectors: bool, now: float) -> str:
        """What is still awaited, "" for nothing. `has_connectors`: there are connectors to other routers."""
        if not self._reached:
            reason = ""
            if routing is not None and has_connectors:
                reason = _unconverged(routing)
            if reason and now - self._started_at < PATIENCE_S:
                return reason
            self._reached = True
        return ""


def _unconverged(routing: RoutingEngine) -> str:
    if not routing.local.link_state:
        return "no neighbour is connected yet"
    return "" if routing.complete() else "the tables of other routers are still on their way"
