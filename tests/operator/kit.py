"""A small cluster for a worker: a fake API server, and fake routers that boot from their ConfigMap."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kit.seeds import shared_rows
from tests.operator.fake_kube import FakeKube
from tests.operator.fake_routers import FakeMesh, FakeRouter
from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.kubernetes.context import OperatorSettings
from waymesh_operator.places.kubernetes.worker.environment import Environment, EventRecorder, Pace
from waymesh_operator.places.kubernetes.worker.inventory import Inventory
from waymesh_operator.places.kubernetes.worker.mesh_worker import MeshWorker
from waymesh_operator.places.kubernetes.worker.turns import Threads
from waymesh_operator.resources.crds import load_crds, with_defaults
from waymesh_operator.resources.router import Ref
from waymesh_operator.routers.management import KeyFolder

NAMESPACE = "ns"
MESH = Ref(NAMESPACE, "mesh")
CRDS = load_crds()
QUICK = Pace(resync_s=0.2, busy_s=0.01, busiest_s=0.02, backoff_s=0.05, gather_s=0.001, look_up_s=0.0, jitter=0.1)
PACE = dataclasses.replace(QUICK, patience_s=30.0)


def resource(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A manifest with the defaults that the API server would put in."""
    if kind != "Router":
        spec.setdefault("routerRef", {"name": "mesh"})
    metadata = {"name": name, "namespace": NAMESPACE}
    manifest = {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return dict(with_defaults(CRDS[kind].schema, manifest))


class Lab:
    """The cluster. `settle` lets the StatefulSet controller and the worker take turns until nothing changes."""

    def __init__(self, threads: Threads, keys: KeyFolder) -> None:
        self.kube = FakeKube()
        self.mesh = FakeMesh()
        self.inventory = Inventory(clock=lambda: self.seconds)
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = 0.0
        self.world = Environment(
            self.kube,
            self.inventory,
            EventRecorder(self.kube, lambda: self.time),
            OperatorSettings("router:1"),
            threads,
            keys,
            reach=self.mesh,
            pace=PACE,
            clock=lambda: self.seconds,
            now=lambda: self.time,
            rng=random.Random(1),
        )
        self.kube.watchers.append(self.inventory.see)
        self.worker = MeshWorker(MESH, self.world)
        self._addresses = iter(f"10.0.0.{number}" for number in range(1, 255))

    # --- users ---

    def router(self, size: int = 3, **spec: Any) -> None:
        self.kube.put(resource("Router", "mesh", size=size, **spec))

    def add(self, kind: str, name: str, **spec: Any) -> None:
        self.kube.put(resource(kind, name, **spec))

    def status(self, kind: str = "Router", name: str = "mesh") -> dict[str, Any]:
        return dict(self.kube.objects[kind, NAMESPACE, name].get("status") or {})

    def condition(self, type_: str, kind: str = "Router", name: str = "mesh") -> tuple[str, str]:
        conditions = self.status(kind, name).get("conditions", ())
        found = next((item for item in conditions if item["type"] == type_), {"status": "", "reason": ""})
        return found["status"], found["reason"]

    def live(self, name: str) -> FakeRouter:
        return self.mesh.named(name)

    # --- time ---

    def later(self, seconds: float) -> None:
        self.seconds += seconds
        self.time += timedelta(seconds=seconds)

    async def turn(self) -> str | None:
        """One turn; time goes on far enough for routers to be asked again."""
        self.later(2)
        return await self.worker.turn()

    async def settle(self, turns: int = 40) -> None:
        """Turns of controller and worker until the worker has nothing to do and nothing was written."""
        for _ in range(turns):
            pods = self.control()
            before = len(self.kube.writes())
            result = await self.turn()
            if result in ("done", None) and len(self.kube.writes()) == before and not pods:
                return
        raise AssertionError(f"not settled: {self.status().get('conditions')}")

    async def until(self, condition: Callable[[], bool], turns: int = 60, *, failing: bool = False) -> None:
        """Turns until something holds; `failing`: turns may fail meanwhile."""
        for _ in range(turns):
            if condition():
                return
            self.control()
            with suppress(*([WaymeshError] if failing else [])):
                await self.turn()
        raise AssertionError(f"did not come true: {self.status()}")

    def anew(self) -> None:
        """Another operator takes over: nothing is known but what the cluster holds."""
        self.kube.watchers.clear()
        fresh = Inventory(clock=lambda: self.seconds)
        for body in self.kube.objects.values():
            fresh.see(None, body)
        self.kube.watchers.append(fresh.see)
        self.inventory = fresh
        world = self.world
        self.world = Environment(
            self.kube,
            fresh,
            EventRecorder(self.kube, lambda: self.time),
            world.settings,
            world.threads,
            world.keys,
            reach=self.mesh,
            pace=PACE,
            clock=lambda: self.seconds,
            now=lambda: self.time,
            rng=random.Random(2),
        )
        self.worker = MeshWorker(MESH, self.world)

    # --- controller and kubelet ---

    def control(self) -> bool:
        """Make pods come and go as the StatefulSet says, and mounted Secrets reach the routers; whether any did."""
        sets = self.kube.select("StatefulSet", NAMESPACE)
        wanted = {f"mesh-{k}" for item in sets for k in range(item["spec"]["replicas"])}
        present = {pod["metadata"]["name"] for pod in self.kube.select("Pod", NAMESPACE)}
        for name in sorted(wanted - present):
            self.start_pod(name, sets[0])
        for name in sorted(present - wanted):
            self.stop_pod(name)
        self._mount()
        return wanted != present

    def start_pod(self, name: str, stateful_set: Mapping[str, Any]) -> None:
        address = next(self._addresses)
        config = self.kube.objects["ConfigMap", NAMESPACE, "mesh-seed"]
        router = self.mesh.start(address, name)
        router.seed(shared_rows(lambda name: self.kube.objects.get(("ConfigMap", NAMESPACE, name))))
        router.seed(json.loads(config["data"][f"{name}.json"]))
        owner = {"uid": stateful_set["metadata"]["uid"], "kind": "StatefulSet"}
        labels = stateful_set["spec"]["template"]["metadata"]["labels"]
        self.kube.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]},
                "spec": {},
                "status": {
                    "phase": "Running",
                    "podIP": address,
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{"name": "router", "state": {"running": {}}}],
                },
            }
        )

    def stop_pod(self, name: str) -> None:
        pod = self.kube.objects["Pod", NAMESPACE, name]
        self.mesh.routers.pop(pod["status"]["podIP"], None)
        self.kube.remove("Pod", NAMESPACE, name)

    def _mount(self) -> None:
        secret = self.kube.objects.get(("Secret", NAMESPACE, "mesh-tls"))
        if secret is not None:
            data = {name: base64.b64decode(text) for name, text in secret["data"].items()}
            for router in self.mesh.routers.values():
                router.serving = (data["tls.crt"], data["ca.crt"])


@contextmanager
def lab() -> Iterator[Lab]:
    """A lab with its threads and its folder of keys."""
    keys = KeyFolder()
    with Threads.running() as threads:
        try:
            yield Lab(threads, keys)
        finally:
            keys.close()


def run(story: Callable[[Lab], Any]) -> None:
    """Run a test's coroutine with a lab of its own."""
    with lab() as it:
        asyncio.run(story(it))
