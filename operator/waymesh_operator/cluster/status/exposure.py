"""Status rows with the addresses of listeners with `expose`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from waymesh_operator.cluster.addresses import exposure_addresses, node_of, refusals
from waymesh_operator.cluster.exposure import Exposure, exposures
from waymesh_operator.resources.router import Router
from waymesh_operator.routers.observed import RouterState

from .conditions import MeshSnapshot

Row = dict[str, Any]


def exposure_rows(router: Router, seen: MeshSnapshot) -> list[Row]:
    """Return for each listener with `expose` its type, its addresses, and those of single routers."""
    rows: dict[str, Row] = {}
    nodes = _nodes(seen)
    for exposure in exposures(router, router.size):
        addresses = exposure_addresses(exposure, seen.observed.objects, nodes)
        if exposure.router_id:
            own = {"id": exposure.router_id, "addresses": addresses}
            rows[exposure.listener.name].setdefault("routers", []).append(own)
            continue
        row: Row = {"name": exposure.listener.name, "exposure": exposure.expose.type, "addresses": addresses}
        message = _why(exposure, seen, bool(addresses))
        rows[exposure.listener.name] = row | ({"message": message} if message else {})
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


def _why(exposure: Exposure, seen: MeshSnapshot, found: bool) -> str:
    """Return why there is no address; empty if there is one."""
    if found:
        return ""
    if exposure.route:
        refused = refusals(seen.observed.objects.get((exposure.route, exposure.name), {}))
        if refused:
            return f"{exposure.route} {exposure.name} is refused: {'; '.join(refused)}"
        return _WAITING.get(exposure.route, "no host name is known")
    return _WAITING.get(exposure.expose.type, "the Service does not exist yet")


_WAITING = {
    "NodePort": "no router runs yet",
    "LoadBalancer": "the load balancer has no address yet",
    "TLSRoute": "the TLSRoute does not exist yet",
    "Ingress": "the Ingress does not exist yet",
    "Route": "the Route has no host yet",
    "TCPRoute": "the address is that of the Gateway; expose.host shows it here",
}
