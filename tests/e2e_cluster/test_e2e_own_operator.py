"""The operator observed from inside, on a real API server and with real router pods."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tests.cluster.namespace import Namespace
from tests.e2e_cluster.own_operator import Bomb, OwnOperator, let_in, life, own_operator
from tests.e2e_cluster.scene import Mesh, resource
from tests.kit.waiting import wait_until
from waymesh_operator.places.kubernetes.worker import ownership

pytestmark = pytest.mark.usefixtures("alone")


def status_of(space: Namespace, kind: str, name: str) -> dict[str, Any]:
    found = space.get(kind, name)
    return dict((found or {}).get("status") or {})


def condition(space: Namespace, kind: str, name: str, which: str) -> str:
    conditions = status_of(space, kind, name).get("conditions", ())
    return str(next((item["status"] for item in conditions if item["type"] == which), ""))


def test_killed_at_each_request_the_next_operator_goes_on(namespace: Namespace, router_image: str) -> None:
    """Every life of the operator ends with its first change: once before it is made, once after. Work gets done anyway,
    and no pod that is to stay is ever restarted."""
    mesh = Mesh(namespace)
    hits: list[str] = []

    def settled(size: int, generation: int, address: bool) -> bool:
        status = status_of(namespace, "Router", "mesh")
        good = all(condition(namespace, "Router", "mesh", which) == "True" for which in ("Ready", "Converged"))
        counts = (status.get("size"), status.get("ready"), status.get("observedGeneration"))
        done = not address or condition(namespace, "Address", "orders", "Programmed") == "True"
        return good and counts == (size, size, generation) and done

    def lives(size: int, generation: int, address: bool = False) -> None:
        for number in range(200):
            until = lambda: settled(size, generation, address)  # noqa: E731
            hit = asyncio.run(life(namespace, router_image, Bomb(after=number % 2 == 1), until))
            if not hit:
                return
            hits.append(hit)
        raise AssertionError(f"not done after {hits}")

    let_in(namespace)
    mesh.apply(3)
    lives(3, 1)
    before = mesh.lives()
    namespace.apply(resource("Address", "orders", routerRef={"name": "mesh"}, prefix="orders"))
    lives(3, 1, address=True)
    mesh.scale(1)
    lives(1, 2, address=True)
    assert mesh.lives() == {"mesh-0": before["mesh-0"]}
    kinds = {hit.split()[1] for hit in hits if hit.startswith("apply")}
    assert kinds >= {"StatefulSet", "Service", "ConfigMap", "Secret", "PodDisruptionBudget", "NetworkPolicy"}
    assert any("create k8s/" in hit for hit in hits)
    assert any("update router/" in hit or "update mesh-" in hit for hit in hits)


def test_operator_inside_out(namespace: Namespace, router_image: str) -> None:
    """Probes, heartbeat, no trace on what users write, no Secret of others read, silence when nothing is to do."""
    mesh = Mesh(namespace)
    with own_operator(namespace, router_image) as operator:
        wait_until(lambda: operator.probe("/readyz")[0] == 200 and operator.leads(), 120, "ready")
        mesh.apply(2)
        namespace.apply(resource("Address", "orders", routerRef={"name": "mesh"}, prefix="orders"))
        mesh.converged(2)
        wait_until(lambda: condition(namespace, "Address", "orders", "Programmed") == "True", 120, "programmed")
        for number in range(20):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"other-{number}"}}
            namespace.cluster.api.create(secret, namespace.name)
        for kind, name in (("Router", "mesh"), ("Address", "orders")):
            metadata = (namespace.get(kind, name) or {})["metadata"]
            assert "finalizers" not in metadata
            assert not [key for key in metadata.get("annotations", {}) if "kopf" in key or "waymesh" in key]
        wait_until(lambda: _rests(operator), 300, "three resyncs without a request")
        seen = operator.metrics.events_seen.labels("Secret")._value.get()
        assert seen <= 12, "Secrets without our label came through the watch"
        assert operator.probe("/healthz") == (200, "ok\n")
        assert 'waymesh_operator_converged{namespace="' in operator.probe("/metrics")[1]


def test_second_replica_takes_over(namespace: Namespace, router_image: str) -> None:
    mesh = Mesh(namespace)
    with own_operator(namespace, router_image) as first:
        wait_until(first.leads, 120, "the first leads")
        with own_operator(namespace, router_image) as second:
            wait_until(lambda: second.probe("/readyz")[0] == 200, 120, "the second is ready")
            assert not second.leads()
            mesh.apply(1)
            mesh.converged(1)
            first.stop()
            wait_until(second.leads, 180, "the second leads")
            mesh.scale(2)
            mesh.converged(2)


def test_operator_of_another_namespace_leaves_a_mesh_alone_until_the_first_has_ended(
    namespace: Namespace, router_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "STALE_S", 5.0)
    mesh = Mesh(namespace)
    with own_operator(namespace, router_image) as first:
        mesh.apply(1).converged(1)
        before = mesh.lives()
        assert status_of(namespace, "Router", "mesh")["operator"] == namespace.name
        with own_operator(namespace, router_image, home="default") as second:
            text = f"operators of other namespaces look after all Routers: {namespace.name}"
            wait_until(lambda: text in second.probe("/readyz")[1], 120, "the second says so")
            told = lambda: "OtherOperator" in {event["reason"] for event in namespace.events("mesh")}  # noqa: E731
            wait_until(told, 120, "an Event")
            assert second.leads()
            first.stop()
            wait_until(lambda: status_of(namespace, "Router", "mesh")["operator"] == "default", 120, "it takes over")
            wait_until(lambda: second.probe("/readyz")[0] == 200, 120, "the second is ready")
            mesh.scale(2)
            mesh.converged(2)
            assert mesh.lives()["mesh-0"] == before["mesh-0"]


def test_dead_watch_does_not_go_unnoticed(namespace: Namespace, router_image: str) -> None:
    """kopf's watch of one kind ends: the process ends with it, so that it is started anew."""
    with own_operator(namespace, router_image) as operator:
        Mesh(namespace).apply(1).converged(1)

        def kill() -> bool:
            tasks = [task for task in asyncio.all_tasks(operator.loop) if "watcher for addresses" in task.get_name()]
            for task in tasks:
                task.cancel()
            return bool(tasks)

        wait_until(lambda: _in_loop(operator.loop, kill), 180, "a watch to kill")
        wait_until(lambda: operator.ended, 120, "the operator's end")
        assert "a watch has ended" in str(operator.error)


def _in_loop(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    done, result = threading.Event(), []

    def call() -> None:
        result.append(work())
        done.set()

    loop.call_soon_threadsafe(call)
    assert done.wait(60)
    return result[0]


def _rests(operator: OwnOperator) -> bool:
    """Whether three more turns ask the API server for nothing."""
    turns, before = operator.turns(), operator.requests()
    wait_until(lambda: operator.turns() >= turns + 3, 180, "three resyncs")
    return operator.requests() == before


def test_operator_ends_quickly_when_told(namespace: Namespace, router_image: str) -> None:
    with own_operator(namespace, router_image) as operator:
        Mesh(namespace).apply(1).converged(1)
        began = time.monotonic()
        operator.stop()
        assert time.monotonic() - began < 30, "the grace period of a pod"
        assert operator.error is None
        lease = namespace.get("Lease", "waymesh-operator")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""
