"""Status rows with the addresses of listeners with `expose`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from waymesh_operator.cluster.addresses import door_addresses, node_of, refusals
from waymesh_operator.cluster.exposure import Door, doors
from waymesh_operator.resources.router import Router
from waymesh_operator.routers.observed import RouterState

from .conditions import MeshSnapshot

Row = dict[str, Any]


def exposure_rows(router: Router, seen: MeshSnapshot) -> list[Row]:
    """Return for each listener with `expose` its type, its addresses, and those of single routers."""
    rows: dict[str, Row] = {}
    nodes = _nodes(seen)
    for door in doors(router, router.size):
        addresses = door_addresses(door, seen.observed.objects, nodes)
        if door.router_id:
            rows[door.listener.name].setdefault("routers", []).append({"id": door.router_id, "addresses": addresses})
            continue
        row: Row = {"name": door.listener.name, "exposure": door.expose.type, "addresses": addresses}
        message = _why(door, seen, bool(addresses))
        rows[door.listener.name] = row | ({"message": message} if message else {})
    return list(rows.values())


def merged_rows(*parts: Iterable[Row]) -> list[Row]:
    """Merge rows of the same listener."""
    rows: dict[str, Row] = {}
    for row in (row for part in parts for row in part):
        rows[row["name"]] = rows.get(row["name"], {}) | row
    return list(rows.values())


def _nodes(seen: MeshSnapshot) -> dict[str, str]:
    """Return the addresses of the running routers' nodes."""
    running = (name for name, one in seen.observed.mesh.routers.items() if one.state is RouterState.RUNNING)
    found = {name: node_of(seen.observed.objects.get(("Pod", name), {})) for name in running}
    return {name: host for name, host in found.items() if host}


def _why(door: Door, seen: MeshSnapshot, found: bool) -> str:
    """Return why there is no address; empty if there is one."""
    if found:
        return ""
    if door.route:
        refused = refusals(seen.observed.objects.get((door.route, door.name), {}))
        if refused:
            return f"{door.route} {door.name} is refused: {'; '.join(refused)}"
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
