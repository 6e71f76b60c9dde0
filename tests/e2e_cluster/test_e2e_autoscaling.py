"""A HorizontalPodAutoscaler sets the number of edge routers.

The cluster has no metrics server: what acts are the bounds, for which the autoscaler reads and writes the scale
subresource of the Router as it does with metrics.
"""

from __future__ import annotations

from tests.cluster.api import Object
from tests.cluster.namespace import Namespace
from tests.cluster.paths import REPO
from tests.e2e_cluster.scene import Mesh
from tests.kit.waiting import wait_until

SCALE_S = 180.0


def test_the_example_scales_edge_routers(operator: Namespace, namespace: Namespace) -> None:
    namespace.kubectl("apply", "-f", str(REPO / "examples/autoscaling"))
    mesh = Mesh(namespace, "shops")
    mesh.converged(2, deadline_s=SCALE_S)
    wait_until(lambda: len(mesh.pods()) == 2, SCALE_S, "minReplicas of the autoscaler")
    namespace.kubectl("patch", "hpa/shops", "--patch", '{"spec": {"minReplicas": 1, "maxReplicas": 1}}')
    wait_until(lambda: set(mesh.pods()) == {"shops-0"}, SCALE_S, "maxReplicas of the autoscaler")
    found: Object = mesh.converged(1)
    assert not any(row.get("neighbors") for row in found["status"]["routers"])
    assert found["status"]["selector"]
