"""The statistics of the `router` entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waymesh_router.core.link_health import is_blocked
from waymesh_router.management.view import RouterView

AREA = "0"
MANY_LINKS = 2000
"""With more links than this, the number of blocked ones is that of the last sampling round."""


def _links_blocked(view: RouterView, now: float) -> int:
    links = view.core.links
    if len(links) > MANY_LINKS:
        return view.sampler.blocked
    return sum(is_blocked(link, now) for link in links.values())


def router_statistics(view: RouterView, now: float) -> Mapping[str, Any]:
    """The reported attributes of the `router` entity, by name."""
    core = view.core
    return {
        "area": AREA,
        "version": view.version,
        "hostName": view.host_name,
        "connectionCount": len(core.connections),
        "linkCount": len(core.links),
        "nodeCount": 0 if view.routing is None else len(view.routing.nodes),
        "addrCount": len(core.addresses) + len(view.reserved.by_key),
        "linkRouteCount": len(core.linkroutes),
        "autoLinkCount": len(core.autolinks),
        "presettledDeliveries": core.counters.presettled,
        "droppedPresettledDeliveries": core.counters.dropped_presettled,
        "acceptedDeliveries": core.counters.accepted,
        "rejectedDeliveries": core.counters.rejected,
        "releasedDeliveries": core.counters.released,
        "modifiedDeliveries": core.counters.modified,
        "deliveriesDelayed1Sec": view.sampler.total.one_s,
        "deliveriesDelayed10Sec": view.sampler.total.ten_s,
        "deliveriesStuck": view.sampler.total.stuck,
        "deliveriesIngress": core.counters.ingress,
        "deliveriesEgress": core.counters.egress,
        "deliveriesTransit": core.counters.transit,
        "deliveriesIngressRouteContainer": core.counters.from_containers,
        "deliveriesEgressRouteContainer": core.counters.to_containers,
        "deliveriesRedirectedToFallback": core.counters.redirected,
        "expiredDeliveries": core.counters.expired,
        "clientConnections": view.client_share.count(),
        "clientConnectionsMoved": view.client_share.moved,
        "clientsMoving": view.client_share.moving,
        "clientShareAge": int(min(view.client_share.age_s, now - core.started_at)),
        "draining": view.drain_status != "none",
        "drainStatus": view.drain_status,
        "unsettledDeliveries": view.unsettled_deliveries(),
        "linksBlocked": _links_blocked(view, now),
        "bufferedBytes": core.budget.kept,
        "linksHeld": len(core.budget.braked),
        "uptimeSeconds": int(now - core.started_at),
        "memoryUsage": view.memory_usage(),
        "memoryLimit": view.admission.limit,
        "memoryState": view.admission.memory_state,
        "linksAwaitingMemory": view.admission.withheld,
        "connectionsRefusedMemory": view.admission.refused["memory"],
        "connectionsRefusedListener": view.admission.refused["listener"],
        "edgesWithoutGroup": len(core.edges.without_group),
    }
