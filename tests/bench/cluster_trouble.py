"""What trouble in a cluster costs the clients of a mesh, and what the status says meanwhile: scenarios with traffic.

    python -m tests.cluster --name NAME up --chart
    python -m tests.bench.cluster_trouble --name NAME SCENARIO…

Each scenario makes namespaces of its own and leaves the cluster as it was. Scenarios: see `SCENARIOS`. Printed are
times in seconds, what became of the messages, and the conditions of the Router in the order in which they came.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.bench.analytics_cluster import new_namespace
from tests.bench.cluster_watch import Services, Statuses, probes
from tests.cluster import images
from tests.cluster.api import ApiError, Object
from tests.cluster.command import CommandError
from tests.cluster.install import CHART, OPERATOR_NAMESPACE, RELEASE, install_chart, install_crds
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import Mesh, Traffic, resource
from tests.kit.waiting import wait_until
from waymesh_operator.planning.manifests import LEAVING_ANNOTATION

OPERATOR = "app.kubernetes.io/name=waymesh-operator"
HERE = {"name": "mesh"}
LONG_S = 600.0
HEARTBEAT_S = 4.0
"""Of the clients."""


def tell(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def change(space: Namespace, name: str) -> float:
    """Seconds from a new Address to the routers that have it, as its status says."""

    def there() -> bool:
        found = space.get("Address", name)
        return found is not None and condition_status(found, "Programmed") == "True"

    began = time.monotonic()
    space.api.apply(resource("Address", name, routerRef=HERE, prefix=name, distribution="balanced"), space.name)
    wait_until(there, LONG_S, f"Address {name} programmed")
    return time.monotonic() - began


@contextmanager
def loaded(
    cluster: Cluster, name: str, size: int, *receivers: str, closed: str = "", **spec: Any
) -> Iterator[tuple[Mesh, Statuses]]:
    """A mesh with a sender and receivers at work, and all statuses of its Router; at the end nothing may be lost.
    `closed`: a node on which no pod starts that comes after the routers."""
    with new_namespace(cluster, name) as space:
        mesh = Mesh(space).apply(size, **spec)
        mesh.converged(size)
        if closed:
            space.kubectl("cordon", closed)
        traffic = Traffic(space, images.OPERATOR, heartbeat_s=HEARTBEAT_S)
        traffic.receive(*(receivers or ("receiver-a", "receiver-b")))
        traffic.send()
        with Statuses(space) as statuses:
            yield mesh, statuses
        outcome = traffic.end()
        outcome.check(at_least=1)
        sender = outcome.senders["sender"]
        gaps = [report["longest_gap"] for report in (sender, *outcome.receivers.values())]
        tell(
            f"  {sender['accepted']} messages accepted, 0 lost, {outcome.duplicates} came twice after "
            f"{sender['resent']} were sent again; longest pause of a client {max(gaps):.1f} s"
        )
        for line in statuses.lines:
            tell(f"  {line}")


def operators(cluster: Cluster, namespace: str = OPERATOR_NAMESPACE) -> list[Object]:
    """The pods of an operator."""
    return Namespace(cluster, namespace).all("Pod", OPERATOR)


def readiness(cluster: Cluster, namespace: str = OPERATOR_NAMESPACE) -> list[tuple[str, int]]:
    """Of each pod of an operator: whether it is ready, and its restarts."""
    return [
        (condition_status(pod, "Ready") or "", sum(one["restartCount"] for one in pod["status"]["containerStatuses"]))
        for pod in operators(cluster, namespace)
        if "containerStatuses" in pod["status"]
    ]


def two_releases(cluster: Cluster) -> None:
    """A second release of the chart in a namespace of its own, then the first one goes."""
    with loaded(cluster, "two-releases", 2) as (mesh, _):
        space, second = mesh.namespace, Namespace(cluster, "second-release")
        policy = space.get("NetworkPolicy", "mesh") or {}
        words = ["upgrade", "--install", "second", str(CHART), "--create-namespace", "--set", "resyncSeconds=5"]
        second.helm(*words)
        first = space.wait("Router", "mesh", lambda found: condition_status(found, "OtherOperator") == "True", 180)
        tell(f"  second release: {_message(first, 'OtherOperator')}")
        wait_until(lambda: bool(readiness(cluster, second.name)), 180, "the second operator")
        time.sleep(30)  # the time in which two leaders would have changed it many times
        after = space.get("NetworkPolicy", "mesh") or {}
        same = policy["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        tell(f"  NetworkPolicy after 30 s {'unchanged' if same else 'CHANGED'}; second operator (ready, restarts)")
        tell(f"  {readiness(cluster, second.name)}; a change takes {change(space, 'beside'):.2f} s")
        Namespace(cluster, OPERATOR_NAMESPACE).helm("uninstall", RELEASE, "--wait")
        taken = timed(lambda: space.wait("Router", "mesh", lambda it: it["status"]["operator"] == second.name, LONG_S))
        tell(f"  first release uninstalled: the second takes the Router over after {taken:.1f} s")
        tell(f"  a change takes {change(space, 'after'):.2f} s")
        second.helm("uninstall", "second", "--wait")
        cluster.api.delete("Namespace", second.name)
        install_chart(cluster)


def _message(found: Object, kind: str) -> str:
    return next(str(one["message"]) for one in found["status"]["conditions"] if one["type"] == kind)


def deleted_namespace(cluster: Cluster) -> None:
    """One of two watched namespaces is deleted."""
    with loaded(cluster, "stays", 2) as (mesh, _), new_namespace(cluster, "goes") as other:
        install_chart(cluster, "--set", "watch.namespaces={stays,goes}")
        Mesh(other).apply(1).converged(1)
        cluster.api.delete("Namespace", "goes")
        taken = timed(lambda: wait_until(lambda: cluster.api.get("Namespace", "goes") is None, LONG_S, "it is gone"))
        tell(f"  the other namespace is gone after {taken:.1f} s")
        tell(f"  a change takes {change(mesh.namespace, 'after'):.2f} s; operator (ready, restarts)")
        time.sleep(30)
        tell(f"  30 s later {change(mesh.namespace, 'later'):.2f} s; {readiness(cluster)}")
        with suppress(ApiError, CommandError):
            cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "goes"}})
        install_chart(cluster)


def deleted_definition(cluster: Cluster) -> None:
    """The definition of Exchange is deleted, and comes again."""
    with loaded(cluster, "definition", 2) as (mesh, _):
        space = mesh.namespace
        cluster.api.delete("CustomResourceDefinition", "exchanges.waymesh.io")
        gone = lambda: cluster.api.get("CustomResourceDefinition", "exchanges.waymesh.io") is None  # noqa: E731
        wait_until(gone, 180, "the definition gone")
        tell(f"  a change takes {change(space, 'after'):.2f} s")
        time.sleep(30)
        tell(f"  30 s later {change(space, 'later'):.2f} s; operator (ready, restarts) {readiness(cluster)}")
        install_crds(cluster)
        exchange = resource("Exchange", "x", routerRef=HERE, address="x", phase=0, bindings=[])
        exchange["spec"].pop("bindings")
        space.apply(exchange)
        ready = lambda found: bool(found.get("status", {}).get("conditions"))  # noqa: E731
        taken = timed(lambda: space.wait("Exchange", "x", ready, LONG_S, "a status"))
        tell(f"  the definition is back: an Exchange has its status after {taken:.1f} s")


def killed_operator(cluster: Cluster) -> None:
    """The operator's pod is killed after ever longer times while the mesh shrinks from five routers to two."""
    with _shrinking(cluster) as (mesh, _):
        kills, began = 0, time.monotonic()
        while set(mesh.pods()) != {"mesh-0", "mesh-1"} and time.monotonic() < began + LONG_S:
            kills += _kill(cluster)
            time.sleep(2.0 + kills)  # some are killed before they lead; the last ones act
        tell(f"  5 → 2 routers after {time.monotonic() - began:.1f} s, in which {kills} operators were killed")


