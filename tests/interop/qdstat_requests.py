"""The requests that qdstat and qdmanage send (docs/management.md), and what they need of the replies, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PREFIX = "org.apache.qpid.dispatch."
NODE = {"type": "org.amqp.management", "name": "self"}


@dataclass(frozen=True)
class Shape:
    """One request: `needs` are the attributes that must come back in each row, `numbers` those that must be numbers."""

    option: str
    properties: dict[str, Any]
    body: dict[str, Any] = field(default_factory=dict)
    needs: Sequence[str] = ()
    numbers: Sequence[str] = ()
    status: int = 200

    def __str__(self) -> str:
        return self.option


def query(option: str, kind: str, names: str = "", needs: str = "", numbers: str = "") -> Shape:
    """A QUERY as the tools send it: the first page of 500."""
    properties = {**NODE, "operation": "QUERY", "entityType": PREFIX + kind, "offset": 0, "count": 500}
    return Shape(option, properties, {"attributeNames": names.split()}, (needs or names).split(), numbers.split())


LINK_COUNTS = (
    "undeliveredCount unsettledCount deliveryCount presettledCount droppedPresettledCount acceptedCount rejectedCount "
    "releasedCount modifiedCount deliveriesDelayed1Sec deliveriesDelayed10Sec deliveriesStuck creditAvailable "
    "zeroCreditSeconds"
)
ADDRESS_COUNTS = (
    "inProcess subscriberCount remoteCount containerCount deliveriesIngress deliveriesEgress "
    "deliveriesRedirectedToFallback deliveriesTransit deliveriesToContainer deliveriesFromContainer priority"
)
ROUTER_COUNTS = (
    "linkRouteCount autoLinkCount linkCount nodeCount addrCount connectionCount presettledDeliveries "
    "droppedPresettledDeliveries acceptedDeliveries rejectedDeliveries releasedDeliveries modifiedDeliveries "
    "deliveriesDelayed1Sec deliveriesDelayed10Sec deliveriesStuck deliveriesRedirectedToFallback deliveriesIngress "
    "deliveriesEgress deliveriesTransit deliveriesIngressRouteContainer deliveriesEgressRouteContainer uptimeSeconds"
)

QUERIES = [
    query("qdstat -g", "router", needs=f"id mode area version {ROUTER_COUNTS}", numbers=ROUTER_COUNTS),
    query(
        "qdstat -c",
        "connection",
        needs="identity host container role dir isAuthenticated isEncrypted sasl user sslProto sslCipher tenant "
        "lastDlvSeconds uptimeSeconds",
        numbers="uptimeSeconds",
    ),
    query(
        "qdstat -l",
        "router.link",
        "linkType linkDir connectionId identity peer owningAddr capacity adminStatus operStatus linkName priority "
        f"settleRate {LINK_COUNTS}",
        numbers=LINK_COUNTS,
    ),
    query(
        "qdstat -n",
        "router.node",
        needs="id nextHop routerLink protocolVersion cost linkState validOrigins lastTopoChange",
    ),
    query("qdstat -a", "router.address", f"distribution name {ADDRESS_COUNTS}", numbers=ADDRESS_COUNTS),
    query(
        "qdstat --autolinks",
        "router.config.autoLink",
        "address direction phase externalAddress linkRef operStatus lastError",
    ),
    query(
        "qdstat --linkroutes",
        "router.config.linkRoute",
        "prefix direction distribution operStatus pattern addExternalPrefix delExternalPrefix",
    ),
    query(
        "qdstat -m",
        "allocator",
        "identity typeSize transferBatchSize localFreeListMax totalAllocFromHeap heldByThreads "
        "batchesRebalancedToThreads batchesRebalancedToGlobal",
    ),
    query("qdstat -m, memory", "router", "memoryUsage"),
    query("qdmanage query --type listener", "listener", needs="name identity type host port role"),
    query("qdmanage query --type log", "log", needs="name identity module enable"),
]

NODE_REQUESTS = [
    Shape(f"qdmanage {operation.lower()}", {**NODE, "operation": operation})
    for operation in (
        "GET-TYPES",
        "GET-ATTRIBUTES",
        "GET-OPERATIONS",
        "GET-ANNOTATIONS",
        "GET-MGMT-NODES",
        "GET-SCHEMA",
        "GET-LOG",
    )
]
EVERYTHING = Shape("qdmanage query", {**NODE, "operation": "QUERY", "offset": 0, "count": 500}, {"attributeNames": []})


def check_rows(shape: Shape, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a reply to a query, after checking that they hold what the tool needs."""
    names = body["attributeNames"]
    asked = shape.body["attributeNames"]
    assert not asked or names == asked
    assert set(shape.needs) <= set(names)
    rows = [dict(zip(names, values)) for values in body["results"]]
    assert all(len(values) == len(names) for values in body["results"])
    wrong = [(name, row[name]) for row in rows for name in shape.numbers if not isinstance(row[name], int)]
    assert not wrong
    return rows
