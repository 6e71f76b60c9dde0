"""The metrics of a router in Prometheus' text format. The names `qdr_*` are those of qdrouterd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from typing import Any

from waymesh_router.core.addresses.keys import MOBILE, key_name
from waymesh_router.core.containers.autolink import ACTIVE, STATES
from waymesh_router.management.statistics import router_statistics
from waymesh_router.management.view import RouterView
from waymesh_schema.metrics import METRICS, NAMES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATISTICS = {
    "qdr_connections_total": "connectionCount",
    "qdr_links_total": "linkCount",
    "qdr_addresses_total": "addrCount",
    "qdr_routers_total": "nodeCount",
    "qdr_link_routes_total": "linkRouteCount",
    "qdr_auto_links_total": "autoLinkCount",
    "qdr_deliveries_stuck_total": "deliveriesStuck",
    "qdr_links_blocked_total": "linksBlocked",
    "waymesh_unsettled_deliveries": "unsettledDeliveries",
    "waymesh_buffered_bytes": "bufferedBytes",
    "waymesh_links_held": "linksHeld",
    "waymesh_uptime_seconds": "uptimeSeconds",
    "waymesh_memory_bytes": "memoryUsage",
    "waymesh_memory_limit_bytes": "memoryLimit",
    "waymesh_links_awaiting_memory": "linksAwaitingMemory",
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
    "waymesh_expired_deliveries_total": "expiredDeliveries",
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
    _family(lines, "waymesh_router_info", {_labels(labels): 1})
    for name, attribute in _STATISTICS.items():
        if values[attribute] is not None:
            _family(lines, name, {"": values[attribute]})
    outcomes = {_labels({"outcome": outcome}): values[attribute] for outcome, attribute in _OUTCOMES.items()}
    _family(lines, "waymesh_deliveries_total", outcomes)
    _family(lines, "waymesh_internal_errors_total", {"": view.internal_errors()})
    _family(lines, "waymesh_draining", {"": int(values["drainStatus"] != "none")})
    _family(lines, "waymesh_topology_changes_total", {"": view.topology_changes})
    denied = {_labels({"kind": kind}): count for kind, count in _denied(view).items()}
    _family(lines, "waymesh_policy_denied_total", denied)
    refused = {_labels({"limit": limit}): count for limit, count in view.admission.refused.items()}
    _family(lines, "waymesh_connections_refused_total", refused)
    ends = {_labels({"profile": profile}): int(one.end) for profile, one in view.certificates().items()}
    _family(lines, "waymesh_tls_certificate_not_after_seconds", ends)
    _family(lines, "waymesh_users_refused", {"": view.users_refused()})
    left_out = _addresses(lines, view) + _autolinks(lines, view)
    _family(lines, "waymesh_metrics_names_limit", {"": NAMES})
    _family(lines, "waymesh_metrics_left_out", {"": left_out})
    _telemetry(lines, view)
    return "\n".join([*lines, ""])


def _denied(view: RouterView) -> Mapping[str, int]:
    """Number of refusals by kind."""
    counts = view.policy.counts
    messages = {"session": counts.sessions_denied, "message": counts.messages_denied, "size": counts.sizes_denied}
    return {**view.core.denied, **messages}


def _addresses(lines: list[str], view: RouterView) -> int:
    """Add the busiest mobile addresses; returns how many were left out."""
    mobile = [address for key, address in view.core.addresses.items() if key.startswith(MOBILE)]
    shown = nlargest(NAMES, mobile, key=lambda address: address.ingress + address.egress + address.transit)
    labels = [{"address": key_name(address.key), "phase": address.key[1]} for address in shown]
    for links in ("consumers", "producers"):
        samples = {_labels(pairs): len(getattr(address, links)) for pairs, address in zip(labels, shown)}
        _family(lines, f"waymesh_address_{links}", samples)
    passed = {
        _labels({**pairs, "direction": direction}): getattr(address, direction)
        for pairs, address in zip(labels, shown)
        for direction in ("ingress", "egress", "transit")
    }
    _family(lines, "waymesh_address_deliveries_total", passed)
    return len(mobile) - len(shown)


def _autolinks(lines: list[str], view: RouterView) -> int:
    """Add the number of autolinks by state, and some autolinks by name; returns how many were left out."""
    autos = list(view.core.autolinks.all())
    states = Counter(auto.status for auto in autos)
    _family(lines, "waymesh_autolinks", {_labels({"state": state}): states[state] for state in STATES})
    shown = autos[:NAMES]
    up = {_labels({"name": str(auto.attrs["name"])}): int(auto.status == ACTIVE) for auto in shown}
    _family(lines, "waymesh_autolink_up", up)
    return len(autos) - len(shown)


def _telemetry(lines: list[str], view: RouterView) -> None:
    """Add the numbers of records made and dropped, and the settlement times of sampled deliveries."""
    collector = view.collector
    if collector is None:
        return
    samples = {_labels({"kind": kind}): count for kind, count in collector.records.items()}
    _family(lines, "waymesh_telemetry_records_total", samples)
    dropped = collector.dropped
    every = ((kind, reason) for kind in collector.records for reason in collector.reasons)
    lost = {_labels({"kind": kind, "reason": reason}): dropped.get((kind, reason), 0) for kind, reason in every}
    _family(lines, "waymesh_telemetry_dropped_total", lost)
    settled = collector.settled
    name = "waymesh_delivery_settle_seconds"
    lines += _head(name)
    total = 0.0
    for bound, count in zip((*map(str, settled.bounds), "+Inf"), settled.counts):
        total += count
        lines.append(f"{name}_bucket{_labels({'le': bound})} {total:g}")
    lines += [f"{name}_sum {settled.sum:g}", f"{name}_count {total:g}"]


def _family(lines: list[str], name: str, samples: Mapping[str, Any]) -> None:
    if samples:
        lines += _head(name)
    lines += [f"{name}{labels} {value}" for labels, value in samples.items()]


def _head(name: str) -> list[str]:
    metric = METRICS[name]
    return [f"# HELP {name} {metric.description}", f"# TYPE {name} {metric.type}"]


def _labels(pairs: Mapping[str, object]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in pairs.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