def killed_at_each_step(cluster: Cluster) -> None:
    """The operator's pod is killed after each step that is seen of it, while the mesh shrinks from five routers to two:
    the mark in the StatefulSet, each router that begins to drain, the smaller StatefulSet."""
    with _shrinking(cluster) as (mesh, services):
        began, known = time.monotonic(), _step(mesh, services)
        while set(mesh.pods()) != {"mesh-0", "mesh-1"} and time.monotonic() < began + LONG_S:
            if (now := _step(mesh, services)) != known:
                known, kills = now, _kill(cluster)
                tell(f"  {time.monotonic() - began:.1f} s: {now}: {kills} killed")
            time.sleep(0.05)
        tell(f"  5 → 2 routers after {time.monotonic() - began:.1f} s")


@contextmanager
def _shrinking(cluster: Cluster) -> Iterator[tuple[Mesh, Services]]:
    """A mesh under load that has just been told to shrink from five routers to two; at the end it has two."""
    with loaded(cluster, "killed", 5, drain={"timeoutSeconds": 20}) as (mesh, _), Services(mesh.namespace) as services:
        before = mesh.lives()
        mesh.scale(2)
        yield mesh, services
        mesh.converged(2)
        same = all(before[name] == life for name, life in mesh.lives().items())
        tell(f"  routers that stay {'untouched' if same else 'RESTARTED'}")
    tell(f"  seconds for which the Service named a router that drains: {services.shown}")


