"""Link routes of a router: their entities, their announcement to the mesh, and the capabilities of their containers.

Routing chapter "Configuring Link Routing", Dispatch book "Link Routing", inter-router.md "Link routes across routers".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.core.addresses.keys import connection_route_key, link_route_key
from waymesh_router.core.addresses.patterns import split_words
from waymesh_router.core.containers.registry import Place, place_of, places_of
from waymesh_router.core.link_kinds import LINK_BALANCED
from waymesh_router.core.link_routing.offers import (
    ContainerCapabilities,
    capabilities_of,
    common_capabilities,
    read_offer,
)
from waymesh_router.core.portions import RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.model import RouterConnection

BOTH = ("in", "out")
ACTIVE, INACTIVE = "active", "inactive"
TELL_COST = 10
"""Of telling the mesh and telemetry about a link route, see `Portions`."""


class LinkRoute:
    """One linkRoute entity, or a link route that belongs to a connection; if so, `place` is this connection."""

    def __init__(self, attrs: Mapping[str, Any], place: Place | None = None) -> None:
        self.attrs = attrs
        directions = BOTH if attrs["direction"] == "both" else (attrs["direction"],)
        # addresses in the mesh, one for each direction
        if place is None:
            self.keys = [link_route_key(d, attrs.get("prefix"), attrs.get("pattern")) for d in directions]
        else:
            self.keys = [connection_route_key(d, str(attrs["pattern"])) for d in directions]
        self.place = place or place_of(attrs)
        self.links = 0  # number of attached links
        self.adds = str(attrs.get("addExternalPrefix") or "")
        self.removes = str(attrs.get("delExternalPrefix") or "")
        self.reported: str | None = None  # last state that was reported to telemetry


class LinkRoutes:
    """Link routes of this router, by identity of the entity. `AddressTable.link_routes` has those of all routers."""

    def __init__(self, context: CoreContext, addresses: AddressTable, containers: Containers) -> None:
        self._context = context
        self._addresses = addresses
        self._containers = containers
        self._entities: dict[str, LinkRoute] = {}
        self._own: dict[str, list[LinkRoute]] = {}
        self._by_place: dict[Place, dict[LinkRoute, None]] = {}
        self._telling = RoundsOfEach(context.portions, "link routes", self._routes_to, self._tell_next)
        self._advertised: set[str] = set()
        self.ended: Callable[[str], None] = self.remove
        """Called with the identity of a link route whose connection is closed; removes it."""

    def __len__(self) -> int:
        return len(self._entities)

    # ---- entities
    def add(self, attrs: Mapping[str, Any], conn: RouterConnection | None = None) -> None:
        """Create a link route, one that belongs to `conn` if given. Raises ValueError for a pattern without words."""
        if attrs.get("pattern") and not any(split_words(attrs["pattern"])):
            raise ValueError(f"link route pattern: {attrs['pattern']!r} has no words")
        place = None if conn is None else ("id", str(conn.id))
        entity = self._entities[attrs["identity"]] = LinkRoute(attrs, place)
        if entity.place is not None:
            self._by_place.setdefault(entity.place, {})[entity] = None
        self.activate(entity)
        self._report(entity)

    def remove(self, identity: str) -> None:
        """Delete a `linkRoute` entity; its links stay."""
        entity = self._entities.pop(identity)
        if entity.place is not None:
            del self._by_place[entity.place][entity]
            if not self._by_place[entity.place]:
                del self._by_place[entity.place]
        self.deactivate(entity)
        self._context.telemetry.linkroute(entity, entity.reported, None)

    def activate(self, entity: LinkRoute) -> None:
        """Start routing by the entity."""
        for key in entity.keys:
            self._own.setdefault(key, []).append(entity)
            self._addresses.kept.add(key)
            self._addresses.get(key)
            self._advertise(key)

    def deactivate(self, entity: LinkRoute) -> None:
        """Stop routing by the entity."""
        for key in entity.keys:
            self._own[key].remove(entity)
            if not self._own[key]:
                del self._own[key]
                self._addresses.kept.discard(key)
            self._advertise(key)
            self._addresses.drop_if_unused(self._addresses.get(key))

    def status(self, identity: str) -> tuple[bool, int]:
        """Whether the container of an entity is connected, and the number of links routed by the entity."""
        entity = self._entities.get(identity)
        return (False, 0) if entity is None else (self.state(entity) == ACTIVE, entity.links)

    def state(self, entity: LinkRoute) -> str:
        """active or inactive."""
        return ACTIVE if self._containers.at(entity.place) else INACTIVE

    def all(self) -> Iterable[LinkRoute]:
        """All link routes of this router."""
        return list(self._entities.values())

    def _report(self, entity: LinkRoute) -> None:
        """Report a changed state to telemetry."""
        before, entity.reported = entity.reported, self.state(entity)
        if entity.reported != before:
            self._context.telemetry.linkroute(entity, before, entity.reported)

    def advertised(self) -> Iterable[str]:
        """Keys of the link routes that were announced to the mesh."""
        return list(self._advertised)

    def _advertise(self, key: str) -> None:
        """Announce or withdraw the address, depending on whether this router has a connected container for it."""
        there = any(self._containers.at(entity.place) for entity in self._own.get(key, ()))
        if there:
            self._advertised.add(key)
            self.announce(key)
        elif key in self._advertised:
            self._advertised.discard(key)
            self._context.control_plane.local_removed(key)

    def announce(self, key: str) -> None:
        """Announce an address with the capabilities of its containers; does nothing if both are known already."""
        offer = self.offer(key)
        self._context.control_plane.offered(key, None if offer is None else offer.as_map())
        self._context.control_plane.local_added(key, LINK_BALANCED)

    def containers_changed(self, conn: RouterConnection) -> None:
        """A container connected or disconnected: tell of the link routes to it, in portions."""
        for place in places_of(conn):
            if place in self._by_place:
                self._telling.begin(place)

    def _routes_to(self, place: Place) -> Collection[LinkRoute]:
        return self._by_place.get(place, {})

    def _tell_next(self, place: Place, left: list[LinkRoute]) -> int:
        """Tell of one of the link routes to a place, as it is now, unless it was deleted meanwhile."""
        entity = left.pop()
        return self._tell(entity) if entity in self._routes_to(place) else 1

    def _tell(self, entity: LinkRoute) -> int:
        """Tell the mesh and telemetry whether a link route has a connected container; returns the cost."""
        for key in entity.keys:
            self._advertise(key)
        self._report(entity)
        return TELL_COST + sum(len(self._own[key]) for key in entity.keys)

    def container_closed(self, conn: RouterConnection) -> None:
        """A container disconnected: the link routes that belong to its connection end.

        They end at once, as the container may create them again with its next connection. They are few, see
        management/connection_link_routes.py.
        """
        for entity in list(self._routes_to(("id", str(conn.id)))):
            self._tell(entity)
            self.ended(entity.attrs["identity"])
        self.containers_changed(conn)

    def serving(self, key: str) -> Iterator[tuple[LinkRoute, RouterConnection]]:
        """The entities with this key, each with the connections to its container."""
        for entity in self._own.get(key, ()):
            for conn in self._containers.at(entity.place):
                yield entity, conn

    def lack_container(self, text: str, outgoing: bool) -> bool:
        """Whether link routes match an address, but none of them has a connected container at this router."""
        keys = self._addresses.link_routes.match(text, outgoing)
        return bool(keys) and not any(True for key in keys or () for _ in self.serving(key))

    def container_count(self, key: str) -> int:
        """Number of connected containers of this router for the address of a link route."""
        return len({conn.id for _, conn in self.serving(key)})

    # ---- capabilities of containers
    def offer(self, key: str) -> ContainerCapabilities | None:
        """The capabilities of this router's containers for a link route."""
        conns = [conn for _, conn in self.serving(key)]
        return common_capabilities([capabilities_of(conn.remote) for conn in conns if conn.remote is not None])

    def offer_for(self, address: str) -> ContainerCapabilities | None:
        """The capabilities of the containers, of this and other routers, for the link routes that match an address."""
        found: list[ContainerCapabilities | None] = []
        for key in self._addresses.link_routes.match_any(address):
            found.append(self.offer(key))
            for router_id in self._addresses.by_key[key].targets:
                announced = self._context.control_plane.offer_of(router_id, key)
                found.append(None if announced is None else read_offer(announced))
        return common_capabilities([offer for offer in found if offer is not None])
