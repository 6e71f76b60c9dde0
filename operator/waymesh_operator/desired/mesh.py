"""A Router resource and what refers to it, as single routers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from waymesh_operator.specs import Address, Ref, Router

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
    """One router: who it is, whom it connects to, and what it is told. `mode` is all that needs a restart to change."""

    ref: Ref
    id: str
    ordinal: int
    mode: str
    listeners: tuple[DesiredListener, ...]
    connectors: tuple[DesiredConnector, ...]
    addresses: tuple[Address, ...]
    log_level: str = "info"
    log_levels: tuple[tuple[str, str], ...] = ()


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
    own = [address for address in addresses if address.router == router.ref]
    lost = conflicts(own)
    shared = tuple(address for address in sorted(own, key=lambda a: a.ref) if address.ref not in lost)
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


def _desired_router(
    router: Router, ordinal: int, places: Sequence[Place], addresses: tuple[Address, ...]
) -> DesiredRouter:
    peers = lower_neighbours(ordinal, router.size, router.topology) if router.role == "interior" else ()
    return DesiredRouter(
        ref=router.ref,
        id=router_id(router.ref, ordinal),
        ordinal=ordinal,
        mode=router.role,
        listeners=tuple(_listeners(router, places[ordinal])),
        connectors=tuple(
            DesiredConnector(router_id(router.ref, peer), places[peer].reach, places[peer].mesh_port) for peer in peers
        ),
        addresses=addresses,
        log_level=router.log_level,
        log_levels=router.log_levels,
    )


def _listeners(router: Router, place: Place) -> Iterable[DesiredListener]:
    for listener in router.listeners:
        yield DesiredListener(f"listener/{listener.name}", place.bind, place.ports[listener.name])
    yield DesiredListener("management", place.bind, place.management_port)
    if router.role == "interior":
        yield DesiredListener("mesh", place.bind, place.mesh_port, role="inter-router")
