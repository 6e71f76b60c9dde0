"""The part of the table about the router itself: router, log, and how addresses and links are routed."""

from __future__ import annotations

from .loglevels import LOG_MODULES
from .model import BOOLEAN, INTEGER, PATH, STRING, changeable, configuration, count, reported, setting

DISTRIBUTIONS = ("multicast", "closest", "balanced", "unavailable")
DIRECTIONS = ("in", "out")
STANDARD_OUTPUTS = ("stderr", "stdout", "syslog")
"""Outputs of a log that are no files."""

MOST_BYTES = 1 << 50

ROUTER = configuration(
    "router",
    "The router itself: who it is, how it takes part in a mesh, and its counters.",
    setting(
        "id",
        STRING,
        "Identity of the router, unique in the mesh; needed except in standalone mode.",
        deprecated_name="routerId",
    ),
    setting(
        "mode",
        ("standalone", "interior"),
        "standalone: no other routers; interior: full member of the mesh.",
        default="standalone",
    ),
    reported("area", STRING, "Routing area; there is one, named 0."),
    reported("version", STRING, "Version of the router software."),
    reported("hostName", STRING, "Name of the machine the router runs on."),
    setting(
        "helloIntervalSeconds",
        INTEGER,
        "Seconds between HELLO messages to each neighbour.",
        default=1,
        minimum=1,
        deprecated_name="helloInterval",
    ),
    setting(
        "helloMaxAgeSeconds",
        INTEGER,
        "A neighbour silent for so many seconds counts as lost.",
        default=3,
        minimum=1,
        deprecated_name="helloMaxAge",
    ),
    setting(
        "raIntervalSeconds",
        INTEGER,
        "Seconds between router advertisements while the topology is stable.",
        default=30,
        minimum=1,
        deprecated_name="raInterval",
    ),
    setting(
        "raIntervalFluxSeconds",
        INTEGER,
        "Seconds between router advertisements while the topology changes.",
        default=4,
        minimum=1,
        deprecated_name="raIntervalFlux",
    ),
    setting(
        "remoteLsMaxAgeSeconds",
        INTEGER,
        "Link state of a remote router is dropped after so many silent seconds.",
        default=60,
        minimum=1,
        deprecated_name="remoteLsMaxAge",
    ),
    setting(
        "mobileAddrMaxAge",
        INTEGER,
        "Had a meaning in old versions of Qpid Dispatch.",
        deprecated=True,
        minimum=0,
        only_default="it has no effect in any router of today: leave it out",
    ),
    setting(
        "workerThreads",
        INTEGER,
        "Threads that handle messages.",
        default=1,
        minimum=1,
        only_default="a router works on one thread: leave it out, and run more routers where one is not enough",
    ),
    setting(
        "debugDumpFile",
        PATH,
        "File for debug output.",
        deprecated_name="debugDump",
        only_default="this router writes no debug output to a file of its own: use the entity log",
    ),
    setting("saslConfigDir", PATH, "Folder of the SASL configuration.", deprecated_name="saslConfigPath"),
    setting("saslConfigName", STRING, "Name of the SASL configuration, without its .conf ending.", default="qdrouterd"),
    setting(
        "allowUnsettledMulticast",
        BOOLEAN,
        "Unsettled deliveries to multicast addresses are taken.",
        default=True,
        only_default="unsettled deliveries to multicast addresses are always taken: leave it out",
    ),
    setting(
        "allowResumableLinkRoute",
        BOOLEAN,
        "Whether links may be link-routed whose terminus outlives the connection: with a timeout, or with expiry "
        "policy connection-close or never.",
        default=True,
    ),
    setting("timestampsInUTC", BOOLEAN, "Write log times in UTC and not in local time.", default=False),
    setting("timestampFormat", STRING, "strftime format of log times."),
    setting(
        "defaultDistribution",
        DISTRIBUTIONS,
        "Distribution of addresses that no address entity matches.",
        default="balanced",
    ),
    setting(
        "maxBufferedBytes",
        INTEGER,
        "Bytes of messages that may wait here for consumers before clients that bring more are held (their session "
        "windows stay closed until half of it is free); 0: a quarter of the memory that the process may use, at least "
        "16 MiB and at most 1 GiB.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting(
        "maxBufferedBytesPerConnection",
        INTEGER,
        "The same for what one connection brought; 0: a quarter of maxBufferedBytes.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting(
        "maxBufferedBytesPerLink",
        INTEGER,
        "The same for what one link brought; 0: a sixteenth of maxBufferedBytes, at most 8 MiB.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting("metadata", STRING, "Free text shown by tools; the router does nothing with it."),
    changeable(
        "draining",
        BOOLEAN,
        "Set to yes, the router hands its clients over to others: it takes no new ones and no messages, and closes the "
        "old ones when all is settled. Set to no, it serves as before.",
        default=False,
    ),
    setting(
        "drainTimeoutSeconds",
        INTEGER,
        "Seconds that deliveries have to be settled after draining was set.",
        default=30,
        minimum=0,
        update=True,
    ),
    reported(
        "drainStatus", ("none", "draining", "drained"), "drained: no client is left and nothing is routed through here."
    ),
    count("unsettledDeliveries", "Deliveries of clients that wait for an outcome or for a consumer."),
    count("connectionCount", "Open connections."),
    count("linkCount", "Attached links."),
    count("nodeCount", "Other routers known in the mesh."),
    count("addrCount", "Addresses known to this router."),
    count("linkRouteCount", "Configured link routes."),
    count("autoLinkCount", "Configured autolinks."),
    count("presettledDeliveries", "Pre-settled deliveries handled."),
    count("droppedPresettledDeliveries", "Pre-settled deliveries dropped for want of room or route."),
    count("acceptedDeliveries", "Deliveries that ended accepted."),
    count("rejectedDeliveries", "Deliveries that ended rejected."),
    count("releasedDeliveries", "Deliveries that ended released."),
    count("modifiedDeliveries", "Deliveries that ended modified."),
    count("deliveriesDelayed1Sec", "Deliveries settled after 1 to 10 seconds."),
    count("deliveriesDelayed10Sec", "Deliveries settled after more than 10 seconds."),
    count("deliveriesStuck", "Deliveries unsettled now for more than 10 seconds."),
    count("deliveriesIngress", "Deliveries that entered the mesh at this router."),
    count("deliveriesEgress", "Deliveries that left the mesh at this router."),
    count("deliveriesTransit", "Deliveries passed on to another router."),
    count("deliveriesIngressRouteContainer", "Deliveries that came from route containers."),
    count("deliveriesEgressRouteContainer", "Deliveries that went to route containers."),
    count("deliveriesRedirectedToFallback", "Deliveries sent to a fallback destination."),
    count("linksBlocked", "Links without credit for more than 10 seconds."),
    count("bufferedBytes", "Bytes of messages that wait here for consumers."),
    count("linksHeld", "Links whose sessions are held because too many bytes of theirs wait here."),
    count("uptimeSeconds", "Seconds since the router started."),
    count("memoryUsage", "Bytes of virtual memory of the process; null where the system does not tell."),
    operations=("UPDATE",),
    singleton=True,
)

LOG = configuration(
    "log",
    "What one log module writes, and where. The module DEFAULT stands for all that say nothing themselves.",
    setting("module", LOG_MODULES, "Log module that the settings are for.", required=True, unique=True),
    setting(
        "enable",
        STRING,
        "Levels to write, by comma, with + for: and above; none for nothing; default for what DEFAULT says.",
        default="default",
        update=True,
    ),
    setting("includeTimestamp", BOOLEAN, "Begin each line with the time.", update=True, deprecated_name="timestamp"),
    setting(
        "includeSource", BOOLEAN, "End each line with the source file and line.", update=True, deprecated_name="source"
    ),
    setting(
        "outputFile",
        STRING,
        "stderr, stdout, syslog, or the path of a file to append to.",
        update=True,
        on_host=lambda output: output not in STANDARD_OUTPUTS,
        deprecated_name="output",
    ),
    operations=("UPDATE",),
)

_PREFIX = "Addresses equal to this, or that go on after it with a separator. Not together with pattern."
_PATTERN = (
    "Addresses that match token by token, tokens parted by . or /: * is any one token, # any number of tokens. "
    "Not together with prefix."
)
_CONTAINER = "Container id of the remote container. Not together with connection."
_CONNECTION = "Name of the connector or listener whose connections are meant. Not together with containerId."

ADDRESS = configuration(
    "router.config.address",
    "How message-routed deliveries of the matching addresses are distributed.",
    setting("prefix", STRING, _PREFIX, unique=True),
    setting("pattern", STRING, _PATTERN, unique=True),
    setting("distribution", DISTRIBUTIONS, "Which consumers get a delivery.", default="balanced"),
    setting(
        "waypoint",
        BOOLEAN,
        "Route through a broker queue: producers send to phase 0, consumers read phase 1.",
        default=False,
    ),
    setting(
        "ingressPhase", INTEGER, "Phase for producers, in place of the one that waypoint gives.", minimum=0, maximum=9
    ),
    setting(
        "egressPhase", INTEGER, "Phase for consumers, in place of the one that waypoint gives.", minimum=0, maximum=9
    ),
    setting("priority", INTEGER, "Priority of all messages sent here, in place of their own.", minimum=0, maximum=9),
    setting("enableFallback", BOOLEAN, "Give undeliverable messages to a fallback destination.", default=False),
    operations=("CREATE", "DELETE"),
    aliases=("address",),
)

LINK_ROUTE = configuration(
    "router.config.linkRoute",
    "Attaches with matching addresses are passed on, link by link, to a remote container.",
    setting("prefix", STRING, _PREFIX),
    setting("pattern", STRING, _PATTERN),
    setting("addExternalPrefix", STRING, "Text put before the address towards the remote container."),
    setting("delExternalPrefix", STRING, "Text taken off the start of the address towards the remote container."),
    setting("containerId", STRING, _CONTAINER),
    setting("connection", STRING, _CONNECTION),
    setting(
        "distribution", ("linkBalanced",), "How attaches are shared among several destinations.", default="linkBalanced"
    ),
    setting(
        "direction",
        (*DIRECTIONS, "both"),
        "in: links of client senders; out: links of client receivers; both: links of either.",
        required=True,
        deprecated_name="dir",
    ),
    reported("operStatus", ("inactive", "active"), "active while the remote container is connected."),
    count("linkCount", "Links that go to the remote container now."),
    operations=("CREATE", "DELETE"),
    aliases=("linkRoute",),
)

AUTO_LINK = configuration(
    "router.config.autoLink",
    "A link that the router itself attaches to a remote container whenever that is connected.",
    setting("address", STRING, "Address of the link within the mesh.", required=True, deprecated_name="addr"),
    setting(
        "direction",
        DIRECTIONS,
        "in: from the container into the mesh; out: from the mesh to the container.",
        required=True,
        deprecated_name="dir",
    ),
    setting("phase", INTEGER, "Phase of the address; unless given, 1 for in and 0 for out.", minimum=0, maximum=9),
    setting("containerId", STRING, _CONTAINER),
    setting("connection", STRING, _CONNECTION),
    setting(
        "externalAddress",
        STRING,
        "Address of the node in the remote container, where it differs.",
        deprecated_name="externalAddr",
    ),
    setting("fallback", BOOLEAN, "The link is the fallback destination of the address.", default=False),
    reported("linkRef", STRING, "Identity of the router.link, while there is one."),
    reported(
        "operStatus",
        ("inactive", "attaching", "failed", "active", "quiescing", "idle"),
        "inactive: not connected; attaching; failed: refused; active: attached; quiescing, idle: running down.",
    ),
    reported("lastError", STRING, "Why the last attach failed."),
    changeable(
        "quiescing",
        BOOLEAN,
        "Take no more messages, and be removed when all under way are settled; false before that takes it back.",
        default=False,
    ),
    operations=("CREATE", "UPDATE", "DELETE"),
    aliases=("autoLink",),
)

CONNECTION_LINK_ROUTE = configuration(
    "router.connection.linkRoute",
    "A link route that belongs to the connection that created it and goes with it.",
    setting("pattern", STRING, "Addresses that match token by token.", required=True),
    setting("direction", DIRECTIONS, "in: links of client senders; out: links of client receivers.", required=True),
    reported("containerId", STRING, "Container id of the connection's peer."),
    operations=("CREATE", "DELETE"),
    configurable=False,
)
