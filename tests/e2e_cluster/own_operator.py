"""The operator in the process of the test, for one namespace: to inspect it, and to kill it."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tests.cluster.install import OPERATOR_NAMESPACE
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.kit.waiting import wait_until
from waymesh_client.channel import Tls
from waymesh_operator.kube import (
    FIELD_MANAGER,
    OWNED,
    RESOURCES,
    SELECTOR,
    DynamicKube,
    Kept,
    Kind,
    KubeClient,
    find_cluster,
)
from waymesh_operator.places.kubernetes.context import MANAGEMENT_PORT, OperatorSettings
from waymesh_operator.places.kubernetes.monitoring import Metrics
from waymesh_operator.places.kubernetes.operator import Operator, Options
from waymesh_operator.places.kubernetes.worker.environment import Environment, EventRecorder, Pace
from waymesh_operator.places.kubernetes.worker.inventory import Inventory
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.turns import Threads
from waymesh_operator.resources.router import Ref
from waymesh_operator.routers.management import KeyFolder, PodClient, Reach, SecureReach

QUICK = Pace(resync_s=2.0, busy_s=0.3, busiest_s=1.0, backoff_s=2.0, look_up_s=1.0, apis_s=1.0)
FOREVER_S = 3600
END_S = 60.0
"""Twice the grace period of a pod: the machine may be busy."""
LIFE_S = 300.0
"""Of an operator that changes nothing any more: it waits for the pods to start."""


def own_settings(image: str) -> OperatorSettings:
    """Those of the chart: the operator that it installed may look after the same mesh."""
    return OperatorSettings(image, "IfNotPresent")


def let_in(space: Namespace) -> None:
    """Lets operators of this process manage the routers of a namespace: policies of Routers allow one in a pod only."""
    machine = {"ipBlock": {"cidr": f"{space.cluster.network.gateway(1)}/32"}}
    spec = {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "waymesh-router"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [machine], "ports": [{"port": MANAGEMENT_PORT, "protocol": "TCP"}]}],
    }
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "operator"}}
    space.apply(policy | {"spec": spec})


# --- a whole operator in a thread ---


class OwnOperator:
    """A replica with kopf and all, in a thread of its own."""

    def __init__(self, space: Namespace, image: str, pace: Pace = QUICK, home: str = "") -> None:
        """`home`: the namespace of its Lease, if it is not that of the meshes."""
        self._space = space
        self._options = Options(
            own_settings(image), (space.name,), home or space.name, http_port=0, http_host="127.0.0.1", pace=pace
        )
        self.metrics = Metrics()
        self.loop = asyncio.new_event_loop()
        self.operator: Operator | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> OwnOperator:
        self._thread.start()
        wait_until(lambda: self.operator is not None and self.operator.server.port > 0, 180, "the health server")
        return self

    def stop(self) -> None:
        """SIGTERM, as it were; returns when it has ended."""
        if self.operator is not None and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.operator.stop)
        self._thread.join(END_S)
        assert not self._thread.is_alive(), "the operator does not end"

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def probe(self, path: str) -> tuple[int, str]:
        """Status and text of its HTTP server."""
        assert self.operator is not None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.operator.server.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def requests(self) -> dict[tuple[str, str], float]:
        """Requests to the API server by (verb, kind), without those of Lease and heartbeat."""
        found: dict[tuple[str, str], float] = {}
        for metric in self.metrics.requests.collect():
            for sample in metric.samples:
                key = (sample.labels["verb"], sample.labels["kind"])
                if sample.name.endswith("_total") and key[1] != "Lease" and key != ("apply", "ConfigMap"):
                    found[key] = found.get(key, 0) + sample.value
        return found

    def turns(self) -> int:
        """How often it has looked at a mesh."""
        samples = [sample for metric in self.metrics.reconciles.collect() for sample in metric.samples]
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def leads(self) -> bool:
        return float(next(iter(self.metrics.leader.collect())).samples[0].value) == 1.0

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._main())
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.error = error

    async def _main(self) -> None:
        cluster = await find_cluster(str(self._space.cluster.kubeconfig))
        kube = DynamicKube(cluster.configuration, self.metrics.asked)
        self.operator = Operator(self._options, cluster, kube, self.metrics)
        try:
            await self.operator.run()
        finally:
            await kube.close()


@contextmanager
def own_operator(space: Namespace, image: str, pace: Pace = QUICK, home: str = "") -> Iterator[OwnOperator]:
    """An operator for as long as the context lasts."""
    let_in(space)
    operator = OwnOperator(space, image, pace, home).start()
    try:
        yield operator
    finally:
        operator.stop()


@contextmanager
def chart_stands_by(cluster: Cluster) -> Iterator[None]:
    """Nobody else acts meanwhile: the operator of the chart, if it is there, loses its Lease and stands by."""
    wait_until(lambda: all("podIP" in pod["status"] for pod in _of_chart(cluster)), 180, "pods of the operator started")
    others = [pod["status"]["podIP"] for pod in _of_chart(cluster)]
    if others:
        _hand_lease_to(cluster, "a test", FOREVER_S)
        wait_until(lambda: all(_stands_by(address) for address in others), 120, "the operator of the chart stands by")
    yield
    if others:
        _hand_lease_to(cluster, "", 1)


def _of_chart(cluster: Cluster) -> list[dict[str, Any]]:
    """The pods of the chart's operator that are to stay."""
    pods = cluster.api.all("Pod", OPERATOR_NAMESPACE, "app.kubernetes.io/name=waymesh-operator")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _hand_lease_to(cluster: Cluster, holder: str, seconds: int) -> None:
    change = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}
    cluster.api.patch("Lease", "waymesh-operator", change, OPERATOR_NAMESPACE)


