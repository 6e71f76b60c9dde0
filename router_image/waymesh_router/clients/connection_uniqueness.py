"""Enforces unique container-ids for clients that request it, as JMS clients with a client-id do.

A broker cannot enforce this, because it sees all clients behind a router as one. So a router that offers the capability
to clients (`routeAddress`, `openCapabilities`) enforces it among its own clients. Source: the AMQP extension "Enforcing
Connection Uniqueness".
"""

from __future__ import annotations

from waymesh_amqp.errors import INVALID_FIELD, RESOURCE_LOCKED
from waymesh_amqp.performatives import ErrorInfo, Open
from waymesh_amqp.types import Symbol
from waymesh_router.core.model import RouterConnection

CAPABILITY = "sole-connection-for-container"
POLICY = "sole-connection-enforcement-policy"
CLOSE_EXISTING = 1
FAILED = Symbol("amqp:connection-establishment-failed")
"""Property of the router's open, if a close that refuses the connection follows at once."""

_TAKEN = {Symbol("invalid-field"): Symbol("container-id")}
_REPLACED = {Symbol("sole-connection-enforcement"): True}


class UniqueConnections:
    """Connections of clients that request uniqueness, by tenant and container-id."""

    def __init__(self) -> None:
        self._by_container: dict[tuple[str, str], RouterConnection] = {}

    def opened(self, conn: RouterConnection) -> None:
        """Handle a client's open before it is answered: if it requests uniqueness, close it or the older connection."""
        remote = conn.remote
        if remote is None or CAPABILITY not in conn.settings.offered_capabilities or not _asked(remote):
            return
        before = self._by_container.get((conn.tenant, remote.container_id))
        if before is not None and not before.over:
            if _policy(remote) != CLOSE_EXISTING:
                conn.settings.properties[FAILED] = True
                conn.close_with(ErrorInfo(INVALID_FIELD, "the container already has a connection", _TAKEN))
                return
            before.close_with(ErrorInfo(RESOURCE_LOCKED, "the container has a newer connection", _REPLACED))
        self._by_container[conn.tenant, remote.container_id] = conn

    def connection_closed(self, conn: RouterConnection) -> None:
        """The transport has ended: its container-id becomes available."""
        container = (conn.tenant, "" if conn.remote is None else conn.remote.container_id)
        if self._by_container.get(container) is conn:
            del self._by_container[container]


def _asked(remote: Open) -> bool:
    return any(str(capability) == CAPABILITY for capability in remote.desired_capabilities or ())


def _policy(remote: Open) -> object:
    return remote.properties.get(POLICY) if isinstance(remote.properties, dict) else None
