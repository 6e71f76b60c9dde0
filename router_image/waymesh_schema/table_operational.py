"""Entities that a running router reports: connections, links, addresses, routers, statistics."""

from __future__ import annotations

from .loglevels import LOG_LEVELS
from .model import (
    BOOLEAN,
    ENTITY_ID,
    INTEGER,
    LIST,
    MAP,
    STRING,
    base,
    changeable,
    count,
    operational,
    reported,
)

ENTITY = base("entity", "Base of all entity types.")
CONFIGURATION_ENTITY = base("configurationEntity", "Base of the types that hold configuration.", "entity")
OPERATIONAL_ENTITY = base("operationalEntity", "Base of the types that report what the router is doing.", "entity")

AMQP_MANAGEMENT = operational(
    "org.amqp.management",
    "The management node of the AMQP Management specification.",
    long_name="org.amqp.management",
    operations=("QUERY", "GET-TYPES", "GET-ANNOTATIONS", "GET-OPERATIONS", "GET-ATTRIBUTES", "GET-MGMT-NODES"),
)
MANAGEMENT = operational(
    "management",
    "The management node with the operations that routers add.",
    operations=(*AMQP_MANAGEMENT.operations[:-1], "GET-SCHEMA", "GET-JSON-SCHEMA", "GET-LOG", "CHECK-POLICY"),
    extends=("org.amqp.management",),
    singleton=True,
)

CONNECTION = operational(
    "connection",
    "One connection of the router.",
    changeable("adminStatus", ("enabled", "deleted"), "Set it to deleted to close the connection.", default="enabled"),
    reported("operStatus", ("up", "closing"), "Whether the connection is open or closing."),
    reported("protocol", STRING, "Protocol of the connection: amqp."),
    reported("container", STRING, "Container-id of the peer."),
    reported("opened", BOOLEAN, "Both peers have sent an open."),
    reported("host", STRING, "host:port of the peer; for a connector as configured there."),
    reported("dir", ("in", "out"), "in: accepted by a listener; out: opened by a connector."),
    reported("role", STRING, "Role of the listener or connector."),
    reported("isAuthenticated", BOOLEAN, "The peer has authenticated itself."),
    reported("isEncrypted", BOOLEAN, "The connection is encrypted."),
    changeable(
        "enableProtocolTrace", BOOLEAN, "Write the frames of this connection to the PROTOCOL log.", default=False
    ),
    reported("sasl", STRING, "SASL mechanism."),
    reported("user", STRING, "Authenticated user."),
    reported("ssl", BOOLEAN, "The connection runs over TLS."),
    reported("sslProto", STRING, "TLS version."),
    reported("sslCipher", STRING, "TLS cipher."),
    reported("sslSsf", INTEGER, "Strength of the cipher in bits."),
    reported("tenant", STRING, "With multiTenant, the prefix of the client's addresses in the mesh: vhost and slash."),
    reported("properties", MAP, "Properties of the peer's open."),
    reported("active", BOOLEAN, "Whether an edge router uses the connection; null for those of other peers."),
    count("uptimeSeconds", "Seconds since the connection was opened."),
    count("lastDlvSeconds", "Seconds since the last delivery; null if there was none."),
    operations=("UPDATE",),
)

LINK = operational(
    "router.link",
    "One link of the router, to a client, a broker or another router.",
    changeable(
        "adminStatus",
        ("enabled", "disabled"),
        "Set it to disabled to detach the link. Links between routers cannot be disabled; an autolink attaches again.",
        default="enabled",
    ),
    reported("operStatus", ("up", "down", "quiescing", "idle"), "State of the link."),
    reported("linkName", STRING, "Name of the link in the attach."),
    reported("linkType", ("endpoint", "router-control", "inter-router", "edge-downlink"), "What the link carries."),
    reported("linkDir", ("in", "out"), "in: the router receives deliveries; out: it sends them."),
    reported(
        "owningAddr",
        STRING,
        "Key of the address of the link, with class and phase; for a routed link, of its link route.",
    ),
    reported("connectionId", STRING, "Identity of the connection of the link."),
    reported(
        "capacity",
        INTEGER,
        "linkCapacity of the connection: maximum credit that the router grants on incoming links. A routed link has "
        "the credit of its other end instead.",
    ),
    reported("peer", STRING, "Identity of the other link of a routed link."),
    count("undeliveredCount", "Deliveries that wait to be sent."),
    count("unsettledCount", "Deliveries that wait to be settled."),
    count("deliveryCount", "Deliveries so far."),
    count("presettledCount", "Pre-settled deliveries so far, also those that were dropped on arrival."),
    count("droppedPresettledCount", "Pre-settled deliveries dropped."),
    count("acceptedCount", "Deliveries that ended accepted."),
    count("rejectedCount", "Deliveries that ended rejected."),
    count("releasedCount", "Deliveries that ended released."),
    count("modifiedCount", "Deliveries that ended modified."),
    count("deliveriesDelayed1Sec", "Deliveries settled after 1 to 10 seconds."),
    count("deliveriesDelayed10Sec", "Deliveries settled after more than 10 seconds."),
    count("deliveriesStuck", "Deliveries unsettled now for more than 10 seconds."),
    count("creditAvailable", "Credit of the link now."),
    reported("zeroCreditSeconds", INTEGER, "Seconds that the link has been without credit."),
    count("settleRate", "Settlements a second, over the last five seconds."),
    reported(
        "priority", INTEGER, "Priority of the messages that a link between routers carries; 4, the default, for others."
    ),
    operations=("UPDATE",),
)