def _kill(cluster: Cluster) -> int:
    """Kill all pods of the operator; returns how many."""
    space = Namespace(cluster, OPERATOR_NAMESPACE)
    return sum(space.delete("Pod", pod["metadata"]["name"], grace_s=0) for pod in operators(cluster))


def _step(mesh: Mesh, services: Services) -> str:
    """How far the mesh has shrunk, as far as it can be seen from outside."""
    found = mesh.namespace.get("StatefulSet", "mesh") or {}
    mark = (found["metadata"].get("annotations") or {}).get(LEAVING_ANNOTATION, "none")
    return f"{found['spec']['replicas']} replicas, leaving from {mark}, drain: {sorted(services.draining)}"


def shrink_amid_obstacle(cluster: Cluster) -> None:
    """kubectl scale from four routers to two while the routers' configuration is too large for a ConfigMap."""
    with (
        loaded(cluster, "obstacle", 4, drain={"timeoutSeconds": 20}) as (mesh, _),
        Services(mesh.namespace) as services,
    ):
        space = mesh.namespace
        for number in range(4):
            space.api.create(_large_policy(number), space.name)  # too large for the annotation of kubectl apply
        found = space.wait("Router", "mesh", lambda it: condition_status(it, "Stalled") == "True", 180)
        tell(f"  {found['status']['obstacles']}")
        before, began = mesh.lives(), time.monotonic()
        mesh.scale(2)
        wait_until(lambda: set(mesh.pods()) == {"mesh-0", "mesh-1"}, LONG_S, "two routers")
        tell(f"  4 → 2 routers after {time.monotonic() - began:.1f} s; a change takes {change(space, 'amid'):.2f} s")
        tell(f"  {mesh.status()['obstacles']}")
        for number in range(4):
            space.delete("VhostPolicy", f"large-{number}")
        tell(f"  without the policies: Ready and Converged after {timed(lambda: mesh.converged(2)):.1f} s")
        same = all(before[name] == life for name, life in mesh.lives().items())
        tell(f"  routers that stay {'untouched' if same else 'RESTARTED'}")
    tell(f"  seconds for which the Service named a router that drains: {services.shown}")


def _large_policy(number: int) -> Object:
    """A VhostPolicy of half a megabyte that cannot be compressed much."""
    chance = random.Random(number)

    def names() -> list[str]:
        return [base64.urlsafe_b64encode(chance.randbytes(750)).decode() for _ in range(64)]

    groups = [{"name": f"group-{k}", "users": [f"user-{k}"], "sources": names(), "targets": names()} for k in range(4)]
    return resource("VhostPolicy", f"large-{number}", routerRef=HERE, hostname=f"large-{number}", groups=groups)


def older_chart(cluster: Cluster) -> None:
    """A chart with older definitions, in which a field is missing, is installed after the present one."""
    with loaded(cluster, "older", 2) as (mesh, _), tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "waymesh"
        shutil.copytree(CHART, chart)
        for path in (chart / "crds").glob("*.yaml"):
            path.write_text(re.sub(r'(waymesh.io/definitions: )"\d+"', r'\1"1"', path.read_text()))
        operator = Namespace(cluster, OPERATOR_NAMESPACE)
        words = ["upgrade", RELEASE, str(chart), "--reset-values", "--wait", "--set", "resyncSeconds=5"]
        taken = timed(lambda: operator.helm(*words))
        found = cluster.api.get("CustomResourceDefinition", "routers.waymesh.io") or {}
        tell(f"  installed in {taken:.1f} s; definitions are still number {found['metadata']['labels']}")
        tell(f"  a change takes {change(mesh.namespace, 'after'):.2f} s")
        install_chart(cluster)


