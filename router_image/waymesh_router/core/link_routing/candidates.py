"""Ways of link routes: where an attach may go next, and what is known of a link that was passed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waymesh_router.core.link_routing.routes import LinkRoute
    from waymesh_router.core.model import RouterConnection, RouterLink


@dataclass(slots=True)
class UpstreamLink:
    """Of the link that leads on to the container: the entity where that is the next hop. `dynamic`: it asks for a node
    to be made; `made`: the address of that. `taken`: filters of the source that the router itself sees to. `key`: the
    address of the link route in the mesh, None for what goes the way of another link."""

    entity: LinkRoute | None
    key: str | None
    dynamic: bool
    made: str = ""
    taken: dict[Any, Any] | None = None


@dataclass(slots=True)
class RouteCandidate:
    """Where an attach may go next."""

    conn: RouterConnection
    entity: LinkRoute | None
    key: str | None = None


def link_route_of(link: RouterLink) -> str | None:
    """Key of the link route by which a routed link goes."""
    for one in (link, link.partner):
        if one is not None and one.route is not None:
            key: str | None = one.route.key
            return key
    return None
