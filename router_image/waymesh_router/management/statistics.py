"""The statistics of the `router` entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.core.model import RouterLink
from waymesh_router.management.view import RouterView

AREA = "0"
BLOCKED_S = 10.0
"""A link without credit for longer than this counts as blocked."""


def seconds_without_credit(link: RouterLink, now: float) -> float:
    """How long an outgoing link has had no credit; 0 for one that has some, and for incoming links."""
    if not link.is_sender or link.credit > 0 or link.zero_credit_since <= 0:
        return 0.0
    return max(0.0, now - link.zero_credit_since)


def router_statistics(view: RouterView, now: float) -> Mapping[str, Any]:
    """What the router reports of itself, by attribute name. What this router does not do is counted as 0."""
    core = view.core
    return {
        "area": AREA,
        "version": view.version,
        "connectionCount": len(core.connections),
        "linkCount": len(core.links),
        "nodeCount": 0 if view.routing is None else len(view.routing.nodes),
        "addrCount": len(core.addresses),
        "linkRouteCount": len(core.linkroutes),
        "autoLinkCount": len(core.autolinks),
        "presettledDeliveries": core.presettled,
        "droppedPresettledDeliveries": core.dropped_presettled,
        "acceptedDeliveries": core.accepted,
        "rejectedDeliveries": core.rejected,
        "releasedDeliveries": core.released,
        "modifiedDeliveries": core.modified,
        "deliveriesDelayed1Sec": view.sampler.total.one_s,
        "deliveriesDelayed10Sec": view.sampler.total.ten_s,
        "deliveriesStuck": view.sampler.total.stuck,
        "deliveriesIngress": core.ingress,
        "deliveriesEgress": core.egress,
        "deliveriesTransit": core.transit,
        "deliveriesIngressRouteContainer": core.from_containers,
        "deliveriesEgressRouteContainer": core.to_containers,
        "deliveriesRedirectedToFallback": core.redirected,
        "draining": view.drain_status != "none",
        "drainStatus": view.drain_status,
        "unsettledDeliveries": view.unsettled_deliveries(),
        "linksBlocked": sum(seconds_without_credit(link, now) > BLOCKED_S for link in core.links.values()),
        "uptimeSeconds": int(now - core.started_at),
        "memoryUsage": view.memory_usage(),
    }
