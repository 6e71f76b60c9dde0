"""Entities of addresses: their configuration, link routes, autolinks, exchanges and bindings."""

from __future__ import annotations

from .model import BOOLEAN, INTEGER, MAP, STRING, changeable, configuration, count, reported, setting

DISTRIBUTIONS = ("multicast", "closest", "balanced", "unavailable")
DIRECTIONS = ("in", "out")

_PREFIX = (
    "Matches addresses equal to this text or continuing it after a separator, . or /; separators at its start and end "
    "do not count. Not together with pattern."
)
_PATTERN = (
    "Matches addresses token by token, separated by . or /; * matches one token, # any number of tokens. "
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
        "Route through a broker's queue: producers send to phase 0, consumers receive from phase 1. Clients can take "
        "the place of the queue: links with the capability qd.waypoint receive from phase 0 and send to phase 1.",
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
    setting(
        "exclusive",
        BOOLEAN,
        "One consumer in the mesh gets all messages: the one that attached first, and when it has left, the next one "
        "in order. Needs distribution balanced, and neither waypoint nor phases.",
        default=False,
    ),
    setting(
        "messageGroups",
        BOOLEAN,
        "All messages with the same group-id (AMQP properties) go to one consumer of the mesh as long as it is "
        "attached. Needs distribution balanced, and neither waypoint nor phases nor exclusive.",
        default=False,
    ),
    setting(
        "concurrency",
        INTEGER,
        "Number of messages that each client works on at a time, unless the attach of its receiver says otherwise "
        "(link property concurrency). It gets these and half as many more, whatever its credit. Needs distribution "
        "balanced, and not exclusive. Default: unknown; it is measured.",
        minimum=1,
        maximum=65535,
    ),
    setting(
        "expired",
        ("reject", "drop"),
        "What becomes of messages that wait for a consumer when their ttl or absolute-expiry-time has passed. reject: "
        "they are rejected (amqp:precondition-failed); drop: they are accepted and dropped, as brokers do. Pre-settled "
        "ones are dropped.",
        default="reject",
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
    setting("selector", STRING, "Direction in: selector of the container; it sends only messages that match."),
    setting(
        "noLocal",
        BOOLEAN,
        "Direction in: do not receive messages that came to the container over the same connection.",
        default=False,
    ),
    setting(
        "distributionMode",
        ("move", "copy"),
        "Direction in: move consumes messages; copy browses, which leaves them in the queue. Default: the container "
        "decides.",
    ),
    setting("capabilities", STRING, "Capabilities to ask of the container's terminus, separated by blanks."),
    setting("linkProperties", MAP, "Properties of the attach, as a JSON map; values: strings, integers, booleans."),
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
    setting("address", STRING, "Address whose messages the exchange receives.", required=True),
    setting("phase", INTEGER, "Phase of the address.", default=0, minimum=0, maximum=9),
    setting("alternateAddress", STRING, "Address for messages without another recipient. Default: they are released."),
    setting("alternatePhase", INTEGER, "Phase of alternateAddress.", default=0, minimum=0, maximum=9),
    setting(
        "matchMethod",
        ("amqp", "mqtt"),
        "Form of binding keys. amqp: tokens separated by ., * for one token, # for any number; mqtt: /, + and #.",
        default="amqp",
    ),
    count("bindingCount", "Bindings of the exchange."),
    count("receivedCount", "Messages received."),
    count("droppedCount", "Messages without a recipient: released, or dropped if they were pre-settled."),
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
    "A link route that a connected container created for its own connection. It ends with the connection.",
    setting("pattern", STRING, "Matches addresses token by token.", required=True),
    setting("direction", DIRECTIONS, "in: client senders; out: client receivers.", required=True),
    reported("containerId", STRING, "Container-id of the connection's peer."),
    reported("connectionId", STRING, "Identity of the connection."),
    operations=("CREATE", "DELETE"),
    configurable=False,
)
