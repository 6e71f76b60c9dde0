"""The views of `waymesh stat` that show one entity, with one attribute per row. The labels are those of qdstat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from waymesh_client.cli.cells import duration, plain, size
from waymesh_client.cli.views import OBJECTS, Row, Table, View

Lines = tuple[tuple[str, str, Callable[[Any], str]], ...]
"""Title, attribute and text of the value, for each line."""

GENERAL: Lines = (
    ("Version", "version", plain),
    ("Mode", "mode", plain),
    ("Router Id", "id", plain),
    ("Worker Threads", "workerThreads", plain),
    ("Uptime", "uptimeSeconds", duration),
    ("VmSize", "memoryUsage", size),
    ("Area", "area", plain),
    ("Link Routes", "linkRouteCount", plain),
    ("Auto Links", "autoLinkCount", plain),
    ("Links", "linkCount", plain),
    ("Nodes", "nodeCount", plain),
    ("Addresses", "addrCount", plain),
    ("Connections", "connectionCount", plain),
    ("Presettled Count", "presettledDeliveries", plain),
    ("Dropped Presettled Count", "droppedPresettledDeliveries", plain),
    ("Accepted Count", "acceptedDeliveries", plain),
    ("Rejected Count", "rejectedDeliveries", plain),
    ("Released Count", "releasedDeliveries", plain),
    ("Modified Count", "modifiedDeliveries", plain),
    ("Deliveries Delayed > 1sec", "deliveriesDelayed1Sec", plain),
    ("Deliveries Delayed > 10sec", "deliveriesDelayed10Sec", plain),
    ("Deliveries Stuck > 10sec", "deliveriesStuck", plain),
    ("Deliveries to Fallback", "deliveriesRedirectedToFallback", plain),
    ("Deliveries Expired", "expiredDeliveries", plain),
    ("Links Blocked", "linksBlocked", plain),
    ("Ingress Count", "deliveriesIngress", plain),
    ("Egress Count", "deliveriesEgress", plain),
    ("Transit Count", "deliveriesTransit", plain),
    ("Deliveries from Route Container", "deliveriesIngressRouteContainer", plain),
    ("Deliveries to Route Container", "deliveriesEgressRouteContainer", plain),
)
"""Rows of the general view: label, attribute of the router entity, format."""

POLICY: Lines = (
    ("Maximum Connections", "maxConnections", plain),
    ("Maximum Message Size", "maxMessageSize", plain),
    ("Enable Vhost Policy", "enableVhostPolicy", plain),
    ("Enable Vhost Name Patterns", "enableVhostNamePatterns", plain),
    ("Policy Directory", "policyDir", plain),
    ("Default Vhost", "defaultVhost", plain),
    ("Current Connections", "connectionsCurrent", plain),
    ("Denied Connections", "connectionsDenied", plain),
    ("Links Denied", "linksDenied", plain),
    ("Total Denials", "totalDenials", plain),
)
"""Rows of the policy view."""

MEMORY: Lines = (
    ("Memory Usage", "memoryUsage", size),
    ("Memory Limit", "memoryLimit", lambda value: size(value) if value else "none"),
    ("Memory State", "memoryState", plain),
    ("Waiting Messages", "bufferedBytes", size),
    ("Links Awaiting Memory", "linksAwaitingMemory", plain),
    ("Connections Refused", "connectionsRefusedMemory", plain),
)
"""Rows of the memory view. Routers of Waymesh report resident memory; those of Qpid Dispatch report virtual memory, and
only the first row."""


@dataclass(frozen=True, slots=True)
class EntityView:
    """A view of the only entity of a type. Each row has label, attribute, format. `below`: a table shown after it."""

    title: str
    entity_type: str
    lines: Lines
    below: View | None = None

    def table(self, entity: Row) -> Table:
        """Title, headings and cells; attributes that the entity does not have are left out."""
        rows = [[label, text(entity[name])] for label, name, text in self.lines if entity.get(name) is not None]
        return self.title, ["attr", "value"], rows


SHEETS = {
    "general": EntityView("Router Statistics", "router", GENERAL),
    "policy": EntityView("Policy Statistics", "policy", POLICY),
    "memory": EntityView("Memory", "router", MEMORY, OBJECTS),
}
"""The views of a single entity, by the name of their option."""
