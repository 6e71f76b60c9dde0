"""A mesh in local mode: routers on this machine, without objects of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from waymesh_operator.entities import CREDENTIALS, OPEN, connector_entity, listener_entity, log_entities
from waymesh_operator.specs import Resources, Router

from .cluster import DesiredCluster
from .context import SecretData
from .dependents import Spread, credential_files, spread
from .mesh import DesiredConnector, DesiredListener, DesiredMesh, DesiredRouter, Place, peers_below, router_id
from .verdicts import judge


@dataclass(frozen=True, slots=True)
class LocalContext:
    """What there is already: a Place for each ordinal, the Secrets of the Router's namespace, the folder in which the
    routers find `DesiredLocal.files`."""

    places: Sequence[Place]
    secrets: Mapping[str, SecretData] = field(default_factory=dict)
    credentials: str = CREDENTIALS


@dataclass(frozen=True, slots=True)
class DesiredLocal:
    """All that should be for one Router. `files` are what the routers read passwords and keys from, by name."""

    whole: DesiredCluster
    files: Mapping[str, bytes]

    @property
    def mesh(self) -> DesiredMesh:
        """The routers."""
        return self.whole.mesh


def desired_local(resources: Resources, context: LocalContext) -> DesiredLocal:
    """What should be, from the resources and what is outside our hands."""
    router = resources.router
    verdicts = judge(resources, context.secrets)
    found = spread(resources, context.secrets, verdicts, context.credentials)
    routers = tuple(_desired_router(router, ordinal, context.places, found) for ordinal in range(router.size))
    mesh = DesiredMesh(router.ref, routers, router.drain_timeout_s, router.drift == "Repair", router.paused)
    whole = DesiredCluster(mesh, (), verdicts, size=router.size, placements=found.placements(router))
    return DesiredLocal(whole, credential_files(resources, context.secrets, verdicts))


def _desired_router(router: Router, ordinal: int, places: Sequence[Place], found: Spread) -> DesiredRouter:
    own_id = router_id(router.ref, ordinal)
    listeners = tuple(_listeners(router, places[ordinal]))
    connectors = tuple(
        DesiredConnector(router_id(router.ref, peer), places[peer].reach, places[peer].mesh_port)
        for peer in peers_below(router, ordinal)
    )
    own = (
        *(
            listener_entity(router.ref, item.part, (item.host, item.port), item.role, OPEN, item.route_address)
            for item in listeners
        ),
        *(connector_entity(router.ref, item.peer, (item.host, item.port)) for item in connectors),
        *found.only_on(ordinal),
    )
    shared = (*log_entities(router.log_level, dict(router.log_levels)), *found.shared)
    return DesiredRouter(router.ref, own_id, ordinal, router.role, listeners, connectors, own, shared)


def _listeners(router: Router, place: Place) -> Iterable[DesiredListener]:
    for listener in router.listeners:
        port, route = place.ports[listener.name], listener.route_address
        yield DesiredListener(f"listener/{listener.name}", place.bind, port, route_address=route)
    yield DesiredListener("management", place.bind, place.management_port)
    if router.role == "interior":
        yield DesiredListener("mesh", place.bind, place.mesh_port, role="inter-router")