ADDRESS = operational(
    "router.address",
    "One address that the router knows.",
    reported("key", STRING, "Key of the address: class, for mobile addresses the phase, and the address."),
    reported(
        "distribution",
        ("flood", "multicast", "closest", "balanced", "linkBalanced", "unavailable"),
        "How deliveries, or attaches, are distributed.",
    ),
    reported("inProcess", INTEGER, "Consumers inside this router."),
    count("subscriberCount", "Consumers attached to this router."),
    count("remoteCount", "Other routers with consumers."),
    count("containerCount", "Connected containers that serve the address."),
    reported("remoteHostRouters", LIST, "Names of the other routers with consumers."),
    count("deliveriesIngress", "Deliveries that entered the mesh at this router."),
    count("deliveriesEgress", "Deliveries that left the mesh at this router."),
    count("deliveriesTransit", "Deliveries passed on to another router."),
    count("deliveriesToContainer", "Deliveries to consumers inside this router."),
    count("deliveriesFromContainer", "Deliveries sent by this router itself."),
    count("deliveriesIngressRouteContainer", "Deliveries that came from route containers."),
    count("deliveriesEgressRouteContainer", "Deliveries that went to route containers."),
    count("deliveriesRedirectedToFallback", "Deliveries sent to the fallback destination."),
    count("expiredDeliveries", "Deliveries that expired while they waited for a consumer."),
    reported("transitOutstanding", LIST, "Unsettled deliveries by router, for balanced distribution."),
    reported("trackedDeliveries", INTEGER, "Deliveries counted in transitOutstanding."),
    reported("priority", INTEGER, "Priority of messages to the address, instead of their own; -1 if not configured."),
    reported(
        "groupSlots",
        INTEGER,
        "Of the 1,024 slots of its message groups, those of consumers of this router; null without groups.",
    ),
)

NODE = operational(
    "router.node",
    "One router of the mesh, as this router sees it.",
    reported("id", STRING, "Identity of the router."),
    reported("protocolVersion", INTEGER, "Version of its inter-router protocol."),
    reported("instance", INTEGER, "Number that changes with each start of the router."),
    reported("linkState", LIST, "Its neighbours."),
    reported("nextHop", STRING, "Next hop on the path to it; null for neighbours and for this router."),
    reported("validOrigins", LIST, "Routers whose path to it leads through this router."),
    reported("address", STRING, "Its address in the mesh."),
    reported("routerLink", ENTITY_ID, "Link to it, for neighbours."),
    reported("cost", INTEGER, "Total cost of the path to it."),
    reported("lastTopoChange", INTEGER, "When its neighbourhood last changed, in seconds since 1970."),
    reported("index", INTEGER, "Number of the router in the tables of this router."),
)

ALLOCATOR = operational(
    "allocator",
    "The objects of one kind. There are no pools: objects are freed at once, and attributes of pools are 0.",
    reported("typeName", STRING, "Kind of the objects."),
    reported("typeSize", INTEGER, "Bytes of one object, without what it refers to."),
    reported("transferBatchSize", INTEGER, "Objects moved at a time between pools: 0."),
    count("localFreeListMax", "Maximum number of free objects of a thread: 0."),
    count("globalFreeListMax", "Maximum number of free objects: 0."),
    count("totalAllocFromHeap", "Objects in use; those freed before are not counted."),
    count("totalFreeToHeap", "Objects freed of those counted in totalAllocFromHeap: 0."),
    count("heldByThreads", "Objects in use."),
    count("batchesRebalancedToThreads", "Batches moved to threads: 0."),
    count("batchesRebalancedToGlobal", "Batches moved back: 0."),
)

LOG_STATS = operational(
    "logStats",
    "Number of lines that a log module has written, by level.",
    *(count(f"{level}Count", f"Lines of level {level}.") for level in LOG_LEVELS),
)
