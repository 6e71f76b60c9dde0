"""What a worker observes of its mesh: routers over management connections, Secrets and claims, Events about pods, and
routes, which are not watched."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_client.channel import Tls
from waymesh_operator.cluster.context import RouteApis
from waymesh_operator.cluster.exposure import LISTENER_LABEL, route_kind
from waymesh_operator.errors import KubeError, LiveError
from waymesh_operator.kube import CLAIM, EVENT, ROUTES, SECRET, SELECTOR, Kind
from waymesh_operator.resources.router import Ref, Router
from waymesh_operator.routers.live_router import LiveRouter, PodView, Reading, event_trouble, pod_view
from waymesh_operator.routers.observed import (
    ObservedMesh,
    ObservedRouter,
    RouterFacts,
    RouterState,
    Trouble,
    VhostCounts,
)
from waymesh_operator.tls.certificates import Credential
from waymesh_operator.tls.rollover import MeshTls, Phase, TlsRequest, TlsView, next_tls

from .environment import Environment
from .inventory import Key, Object, key_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveMesh:
    """The observed routers: the mesh, drainStatus of routers that answer, consumers by mobile address, and counts."""

    mesh: ObservedMesh
    draining: Mapping[str, str] = field(default_factory=dict)
    consumers: Mapping[str, int] = field(default_factory=dict)
    vhosts: VhostCounts = field(default_factory=VhostCounts)


class Routers:
    """Observes the router pods of a mesh and keeps a management connection to each."""

    def __init__(self, mesh: Ref, world: Environment) -> None:
        self._mesh = mesh
        self._world = world
        self._silent: set[str] = set()
        self.pods: dict[str, PodView] = {}
        self.live: dict[str, LiveRouter] = {}

    async def observe(self, objects: Mapping[Key, Object], addresses: bool) -> LiveMesh:
        """Read all reachable routers; with `addresses` also their numbers of consumers."""
        views = (pod_view(body, self._mesh) for key, body in objects.items() if key[0] == "Pod")
        self.pods = {view.id: view for view in views if view is not None}
        await self._connect(objects)
        answers = await asyncio.gather(*(self._ask(router, addresses) for router in self.live.values()))
        readings = {name: reading for name, reading in zip(self.live, answers) if reading is not None}
        consumers: Counter[str] = Counter()
        vhosts = VhostCounts()
        for reading in readings.values():
            consumers.update(reading.consumers)
            vhosts.add(reading.vhosts)
        routers = {name: self._observed(pod, readings.get(name)) for name, pod in self.pods.items()}
        draining = {name: reading.drain for name, reading in readings.items()}
        return LiveMesh(ObservedMesh(routers), draining, consumers, vhosts)

    async def tls_views(self, tls: MeshTls) -> dict[str, TlsView]:
        """Return what each router presents in a handshake; an empty view for an unreachable one."""
        views = {name: TlsView() for name in self.pods}
        now = self._world.clock()

        async def one(router: LiveRouter) -> None:
            probe = None
            if tls.probe is not None:
                probe = self._world.keys.tls(tls.probe, tls.bundle, str(router.tls.server_name))
            views[router.pod.id] = await self._world.in_thread(lambda: router.look_at_tls(probe, now))

        await asyncio.gather(*(one(router) for router in self.live.values()))
        return views

    async def rest(self) -> None:
        """Close all connections until they are needed again; keep the data that was read."""
        await asyncio.gather(*(self._world.in_thread(router.close) for router in self.live.values()))

    async def close(self) -> None:
        """Close all connections permanently."""
        gone, self.live = list(self.live.values()), {}
        await asyncio.gather(*(self._world.in_thread(router.end) for router in gone))

    async def _connect(self, objects: Mapping[Key, Object]) -> None:
        """Keep one connection to each reachable router, and replace it when its pod or our certificate has changed."""
        secret = objects.get(("Secret", self._mesh.namespace, f"{self._mesh.name}-operator-tls"))
        wanted = {name: (pod, self._tls(name, secret)) for name, pod in self.pods.items() if pod.reachable}
        stale = [name for name, live in self.live.items() if name not in wanted or not _serves(live, wanted[name])]
        gone = [self.live.pop(name) for name in stale]
        await asyncio.gather(*(self._world.in_thread(router.end) for router in gone))
        for name, (pod, tls) in wanted.items():
            if name in self.live:
                self.live[name].pod = pod
            elif tls is not None:
                self.live[name] = LiveRouter(pod, tls, self._world.reach)
        self.live = {name: self.live[name] for name in self.pods if name in self.live}

    def _tls(self, name: str, secret: Object | None) -> Tls | None:
        data = secret_data(secret) if secret else {}
        if not all(data.get(part) for part in ("tls.crt", "tls.key", "ca.crt")):
            return None
        server_name = f"{name}.{self._mesh.name}-mesh.{self._mesh.namespace}.svc"
        return self._world.keys.tls(Credential(data["tls.crt"], data["tls.key"]), data["ca.crt"], server_name)

    async def _ask(self, router: LiveRouter, addresses: bool) -> Reading | None:
        now = self._world.clock()
        try:
            reading = await self._world.in_thread(lambda: router.read(now, addresses))
        except LiveError as error:
            if router.pod.id not in self._silent:
                log.info("%s does not answer: %s", router.pod.id, error, extra={"namespace": self._mesh.namespace})
            self._silent.add(router.pod.id)
            self._world.metrics.live_requests.labels("error").inc()
            return None
        self._silent.discard(router.pod.id)
        self._world.metrics.live_requests.labels("done").inc()
        return reading

    def _observed(self, pod: PodView, reading: Reading | None) -> ObservedRouter:
        state = RouterState.DRAINING if pod.leaving else RouterState.RUNNING if reading else RouterState.STARTING
        live = self.live.get(pod.id)
        facts = live.facts if live and reading else RouterFacts(ready=pod.ready)
        entities = reading.entities if reading else ()
        return ObservedRouter(pod.id, pod.ordinal, state, entities=entities, facts=facts)


def secret_data(secret: Object) -> dict[str, bytes]:
    """The data of a Secret, decoded."""
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}


def _serves(live: LiveRouter, wanted: tuple[PodView, Tls | None]) -> bool:
    pod, tls = wanted
    return tls is not None and live.serves(pod, tls)


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
