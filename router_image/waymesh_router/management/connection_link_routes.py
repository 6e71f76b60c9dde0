"""Link routes that a connected container creates for itself: entities of type router.connection.linkRoute."""

from __future__ import annotations

from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.management.adapters import Attributes, ConfiguredEntities, EntityAdapter
from waymesh_router.management.errors import bad_request, conflict, forbidden
from waymesh_router.management.view import CoreView
from waymesh_schema.address_match import matches_all
from waymesh_schema.entities import entity_type

MAX_PER_CONNECTION = 256
"""Maximum number of link routes of one connection: all routers of the mesh store each of them."""
CREATE_LINK_ROUTES = "link route: allowDynamicLinkRoutes is no, or linkRoutePattern does not have it"
NEEDS_RIGHT = "it needs linkRoutePattern of a user group"
_SAME = ("pattern", "direction")


def connection_link_routes(core: CoreView) -> EntityAdapter:
    """The adapter. A link route leads to the connection that created it, and is deleted with that connection."""

    def create(attributes: Attributes) -> None:
        conn = core.connections.get(int(attributes["connectionId"] or 0))
        if conn is None or (conn.role != ROUTE_CONTAINER and conn.edge_router is None):
            raise forbidden("only containers and edge routers create link routes, over their own connections")
        access = conn.access
        pattern = str(attributes["pattern"])
        if access is not None and not (
            access.may_create_link_route(pattern) or access.only_would_deny(CREATE_LINK_ROUTES)
        ):
            raise forbidden("policy does not allow this client to create the link route")
        if matches_all(pattern) and not (access is not None and access.may_route_all()):
            raise forbidden(f"the link route {pattern} would take all links, also dynamic sources: {NEEDS_RIGHT}")
        own = [one for one in adapter.entities.values() if one["connectionId"] == attributes["connectionId"]]
        if any(all(one[name] == attributes[name] for name in _SAME) for one in own):
            raise conflict(f"the connection has a link route {attributes['direction']} {attributes['pattern']} already")
        if len(own) >= MAX_PER_CONNECTION:
            raise forbidden(f"the connection has {MAX_PER_CONNECTION} link routes, which is the limit")
        attributes["containerId"] = None if conn.remote is None else str(conn.remote.container_id)
        try:
            core.linkroutes.add(attributes, conn)
        except ValueError as error:
            raise bad_request(str(error)) from error

    adapter = ConfiguredEntities(
        entity_type("router.connection.linkRoute"),
        on_create=create,
        on_delete=lambda attributes: core.linkroutes.remove(attributes["identity"]),
    )
    core.linkroutes.ended = adapter.delete
    return adapter
