"""Entities of the router itself: router, log, and how addresses and links are routed."""

from __future__ import annotations

from .loglevels import LOG_MODULES
from .model import BOOLEAN, INTEGER, MAP, PATH, STRING, changeable, configuration, count, reported, setting

DISTRIBUTIONS = ("multicast", "closest", "balanced", "unavailable")
DIRECTIONS = ("in", "out")
STANDARD_OUTPUTS = ("stderr", "stdout", "syslog")
"""Outputs of a log that are no files."""

MOST_BYTES = 1 << 50

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
        ("standalone", "interior"),
        "standalone: without other routers; interior: part of a mesh.",
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
        only_default="it has no effect any more; remove it",
    ),
    setting(
        "workerThreads",
        INTEGER,
        "Threads that handle messages.",
        default=1,
        minimum=1,
        only_default="a router uses one thread; remove it, and run more routers for more load",
    ),
    setting(
        "debugDumpFile",
        PATH,
        "File for debug output.",
        deprecated_name="debugDump",
        only_default="debug output to a file is not supported; use the entity log",
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
        "Maximum size of all waiting messages, in bytes. Beyond it, clients are held: their session windows stay "
        "closed until half of it is free. 0: a quarter of the memory that the process may use, at least 16 MiB and at "
        "most 1 GiB.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting(
        "maxBufferedBytesPerConnection",
        INTEGER,
        "The same for messages of one connection; 0: a quarter of maxBufferedBytes.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting(
        "maxBufferedBytesPerLink",
        INTEGER,
        "The same for messages of one link; 0: a sixteenth of maxBufferedBytes, at most 8 MiB.",
        default=0,
        minimum=0,
        maximum=MOST_BYTES,
    ),
    setting("metadata", STRING, "Free text, shown by tools; the router does not use it."),
    changeable(
        "draining",
        BOOLEAN,
        "yes: hand clients over to other routers: accept no new clients and no messages, and close connections when "
        "all deliveries are settled. no: serve clients again.",
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
    count("presettledDeliveries", "Pre-settled deliveries handled."),
    count("droppedPresettledDeliveries", "Pre-settled deliveries dropped for lack of room or of a consumer."),
    count("acceptedDeliveries", "Deliveries that ended accepted."),
    count("rejectedDeliveries", "Deliveries that ended rejected."),
    count("releasedDeliveries", "Deliveries that ended released."),
    count("modifiedDeliveries", "Deliveries that ended modified."),
    count("deliveriesDelayed1Sec", "Deliveries of clients of this router settled after 1 to 10 seconds."),
    count("deliveriesDelayed10Sec", "Deliveries of clients of this router settled after more than 10 seconds."),
    count("deliveriesStuck", "Deliveries of clients of this router unsettled now for more than 10 seconds."),
    count("deliveriesIngress", "Deliveries that entered the mesh at this router."),
    count("deliveriesEgress", "Deliveries that left the mesh at this router."),
    count("deliveriesTransit", "Deliveries passed on to another router."),
    count("deliveriesIngressRouteContainer", "Deliveries that came from route containers."),
    count("deliveriesEgressRouteContainer", "Deliveries that went to route containers."),
    count("deliveriesRedirectedToFallback", "Deliveries sent to a fallback destination."),
    count("linksBlocked", "Links without credit for more than 10 seconds."),
    count("bufferedBytes", "Bytes of messages that wait for consumers."),
    count("linksHeld", "Links whose sessions are held because too many of their bytes wait."),
    count("uptimeSeconds", "Seconds since the router started."),
    count("memoryUsage", "Bytes of resident memory of the process; null if unknown."),
    operations=("UPDATE",),
    singleton=True,
)

