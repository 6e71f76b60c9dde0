"""The life of the chart in a cluster; what it renders is tested in tests/helm."""

from __future__ import annotations

import pytest

from tests.cluster.command import CommandError
from tests.cluster.install import RELEASE, install_chart
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace

ROUTER = {"apiVersion": "waymesh.io/v1alpha1", "kind": "Router", "metadata": {"name": "mesh"}, "spec": {"size": 2}}
SELECTOR = "waymesh.io/router=mesh"


def test_rights_of_the_operator(operator: Namespace) -> None:
    """What the API server says it may do, in a namespace that is not its own."""

    def may(*words: str) -> bool:
        account = f"--as=system:serviceaccount:{operator.name}:{RELEASE}"
        try:
            return operator.kubectl("auth", "can-i", *words, account, "-n", "default").strip() == "yes"
        except CommandError:
            return False

    assert may("patch", "statefulsets.apps")
    assert may("patch", "routers.waymesh.io", "--subresource=status")
    for words in (
        ("create", "pods", "--subresource=exec"),
        ("delete", "pods"),
        ("patch", "routers.waymesh.io"),
        ("delete", "routers.waymesh.io"),
        ("create", "roles.rbac.authorization.k8s.io"),
        ("patch", "customresourcedefinitions"),
        ("list", "nodes"),
    ):
        assert not may(*words), words


def test_helm_test_sends_messages_through_a_mesh(operator: Namespace) -> None:
    said = operator.helm("test", RELEASE, "--logs", "--timeout", "240s")
    assert said.count("100 messages from one to the other") == 1


def started(space: Namespace) -> dict[str, tuple[str, int]]:
    """Each router pod's identity and restarts."""
    pods = space.all("Pod", SELECTOR)
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in pods
    }


@pytest.fixture
def mesh(operator: Namespace, namespace: Namespace) -> Namespace:
    """A namespace with a converged mesh of two."""
    namespace.apply(ROUTER)
    namespace.wait_condition("Router", "mesh", "Converged")
    return namespace


@pytest.mark.whole_cluster
def test_upgrade_leaves_meshes_alone(cluster: Cluster, mesh: Namespace) -> None:
    before = started(mesh)
    system = install_chart(cluster, "--set", "podAnnotations.try=two", "--set", "routerImage.tag=another")
    system.wait("Deployment", RELEASE, lambda found: found["status"].get("updatedReplicas") == 1)
    # The new operator has looked at the mesh when it has taken up a change.
    mesh.patch("Router", "mesh", {"spec": {"logging": {"level": "debug"}}})
    mesh.wait_condition("Router", "mesh", "Programmed")
    assert started(mesh) == before
    install_chart(cluster)


@pytest.mark.whole_cluster
def test_uninstall_leaves_meshes_running(cluster: Cluster, mesh: Namespace) -> None:
    before = started(mesh)
    system = Namespace(cluster, "waymesh-system")
    system.helm("uninstall", RELEASE, "--wait")
    try:
        system.wait_gone("Deployment", RELEASE)
        assert mesh.get("Router", "mesh") is not None
        mesh.kubectl("delete", "pod", "mesh-1", "--wait=false")
        gone = before["mesh-1"][0]
        mesh.wait("Pod", "mesh-1", lambda pod: pod["metadata"]["uid"] != gone)
        mesh.wait_pods(SELECTOR, 2)
        assert started(mesh)["mesh-0"] == before["mesh-0"]
    finally:
        install_chart(cluster)
    mesh.wait_condition("Router", "mesh", "Converged")
