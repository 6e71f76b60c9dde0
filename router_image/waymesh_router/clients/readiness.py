"""Readiness for clients: the router is configured, connected to other routers, and knows the complete mesh."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from waymesh_router.core.model import RouterConnection
from waymesh_router.routing.engine import RoutingEngine

NO_NEIGHBOUR_S = 20.0
"""A router without any neighbour becomes ready after this time: waiting longer has no benefit."""
MISSING_NEIGHBOUR_S = 5.0
"""A router with a neighbour and complete routes waits at most this long for missing neighbours."""


class Readiness:
    """Once ready, the router stays ready: problems in the mesh must not separate clients from their router."""

    def __init__(self, now: float) -> None:
        self._started_at = now
        self._reached = False

    def missing(
        self,
        routing: RoutingEngine | None,
        connectors: Collection[str],
        connections: Iterable[RouterConnection],
        now: float,
    ) -> str:
        """The reason why the router is not ready, "" if it is. `connectors`: names of those to other routers."""
        if not self._reached:
            if routing is not None and connectors:
                waited = now - self._started_at
                reason = _unconverged(routing)
                if reason and waited < NO_NEIGHBOUR_S:
                    return reason
                away = set(connectors).difference(_connected(connections, routing.local.link_state))
                if away and waited < MISSING_NEIGHBOUR_S:
                    return f"not connected yet: {', '.join(sorted(away))}"
            self._reached = True
        return ""


def _connected(connections: Iterable[RouterConnection], neighbours: Container[str]) -> set[str]:
    """The connectors that lead to neighbours. If several lead to one neighbour, only one has a `node`; the others are
    recognized by its container-id."""
    return {
        conn.origin
        for conn in connections
        if conn.settings.client
        and (conn.node is not None or (conn.remote is not None and conn.remote.container_id in neighbours))
    }


def _unconverged(routing: RoutingEngine) -> str:
    if not routing.local.link_state:
        return "no neighbour is connected yet"
    return "" if routing.complete() else "tables of other routers are missing"
