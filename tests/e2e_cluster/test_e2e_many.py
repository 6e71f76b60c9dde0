"""Many resources: time until they are active, cost at rest, and time to delete them."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.api import Object
from tests.cluster.install import RELEASE
from tests.cluster.namespace import Namespace, condition_status
from tests.cluster.paths import say
from tests.e2e_cluster.scene import Mesh, resource
from tests.kit.waiting import wait_until

MANY = 1000
OPERATOR = "app.kubernetes.io/name=waymesh-operator"
BY_THE_CLOCK = ("Lease", "Namespace")
"""Kinds that the operator asks for or writes whether there are meshes or not."""
HERE = {"name": "mesh"}
CONTAINER = Path(__file__).with_name("container.py")


def links(count: int, **to: Any) -> list[Object]:
    """That many AutoLinks, to a Broker or to whatever container has an id."""
    return [
        resource("AutoLink", f"link-{n}", routerRef=HERE, address=f"queue.{n}", direction="in", **to)
        for n in range(count)
    ]


def container(namespace: Namespace, image: str) -> Object:
    """A container in a pod that takes all links, and the Broker that stands for it, on one router."""
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "container"},
            "data": {CONTAINER.name: CONTAINER.read_text()},
        }
    )
    mounts = [{"name": "script", "mountPath": "/script"}]
    command = ["python", f"/script/{CONTAINER.name}"]
    main = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": command, "volumeMounts": mounts}
    volumes = [{"name": "script", "configMap": {"name": "container"}}]
    namespace.run_pod("container", image, command, containers=[main], volumes=volumes)
    pod = namespace.wait("Pod", "container", lambda found: found["status"].get("phase") == "Running", 180, "running")
    place = {"host": pod["status"]["podIP"], "port": 5672}
    return resource("Broker", "b", routerRef=HERE, endpoints=[place], placement={"routers": "One"})


def addresses(count: int) -> list[Object]:
    """That many Addresses."""
    return [
        resource("Address", f"address-{n}", routerRef=HERE, prefix=f"queue{n}", distribution="balanced")
        for n in range(count)
    ]


HEARTBEAT = ("apply", "ConfigMap")
"""The ConfigMap that has to come back through the watch is written every 20 s."""


class Figures:
    """The operator's metrics as they are now."""

    def __init__(self, operator: Namespace) -> None:
        (pod,) = operator.wait_pods(OPERATOR, 1)
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/metrics", timeout=30) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            self.samples = [sample for family in families for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """Sum over the series with these labels."""
        wanted = labels.items()
        return sum(s.value for s in self.samples if s.name == name and wanted <= s.labels.items())

    def requests(self) -> dict[tuple[str, str], float]:
        """Requests to the API server about meshes: (verb, kind) → count."""
        found: dict[tuple[str, str], float] = {}
        for sample in self.samples:
            kind = sample.labels.get("kind", "")
            if sample.name == "waymesh_operator_api_requests_total" and kind not in BY_THE_CLOCK:
                key = (sample.labels["verb"], kind)
                found[key] = found.get(key, 0) + sample.value
        return found


def resyncs(figures: Figures, namespace: Namespace) -> float:
    """How many turns of the mesh in this namespace have found nothing to do."""
    return figures.sum("waymesh_operator_reconciles_total", namespace=namespace.name, result="done")


def versions(namespace: Namespace) -> dict[tuple[str, str], str]:
    """The versions of all that the operator may write in a namespace."""
    kinds = ("Router", "Address", "AutoLink", "ConfigMap", "StatefulSet", "Service", "Secret", "PodDisruptionBudget")
    return {
        (kind, one["metadata"]["name"]): one["metadata"]["resourceVersion"]
        for kind in kinds
        for one in namespace.all(kind)
    }


def after_resyncs(operator: Namespace, namespace: Namespace, count: int) -> Figures:
    """The figures after that many more turns that found nothing to do."""
    first = resyncs(Figures(operator), namespace)

    def later() -> Figures | None:
        now = Figures(operator)
        return now if resyncs(now, namespace) >= first + count else None

    found = wait_until(later, 180, f"{count} turns with nothing to do")
    assert found is not None
    return found


REST_S = 400.0
"""Namespaces of earlier tests, which nobody waits for, may take minutes to go; the operator writes about them."""


def wait_at_rest(operator: Namespace, namespace: Namespace) -> dict[tuple[str, str], float]:
    """The requests to the API server during two turns that find nothing to do: no writes, and nothing has changed."""
    end = time.monotonic() + REST_S
    while True:
        before = after_resyncs(operator, namespace, 1)
        at_first = versions(namespace)
        after = after_resyncs(operator, namespace, 2)
        at_last = versions(namespace)
        asked = {key: n - before.requests().get(key, 0) for key, n in after.requests().items()}
        asked = {key: n for key, n in asked.items() if n}
        written = {key: n for key, n in asked.items() if key[0] not in ("get", "list") and key != HEARTBEAT}
        if not written and at_first == at_last:
            return asked
        if time.monotonic() > end:
            meshes = [s.labels for s in after.samples if s.name == "waymesh_operator_converged"]
            changed = sorted(key for key in at_first | at_last if at_first.get(key) != at_last.get(key))
            spaces = operator.kubectl("get", "namespaces", "-o", "yaml")
            log = operator.kubectl("logs", f"deployment/{RELEASE}", "--tail=300")
            raise AssertionError(f"not at rest: {written}; changed {changed}; meshes {meshes}\n{spaces}\n{log}")


def test_namespace_deleted_in_the_middle_of_a_roll_goes(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(3, drain={"timeoutSeconds": 10})
    mesh.converged(3)
    namespace.apply(links(200, containerId="broker"))
    before = mesh.lives()
    namespace.patch("Router", "mesh", {"spec": {"pod": {"labels": {"rolled": "yes"}}}})
    wait_until(lambda: mesh.lives() != before, 180, "the roll has begun")
    namespace.api.delete("Namespace", namespace.name)
    began = time.monotonic()
    wait_until(lambda: namespace.api.get("Namespace", namespace.name) is None, 180, "the namespace gone")
    say(f"namespace with a mesh and 200 AutoLinks gone after {time.monotonic() - began:.1f} s")


@pytest.mark.whole_cluster
def test_two_thousand_resources_are_programmed_and_work(
    operator: Namespace, namespace: Namespace, router_image: str
) -> None:
    Mesh(namespace).apply(3).converged(3)
    namespace.apply(container(namespace, router_image))
    began = time.monotonic()
    namespace.apply([*addresses(MANY), *links(MANY, brokerRef={"name": "b"})])
    applied = time.monotonic()

    def programmed() -> bool:
        found = namespace.all("Address")
        return len(found) == MANY and all(condition_status(one, "Programmed") == "True" for one in found)

    wait_until(programmed, 420, f"{MANY} Addresses programmed")
    done = time.monotonic()
    say(f"{2 * MANY} resources: kubectl apply {applied - began:.1f} s, all Addresses programmed {done - began:.1f} s")

    def active() -> bool:
        return all(condition_status(one, "Ready") == "True" for one in namespace.all("AutoLink"))

    wait_until(active, 300, f"{MANY} AutoLinks active")
    say(f"all AutoLinks active {time.monotonic() - began:.1f} s")
    asked = wait_at_rest(operator, namespace)
    memory = Figures(operator).sum("process_resident_memory_bytes") / 2**20
    say(f"two resyncs of a mesh with {2 * MANY} resources: API calls {asked}; operator {memory:.0f} MiB")
