"""Scaling up and down, to zero and back, and a rolling restart, while clients send and receive."""

from __future__ import annotations

import time

from tests.cluster.namespace import Namespace
from tests.cluster.paths import say
from tests.e2e_cluster.scene import Mesh, Traffic
from tests.kit.waiting import wait_until


def test_scale_up_and_down_under_load_loses_nothing(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    mesh = Mesh(namespace).apply(3, drain={"timeoutSeconds": 20})
    mesh.converged(3)
    before = mesh.lives()
    traffic = Traffic(namespace, operator_image)
    traffic.receive("receiver-a", "receiver-b", "receiver-c")
    traffic.send()
    mesh.scale(5)
    mesh.converged(5)
    grown = mesh.lives()
    assert {name: grown[name] for name in before} == before
    traffic.receive("receiver-d", "receiver-e")
    mesh.scale(2)
    mesh.converged(2, deadline_s=180)
    wait_until(lambda: set(mesh.pods()) == {"mesh-0", "mesh-1"}, 180, "mesh-2, mesh-3 and mesh-4 gone")
    left = mesh.lives()
    assert left == {name: before[name] for name in left}
    traffic.end().check(at_least=500)


def test_an_idle_mesh_shrinks_several_routers_at_a_time(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(8)
    mesh.converged(8, deadline_s=240)
    began = time.monotonic()
    mesh.scale(1)
    wait_until(lambda: set(mesh.pods()) == {"mesh-0"}, 180, "mesh-0 alone")
    say(f"8 idle routers → 1: {time.monotonic() - began:.1f} s")
    mesh.converged(1)


def test_scale_to_zero_and_back(operator: Namespace, namespace: Namespace) -> None:
    mesh = Mesh(namespace).apply(2, drain={"timeoutSeconds": 5})
    mesh.converged(2)
    mesh.scale(0)
    wait_until(lambda: not mesh.pods(), 180, "no router left")
    namespace.wait("Router", "mesh", lambda found: found["status"].get("size") == 0, 120, "size 0 in the status")
    mesh.scale(2)
    mesh.converged(2)


def test_roll_of_all_pods_under_load_loses_nothing(
    operator: Namespace, namespace: Namespace, operator_image: str
) -> None:
    mesh = Mesh(namespace).apply(3, drain={"timeoutSeconds": 20})
    mesh.converged(3)
    before = mesh.lives()
    traffic = Traffic(namespace, operator_image)
    traffic.receive("receiver-a", "receiver-b")
    traffic.send()
    namespace.patch("Router", "mesh", {"spec": {"pod": {"labels": {"rolled": "yes"}}}})

    def rolled() -> bool:
        lives = mesh.lives()
        return lives.keys() == before.keys() and all(lives[name] != before[name] for name in before)

    wait_until(rolled, 180, "every pod made anew")
    mesh.converged(3)
    traffic.end().check(at_least=500)
