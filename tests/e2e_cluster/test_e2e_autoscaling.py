"""The number of edge routers: by `kubectl scale`, and by a HorizontalPodAutoscaler that looks at their CPU time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.api import Object
from tests.cluster.metrics import serve_metrics
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO, say
from tests.e2e_cluster.scene import Mesh
from tests.kit.waiting import wait_until

EXAMPLE = REPO / "examples/autoscaling"
CLIENTS = Path(__file__).with_name("connecting.py")
SCALE_S = 180.0
REQUEST = "50m"
VISITS = "150"
"""Connections a second: they take far more than what is requested, an idle router far less."""


def example(name: str) -> dict[str, Any]:
    """A manifest of the example."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / name).read_text())
    return found


def small_router() -> dict[str, Any]:
    """That of the example; three with its CPU time would hardly fit on a node of two processors."""
    found = example("router.yaml")
    found["spec"]["pod"]["resources"]["requests"]["cpu"] = REQUEST
    return found


@pytest.mark.whole_cluster
def test_the_autoscaler_follows_the_load(operator: Namespace, namespace: Namespace, operator_image: str) -> None:
    serve_metrics(namespace.cluster)
    autoscaler = example("hpa.yaml")
    at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    autoscaler["spec"] |= {"minReplicas": 1, "maxReplicas": 2, "behavior": at_once}
    namespace.apply([small_router(), autoscaler])
    mesh = Mesh(namespace, "shops")
    mesh.converged(1)
    began = time.monotonic()
    namespace.run_pod("clients", operator_image, ["python", "-c", CLIENTS.read_text(), "shops", "5672", VISITS])
    wait_until(lambda: len(mesh.pods()) == 2, SCALE_S, lambda: f"a router for the load\n{seen(namespace)}")
    added = time.monotonic()
    mesh.converged(2)
    say(f"load → router added in {added - began:.1f} s, ready in {time.monotonic() - began:.1f} s: {seen(namespace)}")
    assert "visits" in namespace.logs("clients")
    namespace.delete("Pod", "clients")
    ended = time.monotonic()
    wait_until(lambda: set(mesh.pods()) == {"shops-0"}, SCALE_S, lambda: f"one router again\n{seen(namespace)}")
    say(f"end of the load → one router in {time.monotonic() - ended:.1f} s")


def seen(namespace: Namespace) -> str:
    """What the autoscaler measures and does."""
    return str((namespace.get("HorizontalPodAutoscaler", "shops") or {}).get("status"))


def test_edge_routers_scale_like_interior_ones(operator: Namespace, namespace: Namespace) -> None:
    namespace.apply(small_router())
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
