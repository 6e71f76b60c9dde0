"""The desired routers of a mesh: topology, and each router's boot configuration (its seed)."""

from __future__ import annotations

import functools
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.router_entities.builders import NO_OPTIONS, OPEN, ListenerOptions, Security, router_entity
from waymesh_operator.router_entities.names import (
    ADDRESS,
    AUTOLINK,
    CREDENTIALS,
    LINKROUTE,
    LISTENER,
    LOG,
    ROUTER,
    STANDING_TYPES,
    USERS_NAME,
    Entity,
)
from waymesh_operator.router_entities.policies import is_default

FULL_UP_TO = 6


def lower_neighbours(ordinal: int, size: int, topology: str) -> tuple[int, ...]:
    """Return the ordinals to connect to, lowest first. `topology` is Full, Chordal, or Auto (by size)."""
    if topology == "Full" or (topology == "Auto" and size <= FULL_UP_TO):
        return tuple(range(ordinal))
    steps = (1 << bit for bit in range(ordinal.bit_length()))
    return tuple(sorted(ordinal - step for step in steps if step <= ordinal))


@dataclass(frozen=True, slots=True)
class DesiredListener:
    """A listener of a router. `part` distinguishes the listeners of a router; `role` is that of the entity."""

    part: str
    host: str
    port: int
    role: str = "normal"
    security: Security = OPEN
    offer: ListenerOptions = NO_OPTIONS

    @property
    def for_clients(self) -> bool:
        """Whether it is a listener of the manifest; the others belong to the mesh itself."""
        return self.part.startswith("listener/")


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connection that a router opens to the mesh listener of another one."""

    peer: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class DesiredRouter:
    """One router: its identity, connections and entities."""

    ref: Ref
    id: str
    ordinal: int
    # A change of it, or of `worker_threads`, needs a restart.
    mode: str
    listeners: tuple[DesiredListener, ...]
    connectors: tuple[DesiredConnector, ...]
    # Entities of this router only: connectors, entities placed on it, and listeners where ports differ by router.
    own: tuple[Entity, ...] = ()
    # Entities that all routers of the mesh have.
    shared: tuple[Entity, ...] = ()
    worker_threads: int = 1

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All entities of the router that can change while it runs."""
        return (*self.own, *self.shared)


@dataclass(frozen=True, slots=True)
class DesiredMesh:
    """All routers of one Router resource, lowest ordinal first, and how to treat them."""

    ref: Ref
    routers: tuple[DesiredRouter, ...]
    drain_timeout_s: int = 30
    repair: bool = True
    paused: bool = False
    # Clients move to routers with fewer of them.
    balance: bool = False

    @property
    def neighbours(self) -> dict[str, set[str]]:
        """The ids of the routers that each router should be connected to."""
        return neighbours_by_router({router.id: [item.peer for item in router.connectors] for router in self.routers})


def neighbours_by_router(connects_to: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return the neighbours of each router from the routers that each connects to: a connection has two ends."""
    neighbours: dict[str, set[str]] = {router: set() for router in connects_to}
    for router, peers in connects_to.items():
        for peer in peers:
            neighbours[router].add(peer)
            neighbours.setdefault(peer, set()).add(router)
    return neighbours


def peers_below(router: Router, ordinal: int) -> tuple[int, ...]:
    """Ordinals that a router connects to."""
    return lower_neighbours(ordinal, router.size, router.topology) if router.role == "interior" else ()


SHARED_FILE = "shared.json.gz"
SHARED_FILES = (SHARED_FILE, "shared-2.json.gz", "shared-3.json.gz", "shared-4.json.gz")
"""The files in which a router finds what all routers of its mesh share. Those that are not needed hold nothing."""
_NUMEROUS = (ADDRESS, LINKROUTE, AUTOLINK)
"""Types whose entities need no other entity when a router starts, so that they may be in any file."""


@functools.lru_cache(maxsize=1024)
def seed_text(router: DesiredRouter, credentials: str) -> str:
    """Return the full configuration of one router as one text. `credentials` is the folder with the users file."""
    return render((*_own(router, credentials), *router.shared))


def only_live(entity: Entity) -> bool:
    """Whether the entity is created on routers that run, and is in no seed: a router whose image has no console, or is
    older, refuses it, and would not start with a seed that has it."""
    return entity.type == LISTENER and bool(entity.attributes.get("console"))


def shared_seed(entities: Iterable[Entity]) -> bytes:
    """Return the seed shared by all routers of a mesh; the same entities give the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as file:
        file.write(render(entity for entity in entities if not only_live(entity)).encode())
    return packed.getvalue()


def shared_seeds(entities: Iterable[Entity], count: int) -> list[bytes]:
    """Return the seed shared by all routers in this number of files.

    Which file an entity is in depends on its name and on the number alone. Files are replaced one after the other: a
    router that starts meanwhile finds no entity in two of them, which it would refuse.
    """
    files: list[list[Entity]] = [[] for _ in range(count)]
    for entity in entities:
        spread = count > 1 and entity.type in _NUMEROUS
        files[zlib.crc32(entity.base_name.encode()) % count if spread else 0].append(entity)
    return [shared_seed(file) for file in files]


def own_seed(router: DesiredRouter) -> str:
    """Return the part of a router's seed that is not shared."""
    return render(_own(router, CREDENTIALS))


def _own(router: DesiredRouter, credentials: str) -> Iterable[Entity]:
    """Return the entities of one router: first the router entity, with attributes that cannot change at run time."""
    base = router_entity(router.id, router.mode, router.worker_threads)
    settings = {**base.attributes, "saslConfigDir": credentials, "saslConfigName": USERS_NAME}
    settings |= next((entity.attributes for entity in router.own if entity.type == ROUTER), {})
    yield Entity(ROUTER, base.name, settings)
    yield from (entity for entity in router.own if entity.type != ROUTER)


def render(entities: Iterable[Entity]) -> str:
    """Render entities as text, without log modules at the default level, and without a policy that has only defaults,
    because routers of older images refuse policies."""
    written = [e for e in entities if not is_default(e) and (e.type != LOG or e.attributes["enable"] != "default")]
    return "[\n" + ",\n".join(map(_line, written)) + "\n]\n"


def _line(entity: Entity) -> str:
    if entity.known.line is None:
        entity.known.line = json.dumps(_row(entity), ensure_ascii=False)
    return entity.known.line


def _row(entity: Entity) -> list[Any]:
    attributes = {name: value for name, value in entity.attributes.items() if value is not None}
    named = entity.type not in STANDING_TYPES
    return [entity.type, {"name": entity.name, **attributes} if named else attributes]
