"""Names of routed links on their way to the container.

A container sees all clients of a router as one peer, so link names contain the client's container-id to distinguish the
clients. The names are stable, so that a client finds its durable subscriptions again.
See docs/decisions/0011.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_router.core.links.mesh_links import to_router

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.model import RouterConnection

GLOBAL = "global"
"""Capability of a source: the subscription does not belong to a client."""
SHARED = "shared"
"""Capability of a source: several links share a subscription. Containers use its name up to the first bar."""


def upstream_name(conn: RouterConnection, upstream: RouterConnection, attach: Attach, router_id: str) -> str:
    """The name on connection `upstream` of a link that `conn` attached. Spec: 2.6.1.

    The first router adds the client's container-id and its tenant. The last router adds its own id if other routers
    share its container-id. All other routers keep the name unless another link uses it.
    """
    name = attach.name
    if not to_router(conn):
        name = client_name(name, "" if conn.remote is None else conn.remote.container_id, attach)
        if conn.tenant:
            name = f"{conn.tenant}/{name}"
    if not to_router(upstream) and upstream.settings.container_id != router_id:
        name = router_name(name, router_id, attach)
    is_sender = not attach.role
    holder = upstream.names.get((name, is_sender))
    if holder is None:
        return name
    shared = _is(attach, SHARED)
    if _lasting(attach) and not shared:
        holder.detach_with(None, False)  # the client reconnected before its old connection timed out
        if (name, is_sender) not in upstream.names:
            return name
    head = f"{name}|#" if shared and "|" not in name else f"{name}#"
    number = 2
    while (f"{head}{number}", is_sender) in upstream.names:
        number += 1
    return f"{head}{number}"


def client_name(name: str, container: str, attach: Attach) -> str:
    """The link name with the client's container-id added, unless the subscription is global."""
    if _is(attach, GLOBAL):
        return name
    return f"{container.replace('|', '_')}.{name}"


def router_name(name: str, router_id: str, attach: Attach) -> str:
    """The link name with the last router's id added, for a container to which several routers have one container-id.

    Names of durable subscriptions stay unchanged: they are the same through any of these routers.
    """
    if _is(attach, GLOBAL):
        head, _, rest = name.partition("|")
        return f"{head}|{router_id}|{rest}"
    if _lasting(attach):
        return name
    return f"{name}@{router_id}" if "|" in name or not _is(attach, SHARED) else f"{name}|{router_id}"


def _is(attach: Attach, capability: str) -> bool:
    """Whether a receiver's subscription has a capability. A lookup of a subscription has no source. Spec: 2.6.3."""
    named = attach.desired_capabilities if attach.source is None else attach.source.capabilities
    return attach.role and capability in (str(c) for c in named or ())


def _lasting(attach: Attach) -> bool:
    """Whether the container keeps the subscription while the receiver is away. Spec: 3.5.3."""
    source = attach.source
    return attach.role and (source is None or bool(source.durable) or source.expiry_policy == "never")
