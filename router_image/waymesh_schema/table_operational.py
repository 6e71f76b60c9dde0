"""The part of the table about what a running router reports: connections, links, addresses, routers, statistics."""

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
    "The management node as the AMQP management specification has it.",
    long_name="org.amqp.management",
    operations=("QUERY", "GET-TYPES", "GET-ANNOTATIONS", "GET-OPERATIONS", "GET-ATTRIBUTES", "GET-MGMT-NODES"),
)
MANAGEMENT = operational(
    "management",
    "The management node with the operations that routers add.",
    operations=(*AMQP_MANAGEMENT.operations[:-1], "GET-SCHEMA", "GET-JSON-SCHEMA", "GET-LOG"),
    extends=("org.amqp.management",),
    singleton=True,
)

CONNECTION = operational(
    "connection",
    "One connection of the router.",
    changeable("adminStatus", ("enabled", "deleted"), "Set to deleted, the connection is closed.", default="enabled"),
    reported("operStatus", ("up", "closing"), "Whether the connection works or is being closed."),
    reported("protocol", STRING, "Protocol of the connection: amqp."),
    reported("container", STRING, "Container id of the peer."),
    reported("opened", BOOLEAN, "The open has been exchanged."),
    reported("host", STRING, "host:port of the peer; for a connector as configured there."),
    reported("dir", ("in", "out"), "in: accepted by a listener; out: opened by a connector."),
    reported("role", STRING, "Role of the listener or connector."),
    reported("isAuthenticated", BOOLEAN, "The peer has authenticated itself."),
    reported("isEncrypted", BOOLEAN, "The connection is encrypted."),
    changeable(
        "enableProtocolTrace", BOOLEAN, "Write the frames of this connection to the PROTOCOL log.", default=False
    ),
    reported("sasl", STRING, "SASL mechanism that was used."),
    reported("user", STRING, "User that was authenticated."),
    reported("ssl", BOOLEAN, "The connection runs over TLS."),
    reported("sslProto", STRING, "TLS version."),
    reported("sslCipher", STRING, "TLS cipher."),
    reported("sslSsf", INTEGER, "Strength of the cipher in bits."),
    reported("tenant", STRING, "Tenant of the connection, on a listener with multiTenant."),
    reported("properties", MAP, "Properties of the peer's open."),
    reported("active", BOOLEAN, "On an edge router: this uplink is the one in use."),
    count("uptimeSeconds", "Seconds since the connection was made."),
    count("lastDlvSeconds", "Seconds since the last delivery; null when there was none."),
    operations=("UPDATE",),
)

LINK = operational(
    "router.link",
    "One link of the router, to a client, a broker or another router.",
    changeable("adminStatus", ("enabled", "disabled"), "Whether the link may be used.", default="enabled"),
    reported("operStatus", ("up", "down", "quiescing", "idle"), "How the link stands."),
    reported("linkName", STRING, "Name of the link in the attach."),
    reported("linkType", ("endpoint", "router-control", "inter-router", "edge-downlink"), "What the link carries."),
    reported("linkDir", ("in", "out"), "in: deliveries come to the router; out: they go from it."),
    reported("owningAddr", STRING, "Key of the address of the link, with class and phase."),
    reported("connectionId", STRING, "Identity of the connection of the link."),
    reported("capacity", INTEGER, "Deliveries that may be under way at a time."),
    reported("peer", STRING, "Identity of the link at the other side of a routed link."),
    count("undeliveredCount", "Deliveries that wait to be sent."),
    count("unsettledCount", "Deliveries that wait to be settled."),
    count("deliveryCount", "Deliveries so far."),
    count("presettledCount", "Pre-settled deliveries so far."),
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
    reported("ingressHistogram", LIST, "Deliveries settled here by the router they entered the mesh at."),
    reported("priority", INTEGER, "Priority that the link carries, for inter-router links."),
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
    reported("inProcess", INTEGER, "Consumers within this router."),
    count("subscriberCount", "Consumers attached to this router."),
    count("remoteCount", "Other routers with consumers."),
    count("containerCount", "Connected containers that serve the address."),
    reported("remoteHostRouters", LIST, "Names of the other routers with consumers."),
    count("deliveriesIngress", "Deliveries that entered the mesh at this router."),
    count("deliveriesEgress", "Deliveries that left the mesh at this router."),
    count("deliveriesTransit", "Deliveries passed on to another router."),
    count("deliveriesToContainer", "Deliveries to consumers within this router."),
    count("deliveriesFromContainer", "Deliveries that came from this router itself."),
    count("deliveriesIngressRouteContainer", "Deliveries that came from route containers."),
    count("deliveriesEgressRouteContainer", "Deliveries that went to route containers."),
    count("deliveriesRedirectedToFallback", "Deliveries sent to the fallback destination."),
    reported("transitOutstanding", LIST, "Unsettled deliveries by router, for balanced distribution."),
    reported("trackedDeliveries", INTEGER, "Deliveries counted in transitOutstanding."),
    reported("priority", INTEGER, "Priority of all messages sent here, in place of their own; -1 when not configured."),
)

NODE = operational(
    "router.node",
    "One router of the mesh, as this router sees it.",
    reported("id", STRING, "Identity of the router."),
    reported("protocolVersion", INTEGER, "Version of the inter-router protocol that it speaks."),
    reported("instance", INTEGER, "Number that changes with each start of it."),
    reported("linkState", LIST, "Its neighbours."),
    reported("nextHop", STRING, "Neighbour on the way to it; null for neighbours and for this router."),
    reported("validOrigins", LIST, "Routers whose multicast messages come to it through this router."),
    reported("address", STRING, "Address of it in the mesh."),
    reported("routerLink", ENTITY_ID, "Link to it, for neighbours."),
    reported("cost", INTEGER, "Total cost of the path to it."),
    reported("lastTopoChange", INTEGER, "When its neighbourhood last changed, in seconds since 1970."),
    reported("index", INTEGER, "Its place in ingressHistogram."),
)

ALLOCATOR = operational(
    "allocator",
    "One pool of memory objects.",
    reported("typeName", STRING, "Type of the objects."),
    reported("typeSize", INTEGER, "Bytes of one object."),
    reported("transferBatchSize", INTEGER, "Objects moved at a time between pools."),
    count("localFreeListMax", "Most free objects kept by a thread."),
    count("globalFreeListMax", "Most free objects kept by all."),
    count("totalAllocFromHeap", "Objects allocated so far."),
    count("totalFreeToHeap", "Objects freed so far."),
    count("heldByThreads", "Objects in use."),
    count("batchesRebalancedToThreads", "Batches moved to threads."),
    count("batchesRebalancedToGlobal", "Batches moved back."),
)

LOG_STATS = operational(
    "logStats",
    "How many lines of each level one log module has written.",
    *(count(f"{level}Count", f"Lines of level {level}.") for level in LOG_LEVELS),
)

VHOST_STATS = operational(
    "vhostStats",
    "Connections of one vhost, and what its policy refused.",
    reported("hostname", STRING, "Name of the vhost."),
    count("connectionsApproved", "Connections accepted."),
    count("connectionsDenied", "Connections refused."),
    count("connectionsCurrent", "Connections open now."),
    reported("perUserState", MAP, "Connections by user."),
    reported("perHostState", MAP, "Connections by remote host."),
    count("sessionDenied", "Sessions refused."),
    count("senderDenied", "Sending links refused."),
    count("receiverDenied", "Receiving links refused."),
    count("maxMessageSizeDenied", "Transfers refused for their size."),
)
