"""`expose` of a Router's listener as a typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_PORT = 443
"""The usual TLS port of Gateways, OpenShift and ingress controllers."""


@dataclass(frozen=True, slots=True)
class GatewayRef:
    """A Gateway of Gateway API, or one of its listeners."""

    name: str
    # Empty: that of the Router.
    namespace: str = ""
    # Empty: all that match.
    section: str = ""


@dataclass(frozen=True, slots=True)
class Expose:
    """How a listener is exposed to clients, inside or outside the cluster."""

    # ClusterIP, NodePort, LoadBalancer, Gateway, Route or Ingress
    type: str = "ClusterIP"
    # Empty: none, or for a Route one that OpenShift chooses.
    host: str = ""
    port: int = DEFAULT_PORT
    per_router: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    # 0: one that Kubernetes chooses.
    node_port: int = 0
    # Fields of the Service by name, those that are set.
    service: tuple[tuple[str, Any], ...] = ()
    # Empty: the default of the cluster.
    ingress_class: str = ""
    gateway: GatewayRef | None = None

    @property
    def outside(self) -> bool:
        """Whether it is meant for clients outside of the cluster."""
        return self.type != "ClusterIP"

    def host_of(self, router: str) -> str:
        """The host name of one router, by its id."""
        return f"{router}.{self.host}"


_OF_SERVICE = ("externalTrafficPolicy", "loadBalancerClass", "loadBalancerSourceRanges")


def parse_expose(spec: Mapping[str, Any]) -> Expose:
    """The value of a validated `expose`. Its `allowUnprotected` is only used for validation."""
    return Expose(
        type=spec["type"],
        host=spec.get("host", ""),
        port=spec.get("port", DEFAULT_PORT),
        per_router=spec["perRouter"],
        annotations=spec.get("annotations", {}),
        node_port=spec.get("nodePort", 0),
        service=tuple((name, spec[name]) for name in _OF_SERVICE if name in spec),
        ingress_class=spec.get("ingressClassName", ""),
        gateway=_gateway(spec["gatewayRef"]) if "gatewayRef" in spec else None,
    )


def _gateway(spec: Mapping[str, Any]) -> GatewayRef:
    return GatewayRef(spec["name"], spec.get("namespace", ""), spec.get("sectionName", ""))
