"""A mesh that comes and goes with a release of the chart, on a cluster that does not know the custom resources yet."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import binaries
from tests.cluster.command import run
from tests.cluster.install import CHART, OPERATOR_NAMESPACE, RELEASE, install_chart
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO
from tests.kit.waiting import wait_until

DEFINITIONS = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in sorted((REPO / "crds").glob("*.yaml"))]
ROUTERS = "routers.waymesh.io"
DRAIN = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/drain"
SETTINGS = (
    "--set", "mesh.enabled=true,mesh.name=mesh,mesh.size=2,mesh.listeners[0].name=amqp,mesh.listeners[0].port=5672",
    "--set", "addresses[0].name=orders,addresses[0].prefix=orders,addresses[0].distribution=balanced",
)  # fmt: skip


def remove_definitions(cluster: Cluster) -> None:
    """Returns when the cluster knows none of the custom resources."""
    for name in DEFINITIONS:
        cluster.api.delete("CustomResourceDefinition", name)

    def left() -> list[str]:
        return [name for name in DEFINITIONS if cluster.api.get("CustomResourceDefinition", name) is not None]

    wait_until(lambda: not left(), 120, lambda: f"definitions gone; left: {left()}")


@pytest.fixture
def space(cluster: Cluster, router_image: str, operator_image: str) -> Iterator[Namespace]:
    """A namespace that does not exist yet, in a cluster without operator and definitions; the cluster is so afterwards.
    A release that was there before comes back."""
    system = Namespace(cluster, OPERATOR_NAMESPACE)
    there = RELEASE in system.helm("list", "--short").split()
    if there:
        system.helm("uninstall", RELEASE, "--wait")
    remove_definitions(cluster)
    found = Namespace(cluster, "chart-mesh")
    yield found
    found.helm("uninstall", "mesh", "--ignore-not-found")
    cluster.api.delete("Namespace", found.name)
    remove_definitions(cluster)
    if there:
        install_chart(cluster)


def run_notes(space: Namespace, notes: str) -> list[str]:
    """Runs the kubectl commands of NOTES.txt as a user types them; those commands."""
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  kubectl ")]
    path = os.pathsep.join([str(binaries.kubernetes()), str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in commands:
        words = shlex.split(command, comments=True)
        run("env", f"PATH={path}", f"KUBECONFIG={space.cluster.kubeconfig}", *words, timeout_s=240)
    return commands


def started(space: Namespace) -> dict[str, str]:
    """The identity of each router pod."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.all("Pod", "waymesh.io/router=mesh")}


def left_in(space: Namespace) -> list[str]:
    """What a namespace has that neither Kubernetes put there nor the operator for itself."""
    kinds = ("Pod", "Service", "StatefulSet", "Deployment", "ConfigMap", "Secret", "ServiceAccount", "Role",
             "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim", "Router", "Address", "Job")  # fmt: skip
    found = [f"{kind}/{resource['metadata']['name']}" for kind in kinds for resource in space.all(kind)]
    others = ("ConfigMap/kube-root-ca.crt", "ServiceAccount/default", "ConfigMap/waymesh-operator-heartbeat")
    return [name for name in found if name not in others]


@pytest.mark.empty_cluster
def test_a_release_brings_definitions_operator_and_mesh_and_takes_its_mesh_along(space: Namespace) -> None:
    cluster = space.cluster
    notes = space.helm("install", "mesh", str(CHART), "--create-namespace", "--wait", *SETTINGS)
    space.wait_condition("Router", "mesh", "Ready")
    space.wait_condition("Address", "orders", "Ready")
    assert any("wait router/mesh" in command for command in run_notes(space, notes))
    pods = started(space)
    assert sorted(pods) == ["mesh-0", "mesh-1"]

    # The definitions are the chart's, so an upgrade has nothing to do with them; when one differs, it is replaced.
    upgrade = ["upgrade", "mesh", str(CHART), "--reuse-values"]
    assert "update_definitions.py" not in space.helm(*upgrade, "--dry-run=server")
    cluster.api.patch("CustomResourceDefinition", ROUTERS, [{"op": "remove", "path": DRAIN}])
    space.helm(*upgrade, "--set", "mesh.drain.timeoutSeconds=31", "--wait")
    live = cluster.api.get("CustomResourceDefinition", ROUTERS)
    assert live is not None
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "drain" in schema["properties"]["spec"]["properties"]
    router = space.get("Router", "mesh")
    assert router is not None
    assert router["spec"]["drain"]["timeoutSeconds"] == 31
    assert "update_definitions.py" not in space.helm(*upgrade, "--dry-run=server")
    assert cluster.api.get("ClusterRole", "mesh-waymesh-definitions") is None

    space.helm("uninstall", "mesh", "--wait")
    wait_until(lambda: not left_in(space), 180, lambda: f"nothing left of the release: {left_in(space)}")
    assert all(cluster.api.get("CustomResourceDefinition", name) for name in DEFINITIONS)
    cluster.api.delete("Namespace", space.name)
    wait_until(lambda: cluster.api.get("Namespace", space.name) is None, 120, "the namespace gone")
