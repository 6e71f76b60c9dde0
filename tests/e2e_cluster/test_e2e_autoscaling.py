"""The number of edge routers: by `kubectl scale`, and by a HorizontalPodAutoscaler that looks at their CPU time."""

from __future__ import annotations

import time
from typing import Any

import yaml

from tests.cluster.api import Object
from tests.cluster.metrics import serve_metrics
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO, say
from tests.e2e_cluster.scene import Mesh, Traffic
from tests.kit.waiting import wait_until

EXAMPLE = REPO / "examples/autoscaling"
SCALE_S = 180.0
REQUEST = "60m"
"""Of CPU time: an idle router uses some ten, one with the test's load well over a hundred."""


def example(name: str) -> dict[str, Any]:
    """A manifest of the example."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / name).read_text())
    return found


def test_the_autoscaler_follows_the_load(operator: Namespace, namespace: Namespace, operator_image: str) -> None:
    serve_metrics(namespace.cluster)
    router, autoscaler = example("router.yaml"), example("hpa.yaml")
    router["spec"]["pod"]["resources"]["requests"]["cpu"] = REQUEST
    autoscaler["spec"] |= {"minReplicas": 1, "maxReplicas": 2, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
    namespace.apply([router, autoscaler])
    mesh = Mesh(namespace, "shops")
    mesh.converged(1)
    traffic = Traffic(namespace, operator_image, host="shops")
    traffic.receive("receiver")
    began = time.monotonic()
    traffic.send(rate=2000)
    wait_until(lambda: len(mesh.pods()) == 2, SCALE_S, lambda: f"a router for the load\n{seen(namespace)}")
    added = time.monotonic()
    mesh.converged(2)
    say(f"load → router added in {added - began:.1f} s, ready in {time.monotonic() - began:.1f} s: {seen(namespace)}")
    traffic.end().check(at_least=500)
    ended = time.monotonic()
    wait_until(lambda: set(mesh.pods()) == {"shops-0"}, SCALE_S, lambda: f"one router again\n{seen(namespace)}")
    say(f"end of the load → one router in {time.monotonic() - ended:.1f} s")


def seen(namespace: Namespace) -> str:
    """What the autoscaler measures and does."""
    return str((namespace.get("HorizontalPodAutoscaler", "shops") or {}).get("status"))


def test_edge_routers_scale_like_interior_ones(operator: Namespace, namespace: Namespace) -> None:
    namespace.apply(example("router.yaml"))
    mesh = Mesh(namespace, "shops")
    mesh.converged(1)
    before = mesh.lives()
    mesh.scale(3)
    found: Object = mesh.converged(3, deadline_s=SCALE_S)
    assert not any(row.get("neighbors") for row in found["status"]["routers"])
    assert found["status"]["selector"]
    mesh.scale(1)
    wait_until(lambda: set(mesh.pods()) == {"shops-0"}, SCALE_S, "one router again")
    assert mesh.lives() == before
