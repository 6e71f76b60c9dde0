"""The operator process: starts and stops leader election, kopf, audits, heartbeat, workers and health checks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import kopf

from waymesh_operator.errors import KubeError, WaymeshError
from waymesh_operator.kube import (
    SELECTOR,
    TOKEN_FILE,
    Cluster,
    DynamicKube,
    KubeClient,
    find_cluster,
)
from waymesh_operator.places.kubernetes.worker.analytics import AnalyticsWatch
from waymesh_operator.places.kubernetes.worker.environment import Environment, EventRecorder, Pace
from waymesh_operator.places.kubernetes.worker.inventory import Inventory
from waymesh_operator.places.kubernetes.worker.pool import Pool
from waymesh_operator.places.kubernetes.worker.turns import Threads
from waymesh_operator.routers.management import KeyFolder, Reach, SecureReach

from .context import OperatorSettings
from .lease import POD_MARK, Lease
from .monitoring import Health, HealthServer, Heartbeat, Metrics, set_up
from .watches import HEARTBEAT, Auditor, NoMemories, WatchGuard, register, settings

log = logging.getLogger(__name__)
BEAT_S = 20.0
GUARD_S = 1.0
FILL_S, LET_OTHERS_S = 60.0, 6.0
"""How long a leader tries to list the resources before it gives the Lease up, and then leaves it to other replicas."""
END_S = 20.0
"""Within how many seconds kopf ends, and then the process."""
SWITCH_S = 0.0005
"""Thread switch interval. A management request acquires the interpreter lock several times; with Python's default of
5 ms, it would wait 20 ms and more while watches deliver events."""

COLLECT_AT = (50_000, 10, 10)
"""Thresholds of the garbage collector. With Python's default of 700 objects, a third of the time of a turn with
thousands of resources was spent on collections that found nothing."""


M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
LARGE_BYTES = 128 * 1024
"""glibc's first threshold. Unless it is set, it grows with the blocks that are freed."""


def _give_back_memory() -> None:
    """Let the C library return large blocks, such as answers of the API server, to the system as soon as they are
    freed, and keep no memory for each of the threads that talk to routers. Other C libraries stay as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_ARENA_MAX, 1)


def _identity() -> str:
    pod, number = os.environ.get("POD_NAME"), uuid.uuid4().hex[:6]
    return f"{pod}{POD_MARK}{number}" if pod else f"{socket.gethostname()}-{number}"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the operator. Empty `namespaces` means all."""

    settings: OperatorSettings
    namespaces: tuple[str, ...] = ()
    lease_namespace: str = ""
    http_port: int = 8080
    http_host: str = ""
    identity: str = field(default_factory=_identity)
    pace: Pace = field(default_factory=Pace)


