"""`http` of a Router's listener as a typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Http:
    """Clients connect by AMQP over WebSocket."""

    # Origins of web pages whose scripts may connect, in addition to the listener's origin.
    allowed_origins: tuple[str, ...] = ()
    # Whether /healthz and /readyz are answered.
    healthz: bool = False


def parse_http(spec: Mapping[str, Any]) -> Http:
    """The value of a validated `http`."""
    return Http(tuple(spec.get("allowedOrigins", ())), spec["healthz"])


def http_attributes(http: Http | None) -> dict[str, Any]:
    """Return the attributes of the router's listener. Metrics stay on their own port, which clients do not need to
    reach."""
    if http is None:
        return dict.fromkeys(("http", "websockets", "metrics", "healthz", "allowedOrigins"))
    return {
        "http": True,
        "websockets": True,
        "metrics": False,
        "healthz": http.healthz,
        "allowedOrigins": " ".join(http.allowed_origins) or None,
    }


def scheme_of(http: Http | None, *, tls: bool) -> str:
    """The scheme of a listener's URLs."""
    return ("amqp" if http is None else "ws") + ("s" if tls else "")


def app_protocol(http: Http | None, *, tls: bool) -> str:
    """Return the appProtocol of a listener's port, with the Kubernetes names for WebSocket."""
    names = ("amqp", "amqps") if http is None else ("kubernetes.io/ws", "kubernetes.io/wss")
    return names[tls]
