"""Names of routed links on their way to the container.

A container sees all clients of a router as one peer, so link names contain the client's container-id to distinguish the
clients. The names are stable, so that a client finds its durable subscriptions again. With `durableNames: user`, those
of a link whose terminus outlives it begin with the client's user: a container-id is the client's own choice.
See docs/decisions/0011 and 0055.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import NOT_ALLOWED
from waymesh_amqp.sasl import ANONYMOUS_USER
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.link_routing.rewriting import announced_client
from waymesh_router.core.link_routing.route_candidates import ClientLink
from waymesh_router.core.links.mesh_links import to_router

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.model import RouterConnection, RouterLink

GLOBAL = "global"
"""Capability of a source: the subscription does not belong to a client."""
SHARED = "shared"
"""Capability of a source: several links share a subscription. Containers use its name up to the first bar."""
BY_USER = "user"
"""Value of `durableNames`: the names of durable links contain the client's user."""
UNKNOWN_USER = "durableNames is user, but the router that the client is connected to does not say who the user is"
_RESERVED = {ord(character): f"%{ord(character):02X}" for character in "%:/|"}


def upstream_name(
    conn: RouterConnection, upstream: RouterConnection, attach: Attach, router_id: str, client: ClientLink | None
) -> str:
    """The name on connection `upstream` of a link that `conn` attached. Spec: 2.6.1. Raises Refusal.

    The first router adds the client's container-id and its tenant. The last router adds the user, if it is to, and its
    own id if other routers share its container-id. All other routers keep the name unless another link uses it.
    `client`: see `client_link`.
    """
    name = _named_by_client(conn, attach) if client is None else client.name
    if not to_router(upstream):
        if upstream.durable_names == BY_USER:
            name = user_name(name, attach, client)
        if upstream.settings.container_id != router_id:
            name = router_name(name, router_id, attach)
    is_sender = not attach.role
    holder: RouterLink | None = upstream.names.get((name, is_sender))  # type: ignore[assignment]
    if holder is None:
        return name
    shared = _is(attach, SHARED)
    if _lasting(attach) and not shared and not (upstream.is_router() and _of_another_user(holder, client)):
        holder.detach_with(None, False)  # the client reconnected before its old connection timed out
        if (name, is_sender) not in upstream.names:
            return name
    head = f"{name}|#" if shared and "|" not in name else f"{name}#"
    number = 2
    while (f"{head}{number}", is_sender) in upstream.names:
        number += 1
    return f"{head}{number}"


def client_link(conn: RouterConnection, attach: Attach) -> ClientLink | None:
    """Whose terminus a link uses that `conn` attached, if the terminus can outlive it and belongs to one user.

    None for other links, and if the router before does not say who the user is.
    """
    if not _of_one_user(attach):
        return None
    if to_router(conn):
        return announced_client(attach)
    owner = _user_of(conn)
    if conn.edge_router is not None:  # its word counts only among its own clients
        announced = announced_client(attach)
        if announced is None:
            return None
        owner = f"{owner}/{announced.owner}" if owner or announced.owner else ""
    return ClientLink(owner, _named_by_client(conn, attach))


def user_name(name: str, attach: Attach, client: ClientLink | None) -> str:
    """The link name with the user added, which a colon ends: no other user can have it. Raises Refusal.

    A name without a user, such as that of a shared subscription, has no colon, or begins with one.
    """
    if client is None and _of_one_user(attach):
        raise Refusal(NOT_ALLOWED, UNKNOWN_USER)
    if client is not None and client.owner:
        return f"{client.owner}:{name}"
    return f":{name}" if ":" in name else name


def _user_of(conn: RouterConnection) -> str:
    """The authenticated user of a client, without the characters that have a meaning in names; "" for none."""
    return "" if conn.user in (None, ANONYMOUS_USER) else str(conn.user).translate(_RESERVED)


def _of_another_user(holder: RouterLink, client: ClientLink | None) -> bool:
    """Whether a link toward a container is known to belong to another user than this client."""
    route = None if client is None else holder.route
    return client is not None and route is not None and route.owner not in (None, client.owner)


def _named_by_client(conn: RouterConnection, attach: Attach) -> str:
    """The name of the link that `conn` attached, distinguished from those of other clients and tenants."""
    if to_router(conn):
        return attach.name
    name = client_name(attach.name, "" if conn.remote is None else conn.remote.container_id, attach)
    return f"{conn.tenant}/{name}" if conn.tenant else name


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


def _of_one_user(attach: Attach) -> bool:
    """Whether the container may keep the terminus of the link, for one user only."""
    if _is(attach, GLOBAL) or _is(attach, SHARED):
        return False
    terminus = attach.remote_terminus
    if terminus is None:
        return attach.role  # the lookup of a subscription
    if terminus.kind not in ("source", "target"):
        return False
    return bool(terminus.durable or terminus.timeout) or str(terminus.expiry_policy) == "never"
