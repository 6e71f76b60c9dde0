"""The routes of one mesh, which are not watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waymesh_operator.cluster.addresses import exposure_addresses, node_of
from waymesh_operator.cluster.context import RouteApis
from waymesh_operator.cluster.exposure import LISTENER_LABEL, exposures, route_kind
from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import ROUTES, SELECTOR
from waymesh_operator.resources.router import Ref, Router

from .environment import Environment
from .inventory import Key, Object, key_of

_KINDS = frozenset(kind.kind for kind in ROUTES)


@dataclass(slots=True)
class Routes:
    """Lists the routes of a mesh, of the kinds that its Router needs and of those that exist. A new worker lists all
    kinds if there is a Service to which an earlier worker may have created routes."""

    mesh: Ref
    world: Environment
    _held: frozenset[str] | None = None

    async def read(self, router: Router, objects: dict[Key, Object]) -> RouteApis:
        """Return the route APIs of the cluster. Replaces the routes in `objects`, which come from responses to writes,
        by those that are listed. Raises KubeError."""
        wanted = frozenset(route_kind(listener) for listener in router.listeners) - {""}
        if self._held is None:
            self._held = _KINDS if any(_is_exposure(body) for body in objects.values()) else frozenset()
        for key in [key for key in objects if key[0] in _KINDS]:
            del objects[key]
        if not wanted | self._held:
            return RouteApis()
        try:
            apis, found = await self._list(wanted | self._held)
        except KubeError as error:
            if not error.missing:
                raise
            # An API was removed, or its versions changed, since the last discovery.
            self.world.served.forget()
            apis, found = await self._list(wanted | self._held)
        self._held = frozenset(item["kind"] for item in found)
        objects.update({key_of(item): item for item in found})
        return apis

    async def _list(self, kinds: frozenset[str]) -> tuple[RouteApis, list[Object]]:
        """Return the route APIs of the cluster, and the routes of these kinds."""
        world = self.world
        served = dict(await world.served.read(world.kube, world.clock(), world.pace.apis_s))
        found: list[Object] = []
        forbidden: set[str] = set()
        for kind in ROUTES:
            if kind.kind not in served or kind.kind not in kinds:
                continue
            try:
                here = kind.in_version(served[kind.kind])
                found += await world.kube.list(here, self.mesh.namespace, f"{SELECTOR}={self.mesh.name}")
            except KubeError as error:
                if error.status != 403:
                    raise
                forbidden.add(kind.kind)
                del served[kind.kind]
        return RouteApis(served, frozenset(forbidden)), found


def exposed_addresses(router: Router, objects: Mapping[Key, Object]) -> dict[str, list[str]]:
    """Return the addresses of exposed listeners with failover lists, by the name of the exposure."""
    wanted = {listener.name for listener in router.listeners if listener.failover}
    if not wanted:
        return {}
    live = {(kind, name): body for (kind, _, name), body in objects.items()}
    nodes = {name: host for (kind, name), body in live.items() if kind == "Pod" and (host := node_of(body))}
    found = (exposure for exposure in exposures(router, router.size) if exposure.listener.name in wanted)
    return {exposure.name: exposure_addresses(exposure, live, nodes) for exposure in found}


def _is_exposure(body: Object) -> bool:
    return body["kind"] == "Service" and LISTENER_LABEL in (body["metadata"].get("labels") or {})
