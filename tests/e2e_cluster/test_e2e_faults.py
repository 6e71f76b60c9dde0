"""Pods, nodes, the API server and the operator fail under load; accepted messages still arrive."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.cluster.install import install_chart
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, Traffic
from tests.kit.waiting import wait_until

RECEIVERS = ("receiver-a", "receiver-b")


def loaded_mesh(namespace: Namespace, image: str) -> tuple[Mesh, Traffic]:
    """A converged mesh of three with a sender and receivers at work."""
    mesh = Mesh(namespace).apply(3, drain={"timeoutSeconds": 20})
    mesh.converged(3)
    traffic = Traffic(namespace, image)
    traffic.receive(*RECEIVERS)
    traffic.send()
    return mesh, traffic


def renewed(mesh: Mesh, pod: str, uid: str) -> bool:
    """Whether another pod has taken the place of the one with this uid."""
    return mesh.lives().get(pod, (uid, 0))[0] != uid


def test_killed_router_pod(operator: Namespace, namespace: Namespace, operator_image: str) -> None:
    mesh, traffic = loaded_mesh(namespace, operator_image)
    before = mesh.lives()
    namespace.delete("Pod", "mesh-1", grace_s=0)
    wait_until(lambda: renewed(mesh, "mesh-1", before["mesh-1"][0]), 180, "a new mesh-1")
    mesh.converged(3)
    after = mesh.lives()
    assert {name: after[name] for name in ("mesh-0", "mesh-2")} == {name: before[name] for name in ("mesh-0", "mesh-2")}
    traffic.end().check(at_least=200)


def test_drained_node(operator: Namespace, namespace: Namespace, operator_image: str, second_node: str) -> None:
    mesh, traffic = loaded_mesh(namespace, operator_image)
    there = [name for name, pod in mesh.pods().items() if pod["spec"].get("nodeName") == second_node]
    assert there, "no router on the second node"
    namespace.kubectl("drain", second_node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s",
                      "--pod-selector", "waymesh.io/router=mesh", timeout_s=150)  # fmt: skip
    nodes = {pod["spec"].get("nodeName") for pod in mesh.pods().values()}
    mesh.converged(3)
    assert second_node not in nodes
    traffic.end().check(at_least=200)


@pytest.mark.whole_cluster
def test_api_server_restarted(operator: Namespace, namespace: Namespace, operator_image: str) -> None:
    mesh, traffic = loaded_mesh(namespace, operator_image)
    before = mesh.lives()
    namespace.cluster.restart_component("kube-apiserver")
    mesh.scale(4)
    mesh.converged(4)
    assert {name: mesh.lives()[name] for name in before} == before
    traffic.end().check(at_least=200)


@pytest.mark.whole_cluster
def test_operator_killed_while_it_scales(operator: Namespace, namespace: Namespace, operator_image: str) -> None:
    mesh, traffic = loaded_mesh(namespace, operator_image)
    mesh.scale(2)
    (pod,) = operator.wait_pods("app.kubernetes.io/name=waymesh-operator", 1)
    operator.delete("Pod", pod["metadata"]["name"], grace_s=0)
    wait_until(lambda: set(mesh.pods()) == {"mesh-0", "mesh-1"}, 180, "mesh-2 gone")
    mesh.converged(2)
    traffic.end().check(at_least=200)


@pytest.mark.whole_cluster
def test_upgraded_operator_restarts_no_router(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(2)
    mesh.converged(2)
    before = mesh.lives()
    (old,) = operator.wait_pods("app.kubernetes.io/name=waymesh-operator", 1)
    install_chart(namespace.cluster, "--set", "logging.level=debug")
    operator.wait_gone("Pod", old["metadata"]["name"])
    mesh.scale(3)
    mesh.converged(3)
    assert {name: mesh.lives()[name] for name in before} == before


def test_what_is_changed_or_deleted_behind_the_operator_comes_back(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(1)
    mesh.converged(1)
    namespace.patch("StatefulSet", "mesh", {"spec": {"replicas": 3}})
    namespace.wait("StatefulSet", "mesh", lambda found: found["spec"]["replicas"] == 1, 180, "one replica again")
    for kind, name in (
        ("Service", "mesh"),
        ("Service", "mesh-mesh"),
        ("PodDisruptionBudget", "mesh"),
        ("NetworkPolicy", "mesh"),
        ("ConfigMap", "mesh-seed"),
    ):
        uid = (namespace.get(kind, name) or {})["metadata"]["uid"]
        namespace.delete(kind, name)

        def again(found: Object, uid: str = uid) -> bool:
            return bool(found["metadata"]["uid"] != uid)

        namespace.wait(kind, name, again, 180, "made again")
    mesh.converged(1)
