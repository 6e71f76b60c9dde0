"""Where clients reach the listeners with `expose`: rows of the status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_operator.cluster.exposure import Door, doors
from waymesh_operator.resources.router import Router
from waymesh_operator.routers.observed import RouterState

from .conditions import MeshSnapshot

Row = dict[str, Any]


def exposure_rows(router: Router, seen: MeshSnapshot) -> list[Row]:
    """Of each listener with `expose`: its type, its addresses, and those of single routers."""
    rows: dict[str, Row] = {}
    for door in doors(router, router.size):
        addresses = _addresses(door, seen)
        if door.router_id:
            rows[door.listener.name].setdefault("routers", []).append({"id": door.router_id, "addresses": addresses})
            continue
        row: Row = {"name": door.listener.name, "exposure": door.expose.type, "addresses": addresses}
        message = _why(door, seen, bool(addresses))
        rows[door.listener.name] = row | ({"message": message} if message else {})
    return list(rows.values())


def merged_rows(*parts: Iterable[Row]) -> list[Row]:
    """Rows about the same listener as one."""
    rows: dict[str, Row] = {}
    for row in (row for part in parts for row in part):
        rows[row["name"]] = rows.get(row["name"], {}) | row
    return list(rows.values())


def _object(kind: str, door: Door, seen: MeshSnapshot) -> Mapping[str, Any]:
    return seen.observed.objects.get((kind, door.name), {})


def _addresses(door: Door, seen: MeshSnapshot) -> list[str]:
    service, port = _object("Service", door, seen), door.listener.port
    if not service:
        return []
    if door.route:
        return _of_route(door, _object(door.route, door, seen))
    if door.expose.type == "NodePort":
        ports = [item.get("nodePort") for item in service["spec"].get("ports") or ()]
        return [_address(host, number) for number in ports if number for host in _nodes(door, seen)]
    if door.expose.type == "LoadBalancer":
        given = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        hosts = [item.get("hostname") or item.get("ip") for item in given]
        return [_address(host, port) for host in hosts if host]
    metadata = service["metadata"]
    return [_address(f"{metadata['name']}.{metadata['namespace']}.svc", port)]


def _of_route(door: Door, live: Mapping[str, Any]) -> list[str]:
    """A route that is there and that nobody has refused."""
    if not live or _refusals(live):
        return []
    admitted = [item["host"] for item in (live.get("status") or {}).get("ingress") or () if item.get("host")]
    hosts = [door.host] if door.host else sorted(set(admitted))
    return [_address(host, door.expose.port) for host in hosts]


def _nodes(door: Door, seen: MeshSnapshot) -> list[str]:
    """Addresses of the nodes that run routers: every one of them takes connections, whatever the traffic policy."""
    hosts = set()
    for name, router in seen.observed.mesh.routers.items():
        pod = seen.observed.objects.get(("Pod", name), {})
        host = (pod.get("status") or {}).get("hostIP")
        if host and router.state is RouterState.RUNNING and door.router_id in ("", name):
            hosts.add(str(host))
    return sorted(hosts)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refusals(route: Mapping[str, Any]) -> list[str]:
    """What Gateways or routers of OpenShift say that have not taken a route."""
    status = route.get("status") or {}
    return [
        f"{item.get('reason', '')}: {item.get('message', '')}".strip(": ")
        for judge in (*(status.get("parents") or ()), *(status.get("ingress") or ()))
        for item in judge.get("conditions") or ()
        if item.get("type") in ("Accepted", "ResolvedRefs", "Admitted") and item.get("status") == "False"
    ]


def _why(door: Door, seen: MeshSnapshot, found: bool) -> str:
    """Why there is no address; empty if there is one."""
    if found:
        return ""
    if door.route:
        refusals = _refusals(_object(door.route, door, seen))
        if refusals:
            return f"{door.route} {door.name} is refused: {'; '.join(refusals)}"
        return _WAITING.get(door.route, "no host name is known")
    return _WAITING.get(door.expose.type, "the Service does not exist yet")


_WAITING = {
    "NodePort": "no router runs yet",
    "LoadBalancer": "the load balancer has no address yet",
    "TLSRoute": "the TLSRoute does not exist yet",
    "Ingress": "the Ingress does not exist yet",
    "Route": "the Route has no host yet",
    "TCPRoute": "the address is that of the Gateway; expose.host shows it here",
}
