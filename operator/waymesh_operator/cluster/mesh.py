"""The desired routers of a mesh: topology, and the configuration with which each router boots (its seed)."""

from __future__ import annotations

import functools
import gzip
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.builders import NOTHING_MORE, OPEN, Offer, Security, router_entity
from waymesh_operator.router_entities.names import LOG, ROUTER, STANDING_TYPES, Entity

FULL_UP_TO = 6


def lower_neighbours(ordinal: int, size: int, topology: str) -> tuple[int, ...]:
    """Ordinals, lowest first, that the router connects to. `topology` is Full, Chordal, or Auto (by size)."""
    if topology == "Full" or (topology == "Auto" and size <= FULL_UP_TO):
        return tuple(range(ordinal))
    steps = (1 << bit for bit in range(ordinal.bit_length()))
    return tuple(sorted(ordinal - step for step in steps if step <= ordinal))


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
class DesiredListener:
    """A port of a router. `part` tells the listeners of a router apart; `role` is that of the router entity."""

    part: str
    host: str
    port: int
    role: str = "normal"
    security: Security = OPEN
    offer: Offer = NOTHING_MORE

    @property
    def for_clients(self) -> bool:
        """Whether the manifest asks for it; the others are the mesh's own."""
        return self.part.startswith("listener/")


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connection that a router opens to the mesh listener of another one."""

    peer: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class DesiredRouter:
    """One router: who it is, whom it connects to, and what it is told. `mode` is all that needs a restart to change.

    `shared` are the entities that all routers of the mesh have alike, `own` those of this one alone: its connectors,
    what is placed on it and not on all, and its listeners where their ports are its own.
    """

    ref: Ref
    id: str
    ordinal: int
    mode: str
    listeners: tuple[DesiredListener, ...]
    connectors: tuple[DesiredConnector, ...]
    own: tuple[Entity, ...] = ()
    shared: tuple[Entity, ...] = ()

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All entities of the router that can change while it runs."""
        return (*self.own, *self.shared)


@dataclass(frozen=True, slots=True)
class DesiredMesh:
    """All routers of one Router resource, lowest ordinal first, and how they are to be treated."""

    ref: Ref
    routers: tuple[DesiredRouter, ...]
    drain_timeout_s: int = 30
    repair: bool = True
    paused: bool = False


def peers_below(router: Router, ordinal: int) -> tuple[int, ...]:
    """Ordinals that a router connects to."""
    return lower_neighbours(ordinal, router.size, router.topology) if router.role == "interior" else ()


SHARED_FILE = "shared.json.gz"


@functools.lru_cache(maxsize=1024)
def seed_text(router: DesiredRouter) -> str:
    """The whole configuration of one router in one text."""
    return render((router_entity(router.id, router.mode), *router.entities))


def shared_seed(entities: Iterable[Entity]) -> bytes:
    """What all routers of a mesh boot with, the same octets for the same entities."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        file.write(render(entities).encode())
    return packed.getvalue()


def own_seed(router: DesiredRouter, settings: Mapping[str, Any]) -> str:
    """What one router boots with besides; `settings` are further attributes of its router entity."""
    base = router_entity(router.id, router.mode)
    own = (entity for entity in router.own if entity.type != ROUTER)
    return render((Entity(ROUTER, base.name, {**base.attributes, **settings}), *own))


def render(entities: Iterable[Entity]) -> str:
    """Entities as text. Log modules that only say what is the default anyway are left out."""
    told = [e for e in entities if e.type != LOG or e.attributes["enable"] != "default"]
    return "[\n" + ",\n".join(json.dumps(_row(entity), ensure_ascii=False) for entity in told) + "\n]\n"


def _row(entity: Entity) -> list[Any]:
    attributes = {name: value for name, value in entity.attributes.items() if value is not None}
    named = entity.type not in STANDING_TYPES
    return [entity.type, {"name": entity.name, **attributes} if named else attributes]
