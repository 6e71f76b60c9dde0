"""The address spaces of clients at listeners with `multiTenant`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.performatives import ErrorInfo
from waymesh_router.clients.connection_uniqueness import FAILED
from waymesh_router.events.event import ModuleLog, about, short
from waymesh_schema.events import LogEvent
from waymesh_schema.tenant_names import unfit

if TYPE_CHECKING:
    from waymesh_router.core.links.refusals import Refusals
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.policy.enforcement import Enforcement


class TenantSpaces:
    """Assigns clients the address space of their vhost."""

    def __init__(
        self, enforcement: Enforcement, refusals: Refusals, listeners: Mapping[str, Mapping[str, Any]], log: ModuleLog
    ) -> None:
        """`listeners`: attributes by name."""
        self._enforcement = enforcement
        self._refusals = refusals
        self._listeners = listeners
        self._log = log

    def enter(self, conn: RouterConnection) -> None:
        """Assign a client its space at its open; close its connection if its vhost cannot have one."""
        name = conn.policy_vhost or (conn.remote.hostname if conn.remote is not None else "") or ""
        reason = unfit(name)
        if reason is None:
            conn.tenant = self._space_of(conn, name)
            return
        text = f"[C{conn.id}] DENY connection: host={conn.peer.address} vhost={short(name)!r}: {reason}"
        self._log("info", text, about(LogEvent.POLICY_DENIED, conn, kind="connection", reason=reason))
        self._refusals.report("connection", conn.peer.host, NOT_ALLOWED, reason, conn)
        conn.settings.properties[FAILED] = True
        conn.close_with(ErrorInfo(NOT_ALLOWED, f"no address space: {reason}"))

    def _space_of(self, conn: RouterConnection, name: str) -> str:
        """The address space of a vhost name: a vhost has one, which its aliases share. Names that only a pattern or the
        defaultVhost covers have one each, as they may be those of different tenants."""
        policy = self._enforcement.policy
        vhost = policy.vhosts.get(name) if policy.enabled else None
        if vhost is None or unfit(vhost.hostname) or self._listeners.get(conn.origin, {}).get("aliasSpaces"):
            return name
        return vhost.hostname
