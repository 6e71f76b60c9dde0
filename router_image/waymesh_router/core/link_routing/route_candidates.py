"""Candidates for the next hop of an attach, and the state of a link toward the container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waymesh_router.core.link_routing.ways import HERE

if TYPE_CHECKING:
    from waymesh_amqp.session import Session
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import RouterConnection, RouterLink


@dataclass(frozen=True, slots=True)
class ClientLink:
    """Whose terminus a link uses, if the container may keep it.

    `owner`: the user, with characters that have a meaning in names escaped; at an edge router, `<user of the edge
    router>/<user>`; "" for an anonymous one. `name`: of the link, with the client's container-id, but without what
    later routers add.
    """

    owner: str
    name: str


@dataclass(slots=True)
class UpstreamLink:
    """State of the link that leads toward the container."""

    entity: LinkRoute | None  # None if the next hop is a router
    key: str | None  # address of the link route in the mesh; None if another link determined the route
    dynamic: bool  # requests a dynamic node
    made: str = ""  # address of the dynamic node
    taken: dict[Any, Any] | None = None  # filters of the source that this router applies itself
    owner: str | None = None  # of its terminus, see ClientLink; None: the terminus ends with it, or it is unknown
    origin: Session | None = None  # of the link that it continues
    router: str = HERE  # which it leads to, see Ways


@dataclass(slots=True)
class RouteCandidate:
    """A possible next hop of an attach."""

    conn: RouterConnection
    entity: LinkRoute | None
    key: str | None = None
    router: str = HERE  # which it leads to, see Ways


def link_route_of(link: RouterLink) -> str | None:
    """Key of the link route of a routed link."""
    for one in (link, link.partner):
        if one is not None and one.route is not None:
            key: str | None = one.route.key
            return key
    return None
