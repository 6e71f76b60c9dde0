"""Link routes that a connected container creates for itself: entities of type router.connection.linkRoute."""

from __future__ import annotations

from waymesh_router.core.containers.registry import ROUTE_CONTAINER
from waymesh_router.management.adapters import Attributes, ConfiguredEntities, EntityAdapter
from waymesh_router.management.errors import bad_request, conflict, forbidden
from waymesh_router.management.view import CoreView
from waymesh_schema.entities import entity_type

_SAME = ("pattern", "direction", "connectionId")


def connection_link_routes(core: CoreView) -> EntityAdapter:
    """Their adapter. They lead to the connection that asked for them, and end with it."""

    def create(attributes: Attributes) -> None:
        conn = core.connections.get(int(attributes["connectionId"] or 0))
        if conn is None or conn.role != ROUTE_CONTAINER:
            raise forbidden("only a container creates link routes, over its own connection of role route-container")
        if conn.access is not None and not conn.access.may_create_link_routes():
            raise forbidden("policy does not allow this client to create link routes")
        if any(all(one[name] == attributes[name] for name in _SAME) for one in adapter.entities.values()):
            raise conflict(f"the connection has a link route {attributes['direction']} {attributes['pattern']} already")
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
