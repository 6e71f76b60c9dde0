"""Entities of the router itself: router and log."""

from __future__ import annotations

from .loglevels import LOG_MODULES
from .model import BOOLEAN, INTEGER, PATH, STRING, changeable, configuration, count, reported, setting
from .table_addresses import DISTRIBUTIONS

STANDARD_OUTPUTS = ("stderr", "stdout", "syslog")
"""Log outputs that are not files."""

MAX_BYTES = 1 << 50

ROUTER = configuration(
    "router",
    "The router: identity, role in the mesh, settings and counters.",
    setting(
        "id",
        STRING,
        "Router id, unique in the mesh; required except in standalone mode.",
        deprecated_name="routerId",
    ),
    setting(
        "mode",
        ("standalone", "interior", "edge"),
        "standalone: without other routers; interior: part of a mesh; edge: connected to an interior router.",
        default="standalone",
    ),
    reported("area", STRING, "Routing area, always 0."),
    reported("version", STRING, "Version of the router software."),
    reported("hostName", STRING, "Host name of the router's machine."),
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
        "Seconds without data after which a neighbour is lost.",
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
        "Seconds after which the link state of a silent router is dropped.",
        default=60,
        minimum=1,
        deprecated_name="remoteLsMaxAge",
    ),
    setting(
        "mobileAddrMaxAge",
        INTEGER,
        "Not used; known from old versions of Qpid Dispatch.",
        deprecated=True,
        minimum=0,
        without_effect="it has none in Qpid Dispatch either; remove it",
    ),
    setting(
        "workerThreads",
        INTEGER,
        "Threads of the router: one handles messages; each further one reads, decrypts, encrypts and writes for "
        "connections over TLS with much traffic. No more than the process has cores have an effect, and one if the "
        "engine is interpreted.",
        default=1,
        minimum=1,
    ),
    setting(
        "debugDumpFile",
        PATH,
        "File for debug output.",
        deprecated_name="debugDump",
        without_effect="debug output to a file is not supported; use the entity log",
    ),
    setting("saslConfigDir", PATH, "Folder with the SASL configuration.", deprecated_name="saslConfigPath"),
    setting("saslConfigName", STRING, "Name of the SASL configuration, without its .conf ending.", default="qdrouterd"),
    setting(
        "allowUnsettledMulticast",
        BOOLEAN,
        "Accept unsettled deliveries of clients to multicast addresses; no: they are rejected.",
        default=True,
    ),
    setting(
        "allowResumableLinkRoute",
        BOOLEAN,
        "Allow link routing of links whose terminus outlives the connection: with a timeout, or with the expiry policy "
        "connection-close or never.",
        default=True,
    ),
    setting("timestampsInUTC", BOOLEAN, "Write log times in UTC instead of local time.", default=False),
    setting("timestampFormat", STRING, "strftime format of log times."),
    setting(
        "logBufferLines",
        INTEGER,
        "Number of recent log lines that GET-LOG can return.",
        default=4096,
        minimum=0,
        maximum=1_000_000,
    ),
    setting(
        "defaultDistribution",
        DISTRIBUTIONS,
        "Distribution of addresses that no address entity matches.",
        default="balanced",
    ),
    setting(
        "maxBufferedBytes",
        INTEGER,
        "Maximum size of all waiting messages, in bytes: each counts its own bytes and 360 for its record. Above it, "
        "the session windows of clients stay closed until half of it is free. Far above it, the client with the most "
        "bytes is disconnected. 0: a quarter of maxMemory, if set, else of the memory that the process may use; at "
        "least 16 MiB and at most 1 GiB.",
        default=0,
        minimum=0,
        maximum=MAX_BYTES,
    ),
    setting(
        "maxBufferedBytesPerConnection",
        INTEGER,
        "The same for messages of one connection; 0: a quarter of maxBufferedBytes.",
        default=0,
        minimum=0,
        maximum=MAX_BYTES,
    ),
    setting(
        "maxBufferedBytesPerLink",
        INTEGER,
        "The same for messages of one link; 0: a sixteenth of maxBufferedBytes, at most 8 MiB.",
        default=0,
        minimum=0,
        maximum=MAX_BYTES,
    ),
    setting(
        "maxMemory",
        INTEGER,
        "Maximum resident memory of the process, in bytes. From 80 % of it, new links of clients get no credit; "
        "from 100 %, new connections and links of clients are refused with amqp:resource-limit-exceeded. Links for "
        "management, connections at listeners with management: write, and those between routers are not limited. "
        "Each state ends when memory use is 5 % of the limit below its start. 0: no limit. Absent: 85 % of the limit "
        "of the control group (container), if it has one.",
        minimum=0,
        maximum=MAX_BYTES,
        update=True,
    ),
    setting(
        "stuckAfterSeconds",
        INTEGER,
        "Seconds after which the router reports a link: events delivery.stuck, if deliveries sent on it are unsettled, "
        "and link.blocked, if deliveries wait for it and it takes none. 0: never.",
        default=10,
        minimum=0,
        maximum=1_000_000,
        update=True,
    ),
    setting("metadata", STRING, "Free text, shown by tools; the router does not use it."),
    changeable(
        "draining",
        BOOLEAN,
        "yes: move clients to other routers: accept no new clients and no messages, and close connections when all "
        "deliveries are settled. no: serve clients again.",
        default=False,
    ),
    setting(
        "drainTimeoutSeconds",
        INTEGER,
        "Seconds for deliveries to be settled after draining was set.",
        default=30,
        minimum=0,
        update=True,
    ),
    setting(
        "clientShare",
        INTEGER,
        "Number of client connections to keep. Above it, the router closes connections that were open "
        "clientShareSeconds before the change: the oldest first, when no delivery is in progress on them, at most "
        "twelve per second. It does so once for each change. 0: it closes none. The operator sets it "
        "(docs/balance.md).",
        default=0,
        minimum=0,
        update=True,
    ),
    setting(
        "clientShareSeconds",
        INTEGER,
        "Minimum age of the connections that clientShare may close.",
        default=0,
        minimum=0,
        update=True,
    ),
    count("clientConnections", "Open connections of clients, without those for management alone."),
    count("clientConnectionsMoved", "Connections of clients that were closed because of clientShare."),
    reported(
        "clientsMoving",
        BOOLEAN,
        "Connections of clients are being closed because of clientShare, or were in the last 10 s.",
    ),
    count("clientShareAge", "Minimum age in seconds, at present, of the connections that clientShare may close."),
    reported(
        "drainStatus", ("none", "draining", "drained"), "drained: the router has no clients and routes nothing."
    ),
    count("unsettledDeliveries", "Deliveries of clients that wait for an outcome or a consumer."),
    count("connectionCount", "Open connections."),
    count("linkCount", "Attached links."),
    count("nodeCount", "Other routers known in the mesh."),
    count("addrCount", "Addresses known to this router."),
    count("linkRouteCount", "Link routes, also those of connections."),
    count("autoLinkCount", "Configured autolinks."),
    count("presettledDeliveries", "Pre-settled deliveries that arrived from clients, also those that were dropped."),
    count("droppedPresettledDeliveries", "Pre-settled deliveries dropped for lack of space or of a consumer."),
    count("acceptedDeliveries", "Deliveries that ended accepted."),
    count("rejectedDeliveries", "Deliveries that ended rejected."),
    count("releasedDeliveries", "Deliveries that ended released."),
    count("modifiedDeliveries", "Deliveries that ended modified."),
    count("deliveriesDelayed1Sec", "Deliveries of clients of this router settled after 1 to 10 seconds."),
    count("deliveriesDelayed10Sec", "Deliveries of clients of this router settled after more than 10 seconds."),
    count("deliveriesStuck", "Deliveries unsettled now for more than 10 seconds, counted at both links of each."),
    count("deliveriesIngress", "Deliveries that entered the mesh at this router."),
    count("deliveriesEgress", "Deliveries that left the mesh at this router."),
    count("deliveriesTransit", "Deliveries passed on to another router."),
    count("deliveriesIngressRouteContainer", "Deliveries that came from route containers."),
    count("deliveriesEgressRouteContainer", "Deliveries that went to route containers."),
    count("deliveriesRedirectedToFallback", "Deliveries sent to a fallback destination."),
    count("expiredDeliveries", "Deliveries that expired while they waited for a consumer."),
    count("linksBlocked", "Links without credit for more than 10 seconds."),
    count("bufferedBytes", "Bytes of messages that wait for consumers, as maxBufferedBytes counts them."),
    count("linksHeld", "Links whose session windows are closed because too many of their bytes wait."),
    count("uptimeSeconds", "Seconds since the router started."),
    count("memoryUsage", "Bytes of resident memory of the process; null if unknown."),
    count("memoryLimit", "Bytes of resident memory that maxMemory or its default allows; 0: no limit."),
    reported(
        "memoryState",
        ("normal", "high", "full"),
        "high: new links of clients get no credit; full: new connections and links of clients are refused.",
    ),
    count("linksAwaitingMemory", "Links of clients that get no credit until memoryState is normal."),
    count("connectionsRefusedMemory", "Connections refused because memoryState was full."),
    count("connectionsRefusedListener", "Connections refused because of maxConnections of their listener."),
    count(
        "edgesWithoutGroup",
        "Connections of edge routers that may use and route all addresses, as no user group of the policy names them.",
    ),
    operations=("UPDATE",),
    singleton=True,
)