def _stands_by(address: str) -> bool:
    with urllib.request.urlopen(f"http://{address}:8080/metrics", timeout=30) as answer:
        return "waymesh_operator_leader 0.0" in answer.read().decode()


# --- single turns, killed at will ---


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Bomb:
    """Kills at the first request that changes something: before it is made, or after it was answered."""

    after: bool
    hit: str = ""

    async def around(self, what: str, work: Callable[[], Awaitable[Any]]) -> Any:
        self.hit = what
        if self.after:
            await work()
        raise Killed(what)

    def around_now(self, what: str, work: Callable[[], Any]) -> Any:
        self.hit = what
        if self.after:
            work()
        raise Killed(what)


class MinedKube:
    """A `KubeClient` that goes through to the real one until something is to be changed."""

    def __init__(self, kube: KubeClient, bomb: Bomb | None) -> None:
        self._kube = kube
        self._bomb = bomb

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        return await self._kube.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = "", kept: Kept = None
    ) -> list[dict[str, Any]]:
        return await self._kube.list(kind, namespace, selector, fields=fields, kept=kept)

    async def apply(
        self, manifest: Mapping[str, Any], *, manager: str = FIELD_MANAGER, force: bool = True
    ) -> dict[str, Any]:
        work = partial(self._kube.apply, manifest, manager=manager, force=force)
        if self._bomb is None or manifest["kind"] == "Event":
            return await work()
        done: dict[str, Any] = await self._bomb.around(f"apply {manifest['kind']} {manifest['metadata']['name']}", work)
        return done

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> dict[str, Any]:
        work = partial(self._kube.patch_status, kind, namespace, name, status)
        if self._bomb is None:
            return await work()
        done: dict[str, Any] = await self._bomb.around(f"status of {kind.kind} {name}", work)
        return done

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        work = partial(self._kube.delete, kind, namespace, name)
        await (work() if self._bomb is None else self._bomb.around(f"delete {kind.kind} {name}", work))

    async def document(self, path: str) -> dict[str, Any]:
        return await self._kube.document(path)


class MinedRouter:
    """A `PodClient` likewise."""

    def __init__(self, client: PodClient, address: str, bomb: Bomb) -> None:
        self._client = client
        self._address = address
        self._bomb = bomb

    @property
    def answered_at(self) -> float:
        return self._client.answered_at

    def query(self, entity_type: str | None = None, attributes: Sequence[str] = ()) -> list[dict[str, Any]]:
        return self._client.query(entity_type, attributes)

    def pages(self, entity_type: str | None = None) -> Iterator[list[dict[str, Any]]]:
        return self._client.pages(entity_type)

    def create(self, entity_type: str, attributes: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        work = lambda: self._client.create(entity_type, attributes, name=name)  # noqa: E731
        done: dict[str, Any] = self._bomb.around_now(f"{self._address}: create {name}", work)
        return done

    def update(
        self, attributes: Mapping[str, Any], entity_type: str | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        work = lambda: self._client.update(attributes, entity_type, name=name)  # noqa: E731
        done: dict[str, Any] = self._bomb.around_now(f"{self._address}: update {name}", work)
        return done

    def delete(self, entity_type: str | None = None, *, name: str | None = None) -> None:
        self._bomb.around_now(f"{self._address}: delete {name}", lambda: self._client.delete(entity_type, name=name))

    def close(self) -> None:
        self._client.close()


class MinedReach:
    """A `Reach` likewise."""

    def __init__(self, bomb: Bomb | None) -> None:
        self._bomb = bomb
        self._real: Reach = SecureReach()

    def client(self, address: str, tls: Tls) -> PodClient:
        client = self._real.client(address, tls)
        return client if self._bomb is None else MinedRouter(client, address, self._bomb)

    def tls_view(self, address: str, tls: Tls, probe: Tls | None) -> Any:
        return self._real.tls_view(address, tls, probe)


async def life(space: Namespace, image: str, bomb: Bomb | None, until: Callable[[], bool]) -> str:
    """One operator from its start on: turns until something holds, or the bomb goes off; returns what it hit."""
    cluster = await find_cluster(str(space.cluster.kubeconfig))
    real = DynamicKube(cluster.configuration)
    keys, inventory = KeyFolder(), Inventory()
    try:
        with Threads.running() as threads:
            kube = MinedKube(real, bomb)
            recorder = EventRecorder(kube, lambda: datetime.now(UTC))
            world = Environment(
                kube, inventory, recorder, own_settings(image), threads, keys, reach=MinedReach(bomb), pace=QUICK
            )
            worker = MeshWorker(Ref(space.name, "mesh"), world)
            try:
                async with asyncio.timeout(LIFE_S):
                    while not until():
                        await _look(inventory, real, space.name, world.clock())
                        await worker.turn()
            except Killed as killed:
                return str(killed)
            finally:
                await worker.close()
    finally:
        keys.close()
        await real.close()
    return ""


async def _look(inventory: Inventory, kube: DynamicKube, namespace: str, now: float) -> None:
    for kind in (*RESOURCES, *OWNED):
        listed = await kube.list(kind, namespace, "" if kind in RESOURCES else SELECTOR)
        inventory.audit(kind.kind, namespace, listed, now)
