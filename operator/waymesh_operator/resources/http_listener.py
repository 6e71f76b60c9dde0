"""What a listener says about HTTP: `http` of a Router's listener as a typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Http:
    """Clients connect by AMQP over WebSocket."""

    # Of web pages whose scripts may connect, besides the listener's own.
    allowed_origins: tuple[str, ...] = ()
    # Whether /healthz and /readyz are answered.
    healthz: bool = False


def parse_http(spec: Mapping[str, Any]) -> Http:
    """The value of a validated `http`."""
    return Http(tuple(spec.get("allowedOrigins", ())), spec["healthz"])


def http_attributes(http: Http | None) -> dict[str, Any]:
    """The attributes of the router's listener. Its metrics stay at the port for them, which clients need not reach."""
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
    """What a Service says of a listener's port, with the names of Kubernetes for WebSocket."""
    names = ("amqp", "amqps") if http is None else ("kubernetes.io/ws", "kubernetes.io/wss")
    return names[tls]
