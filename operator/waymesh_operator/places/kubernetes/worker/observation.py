"""What a worker observes besides routers: certificates, Secrets and claims, Events about pods, and routes, which are
not watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import CLAIM, EVENT, ROUTES, SECRET, SELECTOR, Kind
from waymesh_operator.places.kubernetes.context import RouteApis
from waymesh_operator.places.kubernetes.exposure import route_kind
from waymesh_operator.planning.manifests import LISTENER_LABEL
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.routers.live_router import PodView, event_trouble
from waymesh_operator.routers.observed import Trouble
from waymesh_operator.tls.rollover import MeshTls, Phase, TlsRequest, TlsView, next_tls

from .environment import Environment
from .inventory import Key, Object, key_of
from .live_mesh import Routers, secret_data

Data = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ReadSecret:
    """A Secret as it was read: when, its resourceVersion ("" if there is none) and its data."""

    at: float
    version: str
    data: Data | None


@dataclass(slots=True)
class UserSecrets:
    """Secrets that resources of a namespace refer to.

    They do not have our label, so watching them would mean watching every Secret of the cluster. They are read again
    when `References` has seen another version, and with each resync; missing ones with each turn.
    """

    mesh: Ref
    world: Environment
    _known: dict[str, ReadSecret] = field(default_factory=dict)

    async def read(self, names: frozenset[str]) -> dict[str, Data | None]:
        """The data of each, None for one that does not exist. Raises KubeError."""
        self._known = {name: known for name, known in self._known.items() if name in names}
        for name in sorted(names):
            known = self._known.get(name)
            if known is None or self._is_old(name, known):
                self._known[name] = await read_secret(self.world, self.mesh.namespace, name)
        return {name: known.data for name, known in self._known.items()}

    def versions(self) -> dict[tuple[Kind, str], str]:
        """Return the resourceVersion of each Secret that was read, "" for one that does not exist."""
        return {(SECRET, name): known.version for name, known in self._known.items()}

    def _is_old(self, name: str, known: ReadSecret) -> bool:
        if known.data is None or self.world.clock() - known.at >= self.world.pace.least_resync_s:
            return True
        return self.world.references.version(self.mesh, (SECRET, name)) != known.version


async def read_secret(world: Environment, namespace: str, name: str) -> ReadSecret:
    """Read a Secret. Raises KubeError, but not if there is none."""
    at = world.clock()
    try:
        secret = await world.kube.get(SECRET, namespace, name)
    except KubeError as error:
        if error.missing:
            return ReadSecret(at, "", None)
        raise
    return ReadSecret(at, str(secret["metadata"]["resourceVersion"]), secret_data(secret))


async def read_claims(world: Environment, namespace: str, name: str) -> dict[str, tuple[str, ...] | None]:
    """Return the access modes of the claim with this name, None if it does not exist; {} for an empty name. Raises
    KubeError."""
    if not name:
        return {}
    try:
        claim = await world.kube.get(CLAIM, namespace, name)
    except KubeError as error:
        if error.missing:
            return {name: None}
        raise
    return {name: tuple(claim["spec"].get("accessModes") or ())}


async def mesh_tls(request: TlsRequest, objects: Mapping[Key, Object], routers: Routers, world: Environment) -> MeshTls:
    """The desired certificates. Raises KubeError.

    The watched state is enough to see that there is nothing to do. Before any change, the Secrets are read from the API
    server: keys must not be generated, nor an authority restored, because a watch is behind.
    """
    names = tuple(f"{request.router}-{part}" for part in ("ca", "tls", "operator-tls"))
    bodies = {name: objects.get(("Secret", request.namespace, name)) for name in names}
    seen: dict[str, Data | None] = {name: secret_data(body) if body else None for name, body in bodies.items()}
    tls = await _next(request, seen, routers, world)
    if tls.secrets(request.router) == seen:
        return tls
    seen = {name: (await read_secret(world, request.namespace, name)).data for name in names}
    return await _next(request, seen, routers, world)


async def _next(request: TlsRequest, seen: Mapping[str, Data | None], routers: Routers, world: Environment) -> MeshTls:
    views = {name: TlsView() for name in routers.pods}
    tls = await world.in_thread(lambda: next_tls(request, seen, views, world.now()))
    if tls.phase is Phase.STABLE:
        return tls
    views = await routers.tls_views(tls)
    return await world.in_thread(lambda: next_tls(request, seen, views, world.now()))


ASKED = 3
"""Number of pods of one mesh whose Events are listed in one reconcile."""


async def troubles(
    world: Environment, mesh: Ref, objects: Mapping[Key, Object], pods: Mapping[str, PodView]
) -> dict[str, Trouble]:
    """Why routers do not run, by router id: from their pods, else from Events about them."""
    found = {name: pod.trouble for name, pod in pods.items() if pod.trouble}
    stuck = [pod for pod in pods.values() if pod.waits and not pod.trouble]
    for pod in stuck[:ASKED]:
        trouble = event_trouble(await _events(world, mesh, pod.uid))
        if trouble:
            found[pod.id] = trouble
    stateful_set = objects.get(("StatefulSet", mesh.namespace, mesh.name))
    wanted = int(stateful_set["spec"].get("replicas", 1)) if stateful_set else 0
    missing = [name for name in (f"{mesh.name}-{k}" for k in range(wanted)) if name not in pods]
    if stateful_set and missing:
        trouble = event_trouble(await _events(world, mesh, stateful_set["metadata"].get("uid", "")))
        found |= dict.fromkeys(missing, trouble) if trouble else {}
    return found


async def _events(world: Environment, mesh: Ref, uid: str) -> list[Object]:
    """Return Events about an object; none if they cannot be listed: the status is then only less specific."""
    try:
        return list(await world.kube.list(EVENT, mesh.namespace, fields=f"involvedObject.uid={uid}"))
    except KubeError:
        return []


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


def _is_exposure(body: Object) -> bool:
    return body["kind"] == "Service" and LISTENER_LABEL in (body["metadata"].get("labels") or {})
