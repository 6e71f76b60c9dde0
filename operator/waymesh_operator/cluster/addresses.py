"""Computes the addresses of listeners with `expose` from Services, routes and nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exposure import Exposure

Objects = Mapping[tuple[str, str], Mapping[str, Any]]
"""Live objects by kind and name."""


def address(host: str, port: int) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def exposure_addresses(exposure: Exposure, objects: Objects, nodes: Mapping[str, str]) -> list[str]:
    """Return the addresses of an exposure as `host:port`; empty while they are unknown. `nodes`: by router id."""
    service, port = objects.get(("Service", exposure.name), {}), exposure.listener.port
    if not service:
        return []
    if exposure.route:
        return _of_route(exposure, objects.get((exposure.route, exposure.name), {}))
    if exposure.expose.type == "NodePort":
        ports = [item.get("nodePort") for item in service["spec"].get("ports") or ()]
        # Every node with a router accepts connections, whatever the traffic policy.
        hosts = sorted({host for name, host in nodes.items() if exposure.router_id in ("", name)})
        return [address(host, number) for number in ports if number for host in hosts]
    if exposure.expose.type == "LoadBalancer":
        given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        hosts = [item.get("hostname") or item.get("ip") for item in given]
        return [address(host, port) for host in hosts if host]
    metadata = service["metadata"]
    return [address(f"{metadata['name']}.{metadata['namespace']}.svc", port)]


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the address of a pod's node; empty if it has none yet."""
    return str((pod.get("status") or {}).get("hostIP") or "")


def _of_route(exposure: Exposure, live: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a route that exists and was not refused."""
    if not live or refusals(live):
        return []
    admitted = [item["host"] for item in (live.get("status") or {}).get("ingress") or () if item.get("host")]
    hosts = [exposure.host] if exposure.host else sorted(set(admitted))
    return [address(host, exposure.expose.port) for host in hosts]


def refusals(route: Mapping[str, Any]) -> list[str]:
    """Return the reasons of Gateways or OpenShift routers that refused a route."""
    status = route.get("status") or {}
    return [
        f"{item.get('reason', '')}: {item.get('message', '')}".strip(": ")
        for judge in (*(status.get("parents") or ()), *(status.get("ingress") or ()))
        for item in judge.get("conditions") or ()
        if item.get("type") in ("Accepted", "ResolvedRefs", "Admitted") and item.get("status") == "False"
    ]
