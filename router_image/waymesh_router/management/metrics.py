"""The metrics of a router in Prometheus' text format. The names `qdr_*` are those of qdrouterd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.management.statistics import router_statistics
from waymesh_router.management.view import RouterView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_GAUGES = {
    "qdr_connections_total": "connectionCount",
    "qdr_links_total": "linkCount",
    "qdr_addresses_total": "addrCount",
    "qdr_routers_total": "nodeCount",
    "qdr_link_routes_total": "linkRouteCount",
    "qdr_auto_links_total": "autoLinkCount",
    "qdr_deliveries_stuck_total": "deliveriesStuck",
    "qdr_links_blocked_total": "linksBlocked",
    "waymesh_unsettled_deliveries": "unsettledDeliveries",
    "waymesh_uptime_seconds": "uptimeSeconds",
    "waymesh_memory_bytes": "memoryUsage",
}
_COUNTERS = {
    "qdr_presettled_deliveries_total": "presettledDeliveries",
    "qdr_dropped_presettled_deliveries_total": "droppedPresettledDeliveries",
    "qdr_accepted_deliveries_total": "acceptedDeliveries",
    "qdr_released_deliveries_total": "releasedDeliveries",
    "qdr_rejected_deliveries_total": "rejectedDeliveries",
    "qdr_modified_deliveries_total": "modifiedDeliveries",
    "qdr_deliveries_ingress_total": "deliveriesIngress",
    "qdr_deliveries_egress_total": "deliveriesEgress",
    "qdr_deliveries_transit_total": "deliveriesTransit",
    "qdr_deliveries_ingress_route_container_total": "deliveriesIngressRouteContainer",
    "qdr_deliveries_egress_route_container_total": "deliveriesEgressRouteContainer",
    "qdr_deliveries_delayed_1sec_total": "deliveriesDelayed1Sec",
    "qdr_deliveries_delayed_10sec_total": "deliveriesDelayed10Sec",
    "qdr_deliveries_redirected_to_fallback_total": "deliveriesRedirectedToFallback",
}
_OUTCOMES = {
    "accepted": "acceptedDeliveries",
    "rejected": "rejectedDeliveries",
    "released": "releasedDeliveries",
    "modified": "modifiedDeliveries",
    "presettled": "presettledDeliveries",
    "dropped": "droppedPresettledDeliveries",
}


def metrics_page(view: RouterView, now: float) -> str:
    """All metrics of a router; deliveries are counted since its start."""
    values = router_statistics(view, now)
    lines: list[str] = []
    labels = {"id": view.core.router_id, "mode": view.attrs["mode"], "version": view.version}
    _family(lines, "waymesh_router_info", "gauge", {_labels(labels): 1})
    for kind, names in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for name, attribute in names.items():
            if values[attribute] is not None:
                _family(lines, name, kind, {"": values[attribute]})
    outcomes = {_labels({"outcome": outcome}): values[attribute] for outcome, attribute in _OUTCOMES.items()}
    _family(lines, "waymesh_deliveries_total", "counter", outcomes)
    _family(lines, "waymesh_draining", "gauge", {"": int(values["drainStatus"] != "none")})
    return "\n".join([*lines, ""])


def _family(lines: list[str], name: str, kind: str, samples: Mapping[str, Any]) -> None:
    lines.append(f"# TYPE {name} {kind}")
    lines += [f"{name}{labels} {value}" for labels, value in samples.items()]


def _labels(pairs: Mapping[str, object]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in pairs.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