def unreachable(cluster: Cluster, count: int = 100) -> None:
    """Nodes with that many meshes of one router are lost one after the other, beside a healthy mesh."""
    nodes: list[str] = []
    forever = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    try:
        with loaded(cluster, "healthy", 2, pod={"nodeSelector": {"kubernetes.io/hostname": "node1"}}) as (mesh, _):
            with new_namespace(cluster, "lost") as lost:
                tell(f"  a change takes {_several(mesh, 'before')}")
                for number in range(0, count, count // LOST_NODES):
                    nodes.append(cluster.add_node("router"))
                    place = {"nodeSelector": {"kubernetes.io/hostname": nodes[-1]}, "tolerations": [forever]}
                    _fill(lost, range(number, min(count, number + count // LOST_NODES)), place)
                    tell(f"  {_ready(lost)} meshes on {nodes[-1]} Ready; a change {_several(mesh, f'amid-{number}')}")
                    cluster.kill_node(nodes[-1])
                    tell(f"  node killed: a change takes {_several(mesh, f'at-once-{number}')}")
                    wait_until(lambda: not _ready(lost), LONG_S, "the loss noticed")
                tell(f"  {count} meshes lost: {_reasons(lost)}; a change takes {_several(mesh, 'then')}")
                time.sleep(30)
                tell(f"  30 s later {_several(mesh, 'later')}; {_reasons(lost)}")
    finally:
        for node in nodes:
            cluster.remove_node(node)


LOST_NODES, AT_ONCE = 4, 5
"""All routers of a hundred meshes at once are too much for two cores: they start by the handful, and each node is lost
before the next one begins."""


def _fill(space: Namespace, numbers: range, place: Object) -> None:
    """Make meshes of one router until all are Ready."""
    for first in numbers[::AT_ONCE]:
        some = [f"m{number}" for number in range(first, min(numbers.stop, first + AT_ONCE))]
        space.apply([resource("Router", name, size=1, pod=place) for name in some])
        for name in some:
            space.wait("Router", name, lambda found: condition_status(found, "Ready") == "True", LONG_S, "Ready")


def _several(mesh: Mesh, name: str) -> str:
    taken = sorted(change(mesh.namespace, f"{name}-{number}") for number in range(5))
    return f"{taken[2]:.2f} s (at most {taken[-1]:.2f})"


def _ready(space: Namespace) -> int:
    return sum(condition_status(found, "Ready") == "True" for found in space.all("Router"))


def _reasons(space: Namespace) -> dict[str, int]:
    found: dict[str, int] = {}
    for router in space.all("Router"):
        reason = next(one["reason"] for one in router["status"]["conditions"] if one["type"] == "Ready")
        found[reason] = found.get(reason, 0) + 1
    return found


def lost_node(cluster: Cluster) -> None:
    """The node of one of three routers is lost; new clients try the Service all the time."""
    node = cluster.add_node("router")
    try:
        receivers = ("receiver-a", "receiver-b", "receiver-c")
        chosen = {"matchLabels": {"waymesh.io/router": "mesh"}}
        apart = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        spec: dict[str, Any] = {"topologySpreadConstraints": [apart | {"labelSelector": chosen}]}
        with loaded(cluster, "lost-node", 3, *receivers, closed=node, pod=spec) as (mesh, _):
            there = [name for name, pod in mesh.pods().items() if pod["spec"].get("nodeName") == node]
            probe = probes(mesh.namespace, images.OPERATOR, "mesh", 5672)
            with Services(mesh.namespace) as services:
                wait_until(lambda: services.names(there), 180, "the routers in the Service")
                time.sleep(5)
                cluster.kill_node(node)
                began = time.monotonic()
                wait_until(lambda: not services.names(there), LONG_S, "the Service without the lost router")
                tell(f"  lost {there}: out of the Service after {time.monotonic() - began:.1f} s")
                time.sleep(10)
            tell(f"  new connections, 5 a second: {probe()}")
            cluster.remove_node(node)
            for name in there:
                mesh.namespace.delete("Pod", name, grace_s=0)
            tell(f"  node and pods deleted: 3 routers again after {timed(lambda: mesh.converged(3)):.1f} s")
    finally:
        if node in [one.name for one in cluster.nodes]:
            cluster.remove_node(node)


SCENARIOS: dict[str, Callable[[Cluster], None]] = {
    "killed-operator": killed_operator,
    "killed-at-each-step": killed_at_each_step,
    "lost-node": lost_node,
    "deleted-namespace": deleted_namespace,
    "deleted-definition": deleted_definition,
    "shrink-amid-obstacle": shrink_amid_obstacle,
    "older-chart": older_chart,
    "two-releases": two_releases,
    "unreachable": unreachable,
}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Trouble in a cluster, and what a mesh under load makes of it.")
    parser.add_argument("--name", default="trouble", help="a cluster that is up, with the chart")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=list(SCENARIOS))
    asked = parser.parse_args()
    cluster = Cluster(asked.name)
    assert cluster.ready, f"python -m tests.cluster --name {asked.name} up --chart"
    for name in asked.scenarios:
        tell(f"{name}: {SCENARIOS[name].__doc__}")
        SCENARIOS[name](cluster)


if __name__ == "__main__":
    main()