LOG = configuration(
    "log",
    "Levels, format and output of a log module. The settings of module DEFAULT apply where others have none.",
    setting("module", LOG_MODULES, "Name of the log module.", required=True, unique=True),
    setting(
        "enable",
        STRING,
        "Levels to write, separated by commas; info+ means info and above; none: nothing; default: as in module "
        "DEFAULT.",
        default="default",
        update=True,
    ),
    setting("includeTimestamp", BOOLEAN, "Start each line with the time.", update=True, deprecated_name="timestamp"),
    setting(
        "includeSource", BOOLEAN, "End each line with the source file and line.", update=True, deprecated_name="source"
    ),
    setting(
        "format",
        ("text", "json"),
        "text: lines as in Qpid Dispatch, with the event at the end; json: an object in each line, with time, module, "
        "level, text and the members of the event.",
        update=True,
    ),
    setting(
        "outputFile",
        STRING,
        "stderr, stdout, syslog, or the path of a file to append to.",
        update=True,
        on_host=lambda output: output not in STANDARD_OUTPUTS,
        deprecated_name="output",
    ),
    setting(
        "maxMegabytes",
        INTEGER,
        "Maximum size of the outputFile of this entity, in millions of bytes. Before it grows larger, it is renamed to "
        "FILE.1, FILE.1 to FILE.2 and so on. Not for stderr, stdout and syslog. Absent: no limit.",
        minimum=1,
        maximum=1_000_000,
        update=True,
    ),
    setting(
        "keptFiles",
        INTEGER,
        "Number of renamed files to keep, 5 if absent; the oldest are deleted. Needs maxMegabytes.",
        minimum=1,
        maximum=100,
        update=True,
    ),
    operations=("UPDATE",),
)
