"""Watching the API server: kopf's handlers, which pass on events; a guard that notices when a watch has ended; and
periodic full lists (audits) in addition to the watches.

kopf is used for watching only. Its create, update and resume handlers store an annotation on objects, its daemons a
finalizer, and neither recovers well from a failed patch; `on.event` needs neither. Events go to the inventory, and
one worker per mesh acts on them.

Audits fill the inventory before the first reconcile. Later they find what watches miss: after a gap, kopf lists again
and reports existing objects, but not those deleted meanwhile. They also detect a watch that has silently stopped: a
change that a list shows must also arrive through the watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import OWNED, PAGE, RESOURCES, ROUTER, SELECTOR, Kind, may_be_absent

from .worker.environment import Environment
from .worker.inventory import Key, key_of, version_of

log = logging.getLogger(__name__)
Sink = Callable[[str | None, Mapping[str, Any]], None]
"""Receives the type of a watch event (None: from the list that precedes a watch) and the object."""
HEARTBEAT = "waymesh-operator-heartbeat"
"""Name of the heartbeat ConfigMap that the operator writes and expects back through a watch."""
IDLE_S = 0.1
"""How long kopf keeps a task, with its last event, for an object of which nothing more comes. When thousands come at
once, tasks that stay for kopf's 5 s take hundreds of MiB."""
BOOKMARKS_S = 70.0
"""A watch without a change or bookmark for this time is restarted (the API server sends a bookmark each minute)."""


WATCHED = (*RESOURCES, *OWNED)
"""All kinds that the operator watches."""


def register(
    registry: kopf.OperatorRegistry,
    sink: Sink,
    login: Callable[[], kopf.ConnectionInfo],
    kinds: Iterable[Kind] = WATCHED,
) -> None:
    """Register handlers that pass every event of these kinds to the sink."""

    @kopf.on.login(registry=registry)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    async def on_event(event: kopf.RawEvent, **_: Any) -> None:
        sink(event["type"], event["object"])

    for kind in kinds:
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(on_event)


class _NothingHandled(kopf.DiffBaseStorage):
    """No copy of what was handled last: only kopf's handlers of changes compare with one, but it makes one for every
    event, which is a third of what an event costs it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """No progress of handlers: those of events have none."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class NoMemories(ResourceMemories):
    """kopf's memory of an object lasts for one event. Handlers of events use none of it, and it takes 0.9 KiB of each
    object for as long as the object exists."""

    async def recall(self, *args: Any, **options: Any) -> ResourceMemory:
        """Return a memory that is not kept."""
        return await super().recall(*args, **{**options, "ephemeral": True})


def settings() -> kopf.OperatorSettings:
    """kopf's settings.

    The API server filters owned objects by label; kopf's `labels=` would filter only after every Secret and Pod of the
    cluster has been sent. Scanning is off: it would need to list namespaces and CRDs.
    """
    made = kopf.OperatorSettings()
    made.posting.level = logging.WARNING
    made.posting.loggers = False
    made.peering.standalone = True
    made.scanning.disabled = True
    made.watching.inactivity_timeout = BOOKMARKS_S
    made.watching.reconnect_backoff = 1.0
    made.watching.chunk_size = PAGE
    made.queueing.idle_timeout = IDLE_S
    made.execution.max_workers = 1
    made.persistence.diffbase_storage, made.persistence.progress_storage = _NothingHandled(), _NoProgress()
    for kind in OWNED:
        made.watching.label_selectors[kind.group, kind.version, kind.plural] = SELECTOR
    return made


WATCH_TASK = "watcher for "
"""Prefix of the names of kopf's watch tasks, in the versions of kopf that pyproject.toml allows."""
START_S = 60.0
"""Seconds within which all watches must start."""


@dataclass(slots=True)
class WatchGuard:
    """Checks the names of the running tasks. `expected` watches must start within START_S of `began` and never end."""

    expected: int
    began: float
    _complete: bool = False

    def check(self, names: Iterable[str], now: float) -> None:
        """Raises WaymeshError when a watch has ended (kopf does not restart it, and does not always stop itself), or
        when the watches cannot be found: an operator that cannot tell whether it watches must not continue."""
        alive = sum(name.startswith(WATCH_TASK) for name in names)
        if alive >= self.expected:
            self._complete = True
        elif self._complete:
            raise WaymeshError("a watch has ended; the operator must be restarted")
        elif now - self.began > START_S:
            raise WaymeshError(
                f"{alive} of {self.expected} watches of kopf run {START_S:.0f} s after the start (tasks named "
                f"'{WATCH_TASK}...'): a resource kind is missing in the cluster, or this version of kopf names its "
                "tasks differently"
            )


AUDIT_EVERY_S, RETRY_S = 120.0, 2.0
LISTED_PER_S = 50
"""A kind of which there are thousands is listed less often: so many objects a second, averaged over the interval."""
PATIENCE_S = 60.0
"""How long a change seen in a list may take to arrive through the watch."""


