"""The API of resource metrics: which API server asks metrics-server for it, once a test wants it."""

from __future__ import annotations

import base64

from tests.cluster.api import ApiError
from tests.cluster.components import METRICS_PORT
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import condition_status
from tests.kit.waiting import wait_until

API = "v1beta1.metrics.k8s.io"
SERVICE = {"name": "metrics-server", "namespace": "kube-system"}
DEADLINE_S = 180


def serve_metrics(cluster: Cluster) -> None:
    """Registers metrics-server with the API server, and waits until it has the usage of a node.

    Not for all tests: an API that is registered and does not answer holds up the deletion of namespaces.
    """
    # An ExternalName needs no endpoints: metrics-server runs beside the API server.
    target = {"type": "ExternalName", "externalName": "localhost"}
    cluster.api.apply({"apiVersion": "v1", "kind": "Service", "metadata": SERVICE, "spec": target})
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {**SERVICE, "port": METRICS_PORT},
        "caBundle": base64.b64encode((cluster.folder / "pki" / "ca.crt").read_bytes()).decode(),
    }
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API}}
    cluster.api.apply({**kind, "spec": spec})
    wait_until(lambda: _available(cluster), DEADLINE_S, lambda: f"{API} available: {cluster.trouble()}")
    wait_until(lambda: _measured(cluster), DEADLINE_S, lambda: f"usage of a node: {cluster.trouble()}")


def _available(cluster: Cluster) -> bool:
    found = cluster.api.get("APIService", API)
    return found is not None and condition_status(found, "Available") == "True"


def _measured(cluster: Cluster) -> bool:
    """Two readings are needed for the first usage of a processor."""
    try:
        return bool(cluster.api.request("GET", "/apis/metrics.k8s.io/v1beta1/nodes")["items"])
    except ApiError:
        return False