LOG = configuration(
    "log",
    "What a log module writes, and where. The module DEFAULT has the settings for all others.",
    setting("module", LOG_MODULES, "Name of the log module.", required=True, unique=True),
    setting(
        "enable",
        STRING,
        "Levels to write, by comma; info+ means info and above; none: nothing; default: as in module DEFAULT.",
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
        "text: lines as of Qpid Dispatch; json: an object in each line, with time, module, level and text.",
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
        "Rename the outputFile of this entity to FILE.1, FILE.1 to FILE.2 and so on, and begin a new one, before it "
        "gets larger than this number of millions of bytes. Not for stderr, stdout and syslog. Absent: it grows.",
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

_PREFIX = "Addresses that are equal to this or continue it after a separator. Not together with pattern."
_PATTERN = (
    "Addresses that match token by token, separated by . or /; * matches one token, # any number of tokens. "
    "Not together with prefix."
)
_CONTAINER = "Container-id of the remote container. Not together with connection."
_CONNECTION = "Name of the connector or listener of the connection. Not together with containerId."

ADDRESS = configuration(
    "router.config.address",
    "How messages to matching addresses are distributed.",
    setting("prefix", STRING, _PREFIX, unique=True),
    setting("pattern", STRING, _PATTERN, unique=True),
    setting("distribution", DISTRIBUTIONS, "Which consumers get a message.", default="balanced"),
    setting(
        "waypoint",
        BOOLEAN,
        "Route through a broker's queue: producers send to phase 0, consumers receive from phase 1. Clients can be the "
        "queue: links with the capability qd.waypoint receive from phase 0 and send to phase 1.",
        default=False,
    ),
    setting(
        "ingressPhase", INTEGER, "Phase for producers, instead of the one that waypoint sets.", minimum=0, maximum=9
    ),
    setting(
        "egressPhase", INTEGER, "Phase for consumers, instead of the one that waypoint sets.", minimum=0, maximum=9
    ),
    setting("priority", INTEGER, "Priority of messages to the address, instead of their own.", minimum=0, maximum=9),
    setting(
        "enableFallback",
        BOOLEAN,
        "Send messages without a consumer to the fallback destination: autolinks with fallback, or links of clients "
        "with the capability qd.fallback.",
        default=False,
    ),
    operations=("CREATE", "DELETE"),
    aliases=("address",),
)

LINK_ROUTE = configuration(
    "router.config.linkRoute",
    "Links with matching addresses are connected to a remote container.",
    setting("prefix", STRING, _PREFIX),
    setting("pattern", STRING, _PATTERN),
    setting("addExternalPrefix", STRING, "Text to add at the start of the address for the remote container."),
    setting("delExternalPrefix", STRING, "Text to remove at the start of the address for the remote container."),
    setting("containerId", STRING, _CONTAINER),
    setting("connection", STRING, _CONNECTION),
    setting(
        "distribution", ("linkBalanced",), "How links are distributed over several containers.", default="linkBalanced"
    ),
    setting(
        "direction",
        (*DIRECTIONS, "both"),
        "in: client senders; out: client receivers; both.",
        required=True,
        deprecated_name="dir",
    ),
    reported("operStatus", ("inactive", "active"), "active while the remote container is connected."),
    count("linkCount", "Current links to the remote container."),
    operations=("CREATE", "DELETE"),
    aliases=("linkRoute",),
)

AUTO_LINK = configuration(
    "router.config.autoLink",
    "A link that the router attaches to a remote container whenever it is connected.",
    setting("address", STRING, "Address of the link in the mesh.", required=True, deprecated_name="addr"),
    setting(
        "direction",
        DIRECTIONS,
        "in: from the container into the mesh; out: from the mesh to the container.",
        required=True,
        deprecated_name="dir",
    ),
    setting("phase", INTEGER, "Phase of the address. Default: 1 for in, 0 for out.", minimum=0, maximum=9),
    setting("containerId", STRING, _CONTAINER),
    setting("connection", STRING, _CONNECTION),
    setting(
        "externalAddress",
        STRING,
        "Address in the remote container, if it differs.",
        deprecated_name="externalAddr",
    ),
    setting("fallback", BOOLEAN, "Use the link as the fallback destination of the address.", default=False),
    setting("selector", STRING, "Direction in: take only messages that this expression of the container selects."),
    setting(
        "noLocal",
        BOOLEAN,
        "Direction in: take no messages that came to the container over the same connection.",
        default=False,
    ),
    setting(
        "distributionMode",
        ("move", "copy"),
        "Direction in: move takes messages from the queue; copy browses, which leaves them there. "
        "Default: the container decides.",
    ),
    setting("capabilities", STRING, "Capabilities to ask of the container's terminus, separated by blanks."),
    setting("linkProperties", MAP, "Properties of the attach, as a JSON map; values: text, whole numbers, booleans."),
    reported("linkRef", STRING, "Identity of the router.link, if attached."),
    reported(
        "operStatus",
        ("inactive", "attaching", "failed", "active", "quiescing", "idle"),
        "inactive: not connected; attaching; failed: refused; active: attached; quiescing, idle: being removed.",
    ),
    reported("lastError", STRING, "Reason why the last attach failed."),
    changeable(
        "quiescing",
        BOOLEAN,
        "Stop: take no more messages, settle those in progress, then delete the autolink. false cancels it.",
        default=False,
    ),
    operations=("CREATE", "UPDATE", "DELETE"),
    aliases=("autoLink",),
)

EXCHANGE = configuration(
    "router.config.exchange",
    "Copies the messages to an address to the next hops of bindings that match their subject.",
    setting("address", STRING, "Address whose messages the exchange takes.", required=True),
    setting("phase", INTEGER, "Phase of the address.", default=0, minimum=0, maximum=9),
    setting("alternateAddress", STRING, "Address for messages that nobody else takes. Default: they are released."),
    setting("alternatePhase", INTEGER, "Phase of alternateAddress.", default=0, minimum=0, maximum=9),
    setting(
        "matchMethod",
        ("amqp", "mqtt"),
        "Form of binding keys. amqp: tokens separated by ., * for one token, # for any number; mqtt: /, + and #.",
        default="amqp",
    ),
    count("bindingCount", "Bindings of the exchange."),
    count("receivedCount", "Messages received."),
    count("droppedCount", "Messages that nobody took: released, or dropped if they were pre-settled."),
    count("forwardedCount", "Messages sent to at least one consumer of the address or one next hop."),
    count("divertedCount", "Messages sent to the alternate address."),
    operations=("CREATE", "DELETE"),
    aliases=("exchange",),
)

BINDING = configuration(
    "router.config.binding",
    "A key of an exchange, and the address for messages whose subject matches it.",
    setting("exchangeName", STRING, "Name of the exchange, on the same router.", required=True),
    setting("bindingKey", STRING, "Pattern for subjects, see matchMethod.", default="#"),
    setting("nextHopAddress", STRING, "Address that gets a copy.", required=True),
    setting("nextHopPhase", INTEGER, "Phase of nextHopAddress.", default=0, minimum=0, maximum=9),
    count("matchedCount", "Messages that matched the key."),
    operations=("CREATE", "DELETE"),
    aliases=("binding",),
)

CONNECTION_LINK_ROUTE = configuration(
    "router.connection.linkRoute",
    "A link route to the connection whose container created it by a request on it. It ends with the connection.",
    setting("pattern", STRING, "Addresses that match token by token.", required=True),
    setting("direction", DIRECTIONS, "in: client senders; out: client receivers.", required=True),
    reported("containerId", STRING, "Container-id of the connection's peer."),
    reported("connectionId", STRING, "Identity of the connection."),
    operations=("CREATE", "DELETE"),
    configurable=False,
)
