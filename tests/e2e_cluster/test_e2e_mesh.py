"""A new mesh: applied, converged, used by clients in pods, and running without its operator."""

from __future__ import annotations

import time

from tests.cluster.namespace import Namespace
from tests.cluster.paths import say
from tests.e2e_cluster.scene import READY_S, Mesh, Traffic, known_addresses, resource
from tests.kit.waiting import wait_until

MESSAGES = 2000


def test_mesh_from_nothing_carries_messages_between_pods(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    began = time.monotonic()
    mesh = Mesh(namespace).apply(3)
    status = mesh.converged(3)["status"]
    say(f"apply of a Router of size 3 → Converged: {time.monotonic() - began:.1f} s")
    neighbours = {entry["id"]: sorted(entry["neighbors"]) for entry in status["routers"]}
    assert neighbours == {
        "mesh-0": ["mesh-1", "mesh-2"],
        "mesh-1": ["mesh-0", "mesh-2"],
        "mesh-2": ["mesh-0", "mesh-1"],
    }
    traffic = Traffic(namespace, operator_image)
    traffic.receive("receiver-a", "receiver-b")
    traffic.send(count=MESSAGES, rate=1000)
    outcome = traffic.end()
    outcome.check(at_least=MESSAGES)
    assert outcome.duplicates == 0

    table = namespace.kubectl("get", "rtr").splitlines()
    assert table[0].split() == ["NAME", "ROLE", "SIZE", "READY", "PHASE", "CONVERGED", "DRIFT", "AGE"]
    assert table[1].split()[1:6] == ["interior", "3", "3/3", "Ready", "True"]


def test_addresses_are_programmed_on_every_router(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    mesh = Mesh(namespace).apply(3)
    namespace.apply(resource("Address", "news", routerRef={"name": "mesh"}, prefix="news", distribution="multicast"))
    mesh.converged(3)
    namespace.wait_condition("Address", "news", "Programmed")
    traffic = Traffic(namespace, operator_image, "news")
    traffic.receive("receiver-a", "receiver-b", "receiver-c")
    wait_until(lambda: all_known(mesh, "news", 3), READY_S, "each router knows of all receivers")
    traffic.send(count=300)
    outcome = traffic.end()
    assert [report["received"] for report in outcome.receivers.values()] == [300, 300, 300]


def all_known(mesh: Mesh, address: str, consumers: int) -> bool:
    """Whether an address has so many consumers, and each router knows all routers that have some."""
    tables = [known_addresses(mesh.namespace, pod) for pod in sorted(mesh.pods())]
    rows = [table.get(f"M0{address}", {"subscriberCount": 0, "remoteCount": 0}) for table in tables]
    having = sum(row["subscriberCount"] > 0 for row in rows)
    others = [having - (row["subscriberCount"] > 0) for row in rows]
    return sum(row["subscriberCount"] for row in rows) == consumers and [row["remoteCount"] for row in rows] == others


def test_pods_boot_into_the_mesh_without_the_operator(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(3)
    mesh.converged(3)
    operator.kubectl("scale", "deployment/waymesh", "--replicas=0")
    try:
        operator.wait_pods("app.kubernetes.io/name=waymesh-operator", 0)
        before = mesh.lives()
        namespace.delete("Pod", "mesh-1", grace_s=0)
        wait_until(lambda: mesh.lives().get("mesh-1", ("", 0))[0] not in ("", before["mesh-1"][0]), 180, "a new mesh-1")
        pods = namespace.wait_pods("waymesh.io/router=mesh", 3)
        assert len(pods) == 3
    finally:
        operator.kubectl("scale", "deployment/waymesh", "--replicas=1")
        operator.wait_pods("app.kubernetes.io/name=waymesh-operator", 1)
    mesh.converged(3)
    assert {name: life for name, life in mesh.lives().items() if name != "mesh-1"} == {
        name: life for name, life in before.items() if name != "mesh-1"
    }
