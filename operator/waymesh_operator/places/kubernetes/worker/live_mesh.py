"""The routers of a mesh as they run: a contact with each, asked in the background.

A turn waits only for a short time. What a router reports later serves the next turn, which begins at once then.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_client.channel import Tls
from waymesh_operator.errors import LiveError
from waymesh_operator.planning.status.conditions import timestamp
from waymesh_operator.resources.router import Ref
from waymesh_operator.routers.live_router import LiveRouter, PodView, Reading, pod_view
from waymesh_operator.routers.observed import (
    ObservedMesh,
    ObservedRouter,
    RouterFacts,
    RouterState,
    Trouble,
    VhostCounts,
)
from waymesh_operator.tls.certificates import Credential
from waymesh_operator.tls.rollover import MeshTls, TlsView

from .environment import Environment
from .inventory import Key, Object

log = logging.getLogger(__name__)
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 30.0
"""Seconds after which a router that did not answer is asked again; they double with each failure."""
FAILURES, SILENCE_S = 2, 15.0
"""After so many failed requests, or seconds without an answer, what a router reported last does not count any more.
Thousands of entities are read in many requests, which take longer than this on a busy machine: each reply counts."""


@dataclass(frozen=True, slots=True)
class LiveMesh:
    """The observed routers: the mesh, drainStatus of routers that answer, consumers by mobile address, and counts."""

    mesh: ObservedMesh
    draining: Mapping[str, str] = field(default_factory=dict)
    consumers: Mapping[str, int] = field(default_factory=dict)
    vhosts: VhostCounts = field(default_factory=VhostCounts)
    # Routers that do not answer although they should.
    silent: Mapping[str, Trouble] = field(default_factory=dict)


class Contact:
    """The contact with one router: at most one request for its state at a time, and later ones after failures."""

    def __init__(self, router: LiveRouter, world: Environment, wake: Callable[[], object]) -> None:
        self.router = router
        self._world = world
        self._wake = wake
        self._request: asyncio.Task[Reading | None] | None = None
        self._late = False
        self._failures = 0
        self._retry_at = float("-inf")
        self._unanswered: tuple[float, datetime] | None = None
        self.reported: Reading | None = None
        """The last state that the router reported."""

    @property
    def answers(self) -> bool:
        """Whether the router answered the last request."""
        return not self._failures and not self._late

    @property
    def silent_since(self) -> datetime | None:
        """The time of the first request without an answer, if a short interruption does not explain it any more."""
        if self._unanswered is None:
            return None
        at, since = self._unanswered
        silent_s = self._world.clock() - max(at, self.router.answered_at)
        return since if self._failures >= FAILURES or silent_s >= SILENCE_S else None

    def see(self, pod: PodView) -> None:
        """Note the present state of the pod. A pod that has changed may answer now."""
        if (pod.start_id, pod.ready) != (self.router.pod.start_id, self.router.pod.ready):
            self._retry_at = float("-inf")
        self.router.pod = pod

    def ask(self, addresses: bool) -> asyncio.Task[Reading | None] | None:
        """Request the state, if it is time; returns the new request."""
        if self._request is not None or self._world.clock() < self._retry_at:
            return None
        if self._unanswered is None:
            self._unanswered = self._world.clock(), self._world.now()
        self._request = asyncio.create_task(self._read(addresses), name=f"router {self.router.pod.id}")
        return self._request

    def take(self) -> Reading | None:
        """Return what the router has reported since the last `take`; None if it has not answered."""
        request = self._request
        self._late = request is not None and not request.done()
        if request is None or self._late:
            return None
        self._request = None
        return request.result()

    async def rest(self) -> None:
        """Close the connection until it is needed again; after the request in progress, if there is one."""
        if self._request is None:
            await self._world.at_router(self.router.close)

    async def end(self) -> None:
        """Close permanently."""
        if self._request is not None:
            self._request.cancel()
        await self._world.at_router(self.router.end)

    async def _read(self, addresses: bool) -> Reading | None:
        now = self._world.clock()
        try:
            reading = await self._world.at_router(lambda: self.router.read(now, addresses))
        except LiveError as error:
            self._failed(error)
            return None
        self._failures, self._unanswered, self.reported = 0, None, reading
        self._world.metrics.live_requests.labels("done").inc()
        if self._late:
            await self._world.at_router(self.router.close)
            self._wake()
        return reading

    def _failed(self, error: LiveError) -> None:
        if not self._failures:
            log.info("%s does not answer: %s", self.router.pod.id, error)
        self._retry_at = self._world.clock() + min(LAST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._world.metrics.live_requests.labels("error").inc()


class Routers:
    """Observes the router pods of a mesh and keeps a contact with each."""

    def __init__(self, mesh: Ref, world: Environment) -> None:
        self._mesh = mesh
        self._world = world
        self._contacts: dict[str, Contact] = {}
        self._closings: set[asyncio.Task[None]] = set()
        self._domain = f"{mesh.name}-mesh.{mesh.namespace}.svc"
        self.pods: dict[str, PodView] = {}

    @property
    def live(self) -> dict[str, LiveRouter]:
        """The routers with which there is contact, by id."""
        return {name: contact.router for name, contact in self._contacts.items()}

    async def observe(self, objects: Mapping[Key, Object], addresses: bool) -> LiveMesh:
        """Read the state of all routers that answer in time; with `addresses` also their numbers of consumers."""
        views = (pod_view(body, self._mesh) for key, body in objects.items() if key[0] == "Pod")
        self.pods = {view.id: view for view in views if view is not None}
        await self._connect(objects)
        requests = [contact.ask(addresses) for contact in self._contacts.values()]
        await self._wait(request for request in requests if request is not None)
        fresh = {name: reading for name, it in self._contacts.items() if (reading := it.take()) is not None}
        known = {name: it.reported for name, it in self._contacts.items() if it.reported and it.silent_since is None}
        consumers: Counter[str] = Counter()
        vhosts = VhostCounts()
        for reading in known.values():
            consumers.update(reading.consumers)
            vhosts.add(reading.vhosts)
        routers = {name: self._observed(pod, name in fresh, known.get(name)) for name, pod in self.pods.items()}
        draining = {name: reading.drain for name, reading in known.items()}
        return LiveMesh(ObservedMesh(routers), draining, consumers, vhosts, self._silent())

    async def tls_views(self, tls: MeshTls) -> dict[str, TlsView]:
        """Return what each router presents in a handshake; an empty view for one that does not answer."""
        views = {name: TlsView() for name in self.pods}
        now = self._world.clock()
        asked = {name: contact.router for name, contact in self._contacts.items() if contact.answers}

        def look(router: LiveRouter) -> TlsView:
            probe = None
            if tls.probe is not None:
                probe = self._world.keys.tls(tls.probe, tls.bundle, str(router.tls.server_name))
            return router.look_at_tls(probe, now)

        found = await self._world.at_routers(functools.partial(look, router) for router in asked.values())
        for name, view in zip(asked, found):
            if isinstance(view, BaseException):
                raise view
            views[name] = view
        return views

    async def rest(self) -> None:
        """Close all connections until they are needed again; keep the data that was read."""
        await self._let_go(contact.rest() for contact in self._contacts.values())

    async def close(self) -> None:
        """Close all connections permanently, and remove the keys for them."""
        gone, self._contacts = list(self._contacts.values()), {}
        await self._let_go(contact.end() for contact in gone)
        self._world.keys.forget(self._domain)

    async def _connect(self, objects: Mapping[Key, Object]) -> None:
        """Keep contact with each reachable router, and renew it when its pod or our certificate has changed."""
        secret = objects.get(("Secret", self._mesh.namespace, f"{self._mesh.name}-operator-tls"))
        wanted = {name: (pod, self._tls(name, secret)) for name, pod in self.pods.items() if pod.reachable}
        known = self._contacts
        stale = [name for name, it in known.items() if name not in wanted or not _serves(it.router, wanted[name])]
        await self._let_go(known.pop(name).end() for name in stale)
        for name, (pod, tls) in wanted.items():
            if name in known:
                known[name].see(pod)
            elif tls is not None:
                known[name] = Contact(LiveRouter(pod, tls, self._world.reach), self._world, self._wake)
        self._contacts = {name: known[name] for name in self.pods if name in known}
        routers = list(self.live.values())
        for router in routers:
            router.beside = next((other for other in routers[:2] if other is not router), None)

    def _wake(self) -> None:
        self._world.inventory.changed(self._mesh)

    async def _let_go(self, closings: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Close connections; a router that does not answer is not waited for."""
        tasks = {asyncio.create_task(closing) for closing in closings}
        self._closings |= tasks
        for task in tasks:
            task.add_done_callback(self._closings.discard)
        await self._wait(tasks)

    async def _wait(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Wait for requests to routers as long as a turn may. Other turns go on."""
        present = list(tasks)
        if present:
            async with self._world.turns.waiting():
                await asyncio.wait(present, timeout=self._world.pace.patience_s)

    def _tls(self, name: str, secret: Object | None) -> Tls | None:
        data = secret_data(secret) if secret else {}
        if not all(data.get(part) for part in ("tls.crt", "tls.key", "ca.crt")):
            return None
        server_name = f"{name}.{self._domain}"
        return self._world.keys.tls(Credential(data["tls.crt"], data["tls.key"]), data["ca.crt"], server_name)

    def _observed(self, pod: PodView, fresh: bool, reading: Reading | None) -> ObservedRouter:
        state = RouterState.RUNNING if fresh else RouterState.SILENT if reading else RouterState.STARTING
        state = RouterState.DRAINING if pod.leaving else state
        facts = self._contacts[pod.id].router.facts if reading else RouterFacts(ready=pod.ready)
        entities = reading.entities if reading else ()
        return ObservedRouter(pod.id, pod.ordinal, state, entities=entities, facts=facts)

    def _silent(self) -> dict[str, Trouble]:
        """Return the trouble of each router that does not answer although it did, or although its pod is ready."""
        found = {}
        for name, contact in self._contacts.items():
            pod, since = contact.router.pod, contact.silent_since
            if since is not None and pod.node_silent_since:
                text = f"node {pod.node or '?'} does not answer since {pod.node_silent_since}"
                found[name] = Trouble("NodeNotAnswering", text, lasting=False)
            elif since is not None and (contact.reported is not None or pod.ready):
                text = f"the router on node {pod.node or '?'} has not answered the operator since {timestamp(since)}"
                found[name] = Trouble("RouterNotAnswering", text, lasting=False)
        return found


def secret_data(secret: Object) -> dict[str, bytes]:
    """The data of a Secret, decoded."""
    return {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}


def _serves(live: LiveRouter, wanted: tuple[PodView, Tls | None]) -> bool:
    pod, tls = wanted
    return tls is not None and live.serves(pod, tls)
