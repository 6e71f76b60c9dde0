"""Where a run takes place on a real Kubernetes: routers of a Router resource, and clients that come in from outside."""

from __future__ import annotations

import http.client
import random
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos import pods
from tests.chaos.client import Group
from tests.chaos.clients import Clients
from tests.chaos.cluster_schedule import SIZE
from tests.chaos.mesh import DISTRIBUTIONS, ROUTE_CHANGE
from tests.chaos.processes import TERMS, let_pass
from tests.chaos.relay import Relay
from tests.chaos.schedule import Planned
from tests.chaos.workload import PLANS
from tests.cluster.api import ApiError, Object
from tests.cluster.install import OPERATOR_NAMESPACE
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.kit.waiting import wait_until

MESH = "mesh"
PORT = 5672
READY_S = 240.0
REFRESH_S = 0.3
ROLL = "waymesh.io/chaos"
"""An annotation of the pods: another value is another template."""
NODE_PROGRAMS = ("kubelet", "containerd")
UNREACHABLE = (OSError, http.client.HTTPException, ApiError)


@dataclass(frozen=True, slots=True)
class Seen:
    """A router pod, when the API server was last asked. `template`: the value of ROLL."""

    uid: str
    address: str
    ready: bool
    restarts: int
    template: str


class OnCluster:
    """A Router in a namespace of its own, on a cluster that is up and has the operator. Clients come to any router that
    is ready, as through a Service."""

    def __init__(self, cluster: str, seed: int, idle_s: int) -> None:
        self._cluster = Cluster(cluster)
        assert self._cluster.ready, f"python -m tests.cluster --name {cluster} up --chart"
        self._seed, self._idle_s = seed, idle_s
        self._rng = random.Random(f"{seed}/cluster")
        self._space = Namespace(self._cluster, f"chaos-{seed}-{secrets.token_hex(3)}")
        self._relay = Relay()
        self._pods: dict[str, Seen] = {}
        self._router: Object = {}
        self._changes: dict[tuple[str, int], int] = {}
        """Of routes, as the log of each process told so far."""
        self._partitions: dict[Planned, pods.Partition] = {}
        self._paused: dict[Planned, int] = {}
        self._stopped: set[str] = set()
        self._roll = 0
        self._ending = False
        self._clients: Clients | None = None
        self._thread = threading.Thread(target=self._watch, name="pods", daemon=True)

    @property
    def group(self) -> Group:
        """The clients."""
        assert self._clients is not None
        return self._clients.group

    def start(self) -> None:
        """Make the Router and wait for its routers, then start the clients."""
        space = self._space
        space.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.name}})
        space.wait("ServiceAccount", "default", lambda _: True)
        space.apply([_resource("Router", MESH, size=SIZE, drain={"timeoutSeconds": 5}), *map(_address, DISTRIBUTIONS)])
        self._thread.start()
        wait_until(self.are_routes_restored, READY_S, lambda: f"routers: {self._pods} {self._router.get('status')}")
        for name in PLANS:
            self._relay.wire(name, PORT)
        self._lead()
        ports = {name: self._relay.wires[name].port for name in PLANS}
        self._clients = Clients(PLANS, ports, self._seed, self._idle_s)

    def close(self) -> None:
        """End all of it; nobody waits for the namespace."""
        self.heal()
        if self._clients is not None:
            self._clients.close()
        self._ending = True
        if self._thread.is_alive():
            self._thread.join()
        self._relay.close()
        self._space.api.delete("Namespace", self._space.name)

    def finish(self) -> None:
        """Let clients send nothing new."""
        assert self._clients is not None
        self._clients.finish()

    # ---- time
    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        let_pass(seconds)

    def until(self, condition: Callable[[], object], limit_s: float, what: str | Callable[[], str]) -> None:
        """Wait for a condition; AssertionError when it does not hold in time."""
        wait_until(condition, limit_s, what)

    # ---- faults
    def begin(self, fault: Planned) -> None:
        """Bring it about. A pod that is gone, as another fault left it, has none."""
        match fault.kind:
            case "kill" | "pause" | "partition" | "delete" | "evict":
                self._of_pod(fault)
            case "operator":
                for pod in self._operator():
                    pods.send(pods.main_process(pod), signal.SIGKILL)
            case "api-server":
                self._stop("kube-apiserver")
            case "node":
                for name in NODE_PROGRAMS:
                    self._stop(name)
            case "scale":
                self._size(int(fault.amount))
            case "roll":
                self._roll += 1
                change = {"spec": {"pod": {"annotations": {ROLL: str(self._roll)}}}}
                self._patiently(lambda: self._space.patch("Router", MESH, change))
            case "cut":
                self._relay.cut(self._relay.wires[fault.target])
            case "half-open":
                self._relay.halve(self._relay.wires[fault.target], fault.way)
            case kind:
                wire = self._relay.wires[fault.target]
                self._relay.change(wire, fault.way, **{TERMS[kind]: fault.amount or True})

    def _of_pod(self, fault: Planned) -> None:
        pod = self._pods.get(fault.target)
        if pod is None:
            return
        match fault.kind:
            case "delete":
                self._patiently(lambda: self._space.delete("Pod", fault.target, grace_s=0))
            case "evict":
                self._evict(fault.target)
            case "partition":
                others = [other.address for name, other in self._pods.items() if name != fault.target and other.address]
                if others:
                    self._partitions[fault] = pods.Partition(pod.uid, others, fault.way)
            case _:
                try:
                    process = pods.main_process(pod.uid)
                except LookupError:
                    return
                pods.send(process, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
                if fault.kind == "pause":
                    self._paused[fault] = process

    def end(self, fault: Planned) -> None:
        """Take it back."""
        match fault.kind:
            case "pause":
                if fault in self._paused:
                    pods.send(self._paused.pop(fault), signal.SIGCONT)
            case "partition":
                if fault in self._partitions:
                    self._partitions.pop(fault).end()
            case "api-server" | "node":
                self._start_again()
            case "scale":
                self._size(SIZE)
            case "hold" | "delay" | "slow":
                self._relay.change(self._relay.wires[fault.target], "both", **{TERMS[fault.kind]: 0})

    def heal(self) -> None:
        """Take back all that is left."""
        self._relay.heal()
        for fault in [*self._paused, *self._partitions]:
            self.end(fault)
        self._start_again()

    def _stop(self, component: str) -> None:
        self._stopped.add(component)
        self._cluster.stop_component(component)

    def _start_again(self) -> None:
        for component in sorted(self._stopped):
            self._cluster.start_component(component)
        self._stopped.clear()

    def _size(self, size: int) -> None:
        self._patiently(lambda: self._space.patch("Router", MESH, {"spec": {"size": size}}))

    def _evict(self, name: str) -> None:
        """As kubectl does when it drains a node. The budget of the mesh may not allow it now: then nothing happens."""
        path = f"{self._space.api.resource('Pod').path(self._space.name, name)}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            self._space.api.request("POST", path, body)
        except ApiError as error:
            if error.status not in (404, 429):
                raise

    def _operator(self) -> list[str]:
        """The uids of the operator's pods."""
        space = Namespace(self._cluster, OPERATOR_NAMESPACE)
        found: list[str] = []

        def look() -> None:
            found.extend(pod["metadata"]["uid"] for pod in space.all("Pod", "app.kubernetes.io/name=waymesh-operator"))

        self._patiently(look)
        return [uid for uid in found if pods.processes(uid)]

    def _patiently(self, ask: Callable[[], object]) -> None:
        """Ask the API server again until it answers."""

        def answers() -> bool:
            try:
                ask()
            except UNREACHABLE:
                return False
            return True

        wait_until(answers, READY_S, "the API server answers")

    # ---- what is there
    def _watch(self) -> None:
        """Look again and again."""
        while not self._ending:
            try:
                self._router = self._space.get("Router", MESH) or {}
                found = self._space.all("Pod", f"waymesh.io/router={MESH}")
                self._pods = {pod["metadata"]["name"]: _seen(pod) for pod in found}
                self._read_logs()
            except UNREACHABLE:  # the API server is away
                pass
            self._lead()
            time.sleep(REFRESH_S)

    def _lead(self) -> None:
        """Let new connections of clients go to any router that is ready."""
        ready = sorted(pod.address for pod in self._pods.values() if pod.ready and pod.address)
        if ready:
            for wire in list(self._relay.wires.values()):
                wire.host = self._rng.choice(ready)

    def _read_logs(self) -> None:
        for name, pod in self._pods.items():
            try:
                changes = self._space.logs(name).count(ROUTE_CHANGE)
            except UNREACHABLE:  # it has no log yet
                continue
            key = pod.uid, pod.restarts
            self._changes[key] = max(self._changes.get(key, 0), changes)

    def are_wires_whole(self) -> bool:
        """Whether there is one connection through each client's wire."""
        return self._relay.is_whole()

    def are_routes_restored(self) -> bool:
        """Whether all routers are there, with the last template, and see each other."""
        status: Any = self._router.get("status") or {}
        counts = status.get("size"), status.get("ready")
        good = all(condition_status(self._router, name) == "True" for name in ("Ready", "Converged"))
        current = [pod for pod in self._pods.values() if pod.ready and pod.template == str(self._roll or "")]
        return good and counts == (SIZE, SIZE) and len(current) == len(self._pods) == SIZE

    def losses(self) -> Counter[str]:
        """What was lost so far: connections, by their wires, and routes between neighbours."""
        return Counter({"route": sum(self._changes.values())}) + Counter(end.wire for end in self._relay.ends)


def _seen(pod: Object) -> Seen:
    status = pod.get("status", {})
    ready = "deletionTimestamp" not in pod["metadata"] and condition_status(pod, "Ready") == "True"
    restarts = sum(one["restartCount"] for one in status.get("containerStatuses", []))
    template = pod["metadata"].get("annotations", {}).get(ROLL, "")
    return Seen(pod["metadata"]["uid"], status.get("podIP", ""), ready, restarts, template)


def _resource(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": "waymesh.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _address(distribution: str) -> Object:
    words = {"routerRef": {"name": MESH}, "prefix": distribution, "distribution": distribution}
    return _resource("Address", distribution, **words)
