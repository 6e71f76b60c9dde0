"""A Router resource and what refers to it, as single routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.resources.model import Ref, Router
from waymesh_operator.router_entities.entities import NOTHING_MORE, OPEN, Entity, Offer, Security

from .topology import lower_neighbours


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


def router_id(ref: Ref, ordinal: int) -> str:
    """The id of a router: it follows from name and ordinal alone, so that no restart changes it."""
    return f"{ref.name}-{ordinal}"


def peers_below(router: Router, ordinal: int) -> tuple[int, ...]:
    """Ordinals that a router connects to."""
    return lower_neighbours(ordinal, router.size, router.topology) if router.role == "interior" else ()
