"""Kubernetes objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]
ROUTER_LABEL = "waymesh.io/router"
MANIFEST_ANNOTATION = "waymesh.io/manifest"


def labels_of(router: str) -> dict[str, str]:
    """Labels of every object and pod of a Router."""
    return {
        "app.kubernetes.io/name": "waymesh-router",
        "app.kubernetes.io/instance": router,
        "app.kubernetes.io/managed-by": "waymesh-operator",
        ROUTER_LABEL: router,
    }


def with_replicas(stateful_set: Manifest, replicas: int) -> Manifest:
    """The same StatefulSet with another number of replicas."""
    raise NotImplementedError
