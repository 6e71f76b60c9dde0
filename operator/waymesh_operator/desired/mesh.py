"""A Router resource and what refers to it, as routers and entities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.entities import (
    CONNECTOR,
    LISTENER,
    LOG,
    ROUTER,
    Entity,
    address_entity,
    entity_name,
)
from waymesh_operator.specs import Address, Ref, Router
from waymesh_schema.loglevels import LOG_MODULES

from .topology import lower_neighbours

DEFAULT_MODULE = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one router stands: the address it binds, and its ports.

    `reach` is the host by which the other routers find it. `ports` holds the port of each client listener by name.
    """

    bind: str
    reach: str
    mesh_port: int
    management_port: int
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DesiredRouter:
    """One router: its id, its place in the mesh, the entity that needs a restart to change, and those that act live."""

    id: str
    ordinal: int
    router: Entity
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class DesiredMesh:
    """All routers of one Router resource, lowest ordinal first, and how they are to be treated."""

    ref: Ref
    routers: tuple[DesiredRouter, ...]
    drain_timeout_s: int = 30
    repair: bool = True
    paused: bool = False


def router_id(ref: Ref, ordinal: int) -> str:
    """The id of a router: it follows from name and ordinal alone, so that no restart changes it."""
    return f"{ref.name}-{ordinal}"


def desired_mesh(router: Router, addresses: Iterable[Address], places: Sequence[Place]) -> DesiredMesh:
    """The mesh of a Router. `places` has one Place for each ordinal; addresses of other Routers are left out."""
    shared = (*_log_entities(router), *_address_entities(router, addresses))
    routers = tuple(_desired_router(router, ordinal, places, shared) for ordinal in range(router.size))
    return DesiredMesh(router.ref, routers, router.drain_timeout_s, router.drift == "Repair", router.paused)


def conflicts(addresses: Iterable[Address]) -> dict[Ref, Address]:
    """Addresses that want what an older one of the same Router has: loser → winner."""
    winners: dict[tuple[Ref, bool, str], Address] = {}
    lost: dict[Ref, Address] = {}
    for address in sorted(addresses, key=lambda a: (a.created, a.ref)):
        winner = winners.setdefault((address.router, address.prefix is None, address.match), address)
        if winner is not address:
            lost[address.ref] = winner
    return lost


def seed_text(router: DesiredRouter) -> str:
    """The configuration that a router boots with: a JSON list of [type, attributes], as the schema's reader takes it.

    Log modules that only say what is the default anyway are left out.
    """
    entities = [e for e in router.entities if e.type != LOG or e.attributes["enable"] != "default"]
    rows = [_seed_row(entity) for entity in (router.router, *entities)]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _seed_row(entity: Entity) -> list[Any]:
    attributes = {name: value for name, value in entity.attributes.items() if value is not None}
    named = {"name": entity.name, **attributes} if entity.owned else attributes
    return [entity.type, named]


def _desired_router(router: Router, ordinal: int, places: Sequence[Place], shared: tuple[Entity, ...]) -> DesiredRouter:
    own_id = router_id(router.ref, ordinal)
    boot = Entity(ROUTER, own_id, {"id": own_id, "mode": router.role})
    entities = [*_listeners(router, places[ordinal])]
    if router.role == "interior":
        entities.append(_mesh_listener(router.ref, places[ordinal]))
        for peer in lower_neighbours(ordinal, router.size, router.topology):
            entities.append(_connector(router.ref, peer, places[peer]))
    return DesiredRouter(own_id, ordinal, boot, (*entities, *shared))


def _listeners(router: Router, place: Place) -> Iterable[Entity]:
    for listener in router.listeners:
        yield _listener(router.ref, f"listener/{listener.name}", place.bind, place.ports[listener.name])
    yield _listener(router.ref, "management", place.bind, place.management_port)


def _listener(ref: Ref, part: str, host: str, port: int, role: str = "normal") -> Entity:
    attributes = {
        "host": host,
        "port": str(port),
        "role": role,
        "authenticatePeer": False,
        "saslMechanisms": "ANONYMOUS",
    }
    return Entity(LISTENER, entity_name(ref, "Router", part), attributes)


def _mesh_listener(ref: Ref, place: Place) -> Entity:
    return _listener(ref, "mesh", place.bind, place.mesh_port, role="inter-router")


def _connector(ref: Ref, peer: int, place: Place) -> Entity:
    attributes = {
        "host": place.reach,
        "port": str(place.mesh_port),
        "role": "inter-router",
        "saslMechanisms": "ANONYMOUS",
    }
    return Entity(CONNECTOR, entity_name(ref, "Router", "to", router_id(ref, peer)), attributes)


def _log_entities(router: Router) -> Iterable[Entity]:
    """One for each module, so that a level taken out of the manifest goes back to the default."""
    levels = {DEFAULT_MODULE: router.log_level, **dict(router.log_levels)}
    for module in LOG_MODULES:
        level = levels.get(module, "default")
        enable = level if level in ("default", "none") else f"{level}+"
        yield Entity(LOG, f"log/{module}", {"module": module, "enable": enable})


def _address_entities(router: Router, addresses: Iterable[Address]) -> list[Entity]:
    own = [address for address in addresses if address.router == router.ref]
    lost = conflicts(own)
    return [address_entity(a) for a in sorted(own, key=lambda a: a.ref) if a.ref not in lost]
