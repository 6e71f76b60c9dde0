"""The user groups of edge routers: which one applies, and which links need none.

See docs/decisions/0052.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS
from waymesh_amqp.performatives import ErrorInfo
from waymesh_router.clients.connection_uniqueness import FAILED
from waymesh_router.core.addresses.keys import MANAGEMENT
from waymesh_router.core.edge.edges import SERVICES
from waymesh_router.core.edge.messages import DOWNLINK_CAPABILITY
from waymesh_router.core.link_routing.rewriting import DYNAMIC_ADDRESS
from waymesh_router.events.event import ModuleLog, about, short
from waymesh_router.policy.decide import group_of, vhost_of
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.links.refusals import Refusals
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.policy.enforcement import Enforcement

NO_GROUP = "the edge router is in no user group of the policy"
MAX_WARNED = 1000
"""Maximum number of users that are warned of, by listener."""


class EdgeGroups:
    """Decides which edge routers are in a user group of the policy."""

    def __init__(
        self,
        enforcement: Enforcement,
        refusals: Refusals,
        listeners: Mapping[str, Mapping[str, Any]],
        log: ModuleLog,
    ) -> None:
        """`listeners`: attributes by name."""
        self._enforcement = enforcement
        self._refusals = refusals
        self._listeners = listeners
        self._log = log
        self._warned: set[tuple[str, str]] = set()  # listener and user

    def vhost_name(self, conn: RouterConnection) -> str:
        """The vhost of an edge router: that of its listener, else the default. The host name in its open does not
        count: with another one, it could avoid its group."""
        return conn.policy_vhost or self._enforcement.policy.default_vhost

    def has_group(self, conn: RouterConnection, user: str, hostname: str) -> bool:
        """Whether a group applies to an edge router; if none does, the connection is closed at a strict listener.

        Otherwise, only a group that names the user applies: `$default` may be meant for clients.
        """
        strict = bool(self._listeners.get(conn.origin, {}).get("strictEdges"))
        policy = self._enforcement.policy
        vhost = vhost_of(policy, hostname) if policy.enabled and hostname else None
        if vhost is not None and (user in vhost.group_of or (strict and group_of(vhost, user) is not None)):
            return True
        who = f"edge router {short(conn.remote.container_id if conn.remote else '')}, user {short(user)}"
        if strict:
            event = about(LogEvent.POLICY_DENIED, conn, kind="connection", reason=NO_GROUP)
            self._log("info", f"[C{conn.id}] DENY connection: {who}: {NO_GROUP}", event)
            self._refusals.report("connection", conn.peer.host, UNAUTHORIZED_ACCESS, NO_GROUP, conn)
            conn.settings.properties[FAILED] = True
            conn.close_with(ErrorInfo(UNAUTHORIZED_ACCESS, NO_GROUP))
        elif (conn.origin, user) not in self._warned and len(self._warned) < MAX_WARNED:
            self._warned.add((conn.origin, user))
            text = f"{NO_GROUP}, and listener {conn.origin} has no strictEdges: it may use and route all addresses"
            self._log("warning", f"[C{conn.id}] {who}: {text}")
        return False


def of_edge_mode(attach: Attach) -> bool:
    """Whether every edge router needs the link, apart from those for messages without a link of their own.

    These are the links for its own messages, for services and for replies, and that to the management agent, which
    checks each request.
    """
    terminus = attach.remote_terminus
    if terminus is None or terminus.kind not in ("source", "target"):
        return False
    if attach.role and terminus.dynamic:
        return terminus.address is None and DYNAMIC_ADDRESS not in (terminus.dynamic_node_properties or {})
    if attach.role and DOWNLINK_CAPABILITY in map(str, terminus.capabilities or ()):
        return True
    return isinstance(terminus.address, str) and (
        terminus.address in SERVICES or (not attach.role and terminus.address == MANAGEMENT)
    )