@dataclass(slots=True)
class Auditor:
    """Audits of all kinds that are watched, in all namespaces (`namespaces` empty) or in some.

    What cannot be listed is left out: a kind without a definition in the cluster, a namespace in which the operator
    has no rights, as after it was deleted. Both are found before the watches begin, and by each audit.
    """

    world: Environment
    namespaces: Sequence[str] = ()
    retry_s: float = RETRY_S
    # Names of the kinds, and the namespaces, that are left out.
    absent: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    # Set when something is to be left out from now on, or can be watched again.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _awaited: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _filled: bool = False
    # When a kind in a namespace is to be listed again.
    _due: dict[tuple[str, str | None], float] = field(default_factory=dict)

    async def fill(self) -> None:
        """List everything, repeated until it succeeds: then the inventory is complete."""
        while True:
            try:
                await self.once()
            except KubeError as error:
                log.warning("cannot list the resources yet: %s", error)
                await asyncio.sleep(self.retry_s)
            else:
                self._filled = True
                self.world.metrics.leave_out(self.absent | self.closed)
                return

    async def run(self) -> None:
        """Audit until cancelled."""
        while True:
            await asyncio.sleep(AUDIT_EVERY_S * (1 + self.world.rng.uniform(-0.2, 0.2)))
            try:
                await self.once(only_due=True)
            except KubeError as error:
                log.warning("audit failed: %s", error)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds to watch, after `fill`."""
        return tuple(kind for kind in WATCHED if kind.kind not in self.absent)

    @property
    def open_namespaces(self) -> tuple[str, ...]:
        """The namespaces to watch, after `fill`; empty: all."""
        return tuple(name for name in self.namespaces if name not in self.closed)

    async def once(self, *, only_due: bool = False) -> None:
        """List all kinds one after the other, or those that are due, and compare. Raises KubeError."""
        for kind in WATCHED:
            for namespace in self.namespaces or (None,):
                if self.changed.is_set():
                    return  # the watches begin again, with lists of their own
                if kind.kind in self.absent or namespace in self.closed:
                    await self._look_for(kind, namespace)
                elif not only_due or self.world.clock() >= self._due.get((kind.kind, namespace), float("-inf")):
                    await self._audit_or_leave_out(kind, namespace)

    async def explains(self) -> bool:
        """Whether something that was watched cannot be listed any more, so that its watch has ended."""
        try:
            await self.once()
        except KubeError as error:
            log.warning("audit failed: %s", error)
        return self.changed.is_set()

    def delivered(self, body: Mapping[str, Any]) -> None:
        """Note that a watch delivered this."""
        awaited = self._awaited.get(key_of(body))
        if awaited is not None and version_of(body) >= awaited[0]:
            del self._awaited[key_of(body)]

    def check(self) -> str | None:
        """Liveness check: return a problem if no watch delivered a change in time."""
        now = self.world.clock()
        for (kind, namespace, name), (_, since) in self._awaited.items():
            if now - since > PATIENCE_S:
                return (
                    f"a change of {kind} {namespace}/{name} has not been delivered by a watch for {now - since:.0f} s"
                )
        return None

    async def _look_for(self, kind: Kind, namespace: str | None) -> None:
        """Set `changed` if what is left out can be listed now."""
        if not self._filled or (kind.kind not in self.absent and kind != ROUTER):
            return
        try:
            await self.world.kube.list(kind, namespace)
        except KubeError as error:
            if not _left_out(kind, namespace, error):
                raise
        else:
            self.changed.set()

    async def _audit_or_leave_out(self, kind: Kind, namespace: str | None) -> None:
        """Audit, or leave the kind or the namespace out if the API server refuses the list twice."""
        try:
            await self._audit(kind, namespace)
        except KubeError as error:
            if not _left_out(kind, namespace, error):
                raise
            if self._filled:
                log.warning("cannot be watched any more: %s", error)
                self.changed.set()
                return
            await asyncio.sleep(self.retry_s)
            await self._leave_out(kind, namespace)

    async def _leave_out(self, kind: Kind, namespace: str | None) -> None:
        try:
            await self._audit(kind, namespace)
        except KubeError as error:
            missing = _left_out(kind, namespace, error)
            if not missing or (missing == namespace and self.open_namespaces == (namespace,)):
                raise  # without its last namespace, there would be nothing to do
            log.warning("goes on without %s: %s", missing, error)
            (self.absent if missing == kind.kind else self.closed).add(missing)

    async def _audit(self, kind: Kind, namespace: str | None) -> None:
        began = self.world.clock()
        selector, kept = "" if kind in RESOURCES else SELECTOR, self.world.inventory.kept
        listed = await self.world.kube.list(kind, namespace, selector, kept=kept)
        self._due[kind.kind, namespace] = began + len(listed) / LISTED_PER_S
        news, lost = self.world.inventory.audit(kind.kind, namespace, listed, began)
        present = {key_of(body) for body in listed}
        for key in [key for key in self._awaited if key[0] == kind.kind and namespace in (None, key[1])]:
            if key not in present:
                del self._awaited[key]
        if not self._filled:
            return
        for body in news:
            key, version = key_of(body), version_of(body)
            if key not in self._awaited or version < self._awaited[key][0]:  # older after a restore of the API server
                self._awaited[key] = (version, began)
        if news or lost:
            log.info("audit of %s: watches missed %d changes and %d deletions", kind.plural, len(news), lost)
            self.world.metrics.missed.labels(kind.kind).inc(len(news) + lost)


def _left_out(kind: Kind, namespace: str | None, error: KubeError) -> str:
    """What is left out after this error of a list: the kind, the namespace, or nothing (empty).

    Without Routers there is nothing to do: their definition is never left out.
    """
    if may_be_absent(kind, error) or (error.status == 404 and kind in RESOURCES and kind != ROUTER):
        return kind.kind
    return namespace if namespace and error.status == 403 else ""
