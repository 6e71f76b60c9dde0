"""Services, the NetworkPolicy and the PodDisruptionBudget of a Router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_operator.resources.model import Router

from .context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT, OperatorSettings
from .objects import Manifest, make, selector_of

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Label that every namespace has: its name."""


def mesh_service(router: Router) -> Manifest:
    """The names by which routers find each other. They hold for pods that are not ready too: a mesh has to begin."""
    ports = [_port("mesh", MESH_PORT), _port("management", MANAGEMENT_PORT)]
    spec = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector_of(router.ref.name),
        "ports": ports,
    }
    return make(router, "v1", "Service", "-mesh", {"spec": spec})


def client_service(router: Router) -> Manifest | None:
    """Where clients connect; none when the routers listen nowhere."""
    if not router.listeners:
        return None
    ports = [
        _port(listener.name, listener.port) | {"appProtocol": "amqps" if listener.tls else "amqp"}
        for listener in router.listeners
    ]
    spec = {"type": "ClusterIP", "selector": selector_of(router.ref.name), "ports": ports}
    return make(router, "v1", "Service", "", {"spec": spec})


def metrics_service(router: Router) -> Manifest:
    """Where the routers' metrics are read. A router that is not ready is still measured."""
    spec = {
        "type": "ClusterIP",
        "publishNotReadyAddresses": True,
        "selector": selector_of(router.ref.name),
        "ports": [_port("http", HTTP_PORT)],
    }
    return make(router, "v1", "Service", "-metrics", {"spec": spec})


def disruption_budget(router: Router) -> Manifest:
    """Evictions take one router at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": selector_of(router.ref.name)}}
    return make(router, "policy/v1", "PodDisruptionBudget", "", {"spec": spec})


def network_policy(router: Router, settings: OperatorSettings) -> Manifest:
    """Who may connect: routers to routers, the operator to the management, everybody to the rest."""
    own = {"matchLabels": selector_of(router.ref.name)}
    operator = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: settings.operator_namespace}},
        "podSelector": {"matchLabels": dict(settings.operator_labels)},
    }
    management = [{"from": [operator], "ports": [_tcp(MANAGEMENT_PORT)]}] if settings.operator_namespace else []
    rules: list[dict[str, Any]] = [
        {"from": [{"podSelector": own}], "ports": [_tcp(MESH_PORT)]},
        *management,
        {"ports": [_tcp(HTTP_PORT), *(_tcp(listener.port) for listener in router.listeners)]},
    ]
    spec = {"podSelector": own, "policyTypes": ["Ingress"], "ingress": rules}
    return make(router, "networking.k8s.io/v1", "NetworkPolicy", "", {"spec": spec})


def operator_namespace(policy: Mapping[str, Any]) -> str:
    """The operator's namespace as a NetworkPolicy that it made tells it; empty when it does not."""
    for rule in policy.get("spec", {}).get("ingress") or ():
        for peer in rule.get("from") or ():
            labels = (peer.get("namespaceSelector") or {}).get("matchLabels") or {}
            if NAMESPACE_LABEL in labels:
                return str(labels[NAMESPACE_LABEL])
    return ""


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}


def _tcp(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}