class Operator:
    """One replica. `run` returns after `stop`, or after SIGTERM or SIGINT when it runs in the main thread."""

    def __init__(
        self, options: Options, cluster: Cluster, kube: KubeClient, metrics: Metrics, reach: Reach | None = None
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._kube = kube
        self._metrics = metrics
        self._reach = reach or SecureReach()
        self._stopped = asyncio.Event()
        self._filled = False
        self._leads = False
        # The task beside the watches that has ended, and why.
        self._ended: str | None = None
        self._home = options.lease_namespace or cluster.namespace
        self._world: Environment | None = None
        self.beat = Heartbeat()
        self.health = Health(ready={"resources": self._readiness})
        self.server = HealthServer(self.health, metrics)

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    async def run(self) -> None:
        """Become leader, act while leader, and repeat until stopped."""
        await self.server.start(self._options.http_port, self._options.http_host)
        lease = Lease(self._kube, self._home, self._options.identity)
        try:
            while not self._stopped.is_set():
                self._on_signals()
                log.info("waiting to become leader", extra={"identity": self._options.identity})
                if await self._unless_stopped(lease.acquire()) and not await self._lead(lease):
                    await self._unless_stopped(asyncio.sleep(LET_OTHERS_S))
        finally:
            await self.server.stop()

    async def _lead(self, lease: Lease) -> bool:
        """Act with the Lease, and release it. Returns whether the resources could be listed."""
        log.info("became leader", extra={"identity": self._options.identity})
        self._leads = True
        self._metrics.leader.set(1)
        held = asyncio.create_task(lease.hold(), name="lease")
        try:
            return await self._act(held)
        finally:
            self._metrics.leader.set(0)
            self._leads = self._filled = False
            if not held.done():
                held.cancel()
                await lease.release()

    async def _act(self, held: asyncio.Task[None]) -> bool:
        """Run the leader's tasks. Returns when leadership is lost, on `stop`, when kopf ends, or when what can be
        watched has changed: then they begin again. False: the resources could not be listed."""
        inventory = Inventory()
        with contextlib.ExitStack() as stack:
            world = self._world = self._environment(inventory, stack)
            pool = Pool(world)
            inventory.changed = pool.wake
            auditor = Auditor(world, self._options.namespaces)
            self.health.alive = {"heartbeat": self.beat.check, "watches": auditor.check, "workers": pool.check}
            try:
                async with asyncio.timeout(FILL_S):
                    filled = await self._unless_stopped(auditor.fill(), held)
            except TimeoutError:
                log.error("gives the Lease up: the resources could not be listed for %g s", FILL_S)
                return False
            if not filled:
                return False
            self._filled = True
            pool.start()
            analytics = AnalyticsWatch(world, auditor.open_namespaces)
            references = world.references.run(self._kube, inventory, world.pace.look_up_s)
            works = {
                "audits": auditor.run(),
                "analytics": analytics.run(),
                "references": references,
                "heartbeat": self._beat(auditor),
            }
            try:
                await self._beside(works, self._watch(auditor, pool, held))
            finally:
                self.health.alive = {}
                self.beat.forget()
            return True

    async def _beside(self, works: Mapping[str, Coroutine[Any, Any, None]], main: Coroutine[Any, Any, None]) -> None:
        """Run `main`, and beside it works that never end. If one does, the replica is not ready any more, all others
        and `main` are cancelled, and WaymeshError is raised: Kubernetes then starts the process again."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._endless(name, work), name=name) for name, work in works.items()]
                await main
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _endless(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            reason = f"the task {name} has ended"
        except Exception as error:
            log.exception("the task %s has failed", name)
            reason = f"the task {name} has failed: {error}"
        self._ended = reason
        raise WaymeshError(reason)

    def _environment(self, inventory: Inventory, stack: contextlib.ExitStack) -> Environment:
        keys = KeyFolder()
        stack.callback(keys.close)
        threads = stack.enter_context(Threads.running())
        return Environment(
            self._kube,
            inventory,
            EventRecorder(self._kube, lambda: datetime.now(UTC), self._home),
            replace(self._options.settings, operator_namespace=self._cluster.namespace, home=self._home),
            threads,
            keys,
            self._metrics,
            self._reach,
            self._options.pace,
        )

    async def _watch(self, auditor: Auditor, pool: Pool, held: asyncio.Task[None]) -> None:
        """Run kopf; its events go to the inventory. The workers end first: kopf waits for tasks that began after it."""

        def sink(event: str | None, body: Mapping[str, Any]) -> None:
            self._metrics.events_seen.labels(body["kind"]).inc()
            if body["kind"] == "ConfigMap" and body["metadata"]["name"] == HEARTBEAT:
                self.beat.returned((body.get("data") or {}).get("beat", ""))
            auditor.delivered(body)
            auditor.world.inventory.see(event, body)

        registry, stop = kopf.OperatorRegistry(), asyncio.Event()
        register(registry, sink, lambda: login(self._cluster), auditor.kinds)
        namespaces = auditor.open_namespaces
        running = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=settings(),
                memories=NoMemories(),
                standalone=True,
                clusterwide=not namespaces,
                namespaces=namespaces,
                stop_flag=stop,
            ),
            name="kopf",
        )
        stopped = asyncio.create_task(self._stopped.wait())
        guard = asyncio.create_task(self._guard(len(auditor.kinds) * max(1, len(namespaces))))
        changed = asyncio.create_task(auditor.changed.wait())
        try:
            await asyncio.wait({running, held, stopped, guard, changed}, return_when=asyncio.FIRST_COMPLETED)
            error = _error(running) or _error(guard)  # kopf raises when a watch fails for good
            if error is not None and not await auditor.explains():
                raise error
            if auditor.changed.is_set():
                log.warning("begins again, as what it can watch has changed")
            elif running.done():
                self.stop()  # kopf received a signal
        finally:
            for task in (stopped, guard, changed):
                task.cancel()
            await pool.stop()
            stop.set()
            await _end(running)

    async def _guard(self, expected: int) -> None:
        """Raise WaymeshError when watches end or never begin."""
        clock = asyncio.get_running_loop().time
        guard = WatchGuard(expected, clock())
        while True:
            self._on_signals()  # kopf has replaced them by its own handlers
            guard.check([task.get_name() for task in asyncio.all_tasks() if not task.done()], clock())
            await asyncio.sleep(GUARD_S)

    async def _beat(self, auditor: Auditor) -> None:
        """Write the heartbeat regularly, where a watch sees it."""
        namespaces = auditor.open_namespaces
        metadata = {
            "name": HEARTBEAT,
            "namespace": self._home if not namespaces or self._home in namespaces else namespaces[0],
            "labels": {SELECTOR: "", "app.kubernetes.io/managed-by": "waymesh-operator"},
        }
        while True:
            token = f"{self._options.identity}/{uuid.uuid4().hex}"
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"beat": token}}
            try:
                self.beat.written(token)
                await self._kube.apply(manifest)
            except KubeError as error:
                self.beat.failed(token)
                log.warning("cannot write the heartbeat: %s", error)
            await asyncio.sleep(BEAT_S)

    def _readiness(self) -> str | None:
        if self._ended is not None:
            return self._ended
        if not self._leads:
            return None
        if not self._filled or self._world is None:
            return "resources not listed yet"
        left = self._world.others.left
        if left and all(mesh in left for mesh in self._world.inventory.meshes()):
            return f"operators of other namespaces look after all Routers: {', '.join(sorted(set(left.values())))}"
        return None

    def _on_signals(self) -> None:
        """Shut down cleanly on SIGTERM and SIGINT."""
        with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None], *others: asyncio.Task[None]) -> bool:
        """Return whether the work ended before a stop and before the other tasks."""
        task, stopped = asyncio.create_task(work), asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({task, stopped, *others}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            task.cancel()
            stopped.cancel()


def _error(task: asyncio.Task[Any]) -> BaseException | None:
    """The exception with which a task has ended. kopf cancels all tasks that began after it: this says nothing."""
    return task.exception() if task.done() and not task.cancelled() else None


async def _end(kopf_operator: asyncio.Task[None]) -> None:
    """Wait for kopf, which was told to stop. Raises WaymeshError if it does not: then the process must end."""
    await asyncio.wait({kopf_operator}, timeout=END_S)
    kopf_operator.cancel()
    await asyncio.wait({kopf_operator}, timeout=END_S / 4)
    if not kopf_operator.done():
        raise WaymeshError(f"kopf has not ended {END_S:g} s after it was told to")


def login(cluster: Cluster) -> kopf.ConnectionInfo:
    """Give kopf our API server credentials. Inside a cluster, the token is read again each time, because it rotates."""
    configuration = cluster.configuration
    header = str(configuration.api_key.get("BearerToken") or "")
    token = TOKEN_FILE.read_text(encoding="ascii").strip() if cluster.inside else header.partition(" ")[2]
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        default_namespace=cluster.namespace,
    )


def run_operator(options: Options, context: str | None, log_format: str, log_level: str) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code. Raises WaymeshError when there is no cluster."""
    set_up(log_format, log_level)
    _give_back_memory()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AT)
    asyncio.run(_run(options, context))
    return 0


async def _run(options: Options, context: str | None) -> None:
    cluster = await find_cluster(context=context)
    metrics = Metrics()
    kube = DynamicKube(cluster.configuration, metrics.asked)
    log.info(
        "operator of %s",
        ", ".join(options.namespaces) or "all namespaces",
        extra={"server": cluster.configuration.host},
    )
    try:
        await Operator(options, cluster, kube, metrics).run()
    finally:
        _end_process_in(END_S)
        await kube.close()


def _end_process_in(seconds: float) -> None:
    """End this process even if a task does not end when it is cancelled, for which asyncio would wait for ever."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()
