"""Entities of the network: listeners and connectors."""

from __future__ import annotations

from .model import (
    BOOLEAN,
    INTEGER,
    MAP,
    PATH,
    PORT,
    PROPERTIES,
    STRING,
    Attribute,
    configuration,
    reported,
    setting,
)
from .password import names_place
from .table_limits import LISTENER_LIMITS
from .table_policy import MANAGEMENT

ROLES = ("normal", "inter-router", "route-container", "edge")
MAX_UINT = 2**32 - 1
MAX_INT = 2**31 - 1

_SHARED: tuple[Attribute, ...] = (
    setting(
        "socketAddressFamily",
        ("IPv4", "IPv6"),
        "Use only this address family. Default: both.",
        deprecated_name="protocolFamily",
    ),
    setting(
        "role",
        ROLES,
        "Kind of peer: a client (normal), an interior router, a broker (route-container), or, at a listener, an edge "
        "router. A listener of role edge serves clients, too.",
        default="normal",
    ),
    setting(
        "cost",
        INTEGER,
        "Cost of the connection, for role inter-router. Messages take the path with the lowest total cost.",
        default=1,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting("sslProfile", STRING, "Name of the sslProfile; without it, the connection does not use TLS."),
    setting("saslMechanisms", STRING, "SASL mechanisms, separated by blanks. Default: all possible ones."),
    setting("maxFrameSize", INTEGER, "Maximum size of received frames.", default=16384, minimum=512, maximum=MAX_UINT,
            clamped="minimum"),
    setting(
        "maxSessions",
        INTEGER,
        "Maximum number of sessions; 0: the default.",
        default=32768,
        minimum=0,
        maximum=65536,
        clamped="maximum",
    ),
    setting(
        "maxSessionFrames",
        INTEGER,
        "Session window in frames; 0 or not set: 256, and for clients three times maxBufferedBytesPerLink while "
        "nothing waits, within the budgets.",
        minimum=0,
        maximum=MAX_UINT,
    ),
    setting(
        "idleTimeoutSeconds",
        INTEGER,
        "Close the connection after this many seconds without a complete frame (or 16 KiB of a longer one); at least 4 "
        "for role route-container; 0: never.",
        default=16,
        minimum=0,
        maximum=MAX_INT // 1000,
    ),
    setting(
        "stripAnnotations",
        ("in", "out", "both", "no"),
        "Remove router annotations from incoming messages, from outgoing ones, from both, or from none.",
        default="both",
    ),
    setting(
        "linkCapacity",
        INTEGER,
        "Credit window: maximum number of unsettled deliveries on a link.",
        default=250,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting(
        "messageLoggingComponents",
        STRING,
        "Message parts that the module MESSAGE logs at level trace: none, all, or names of properties (app-properties "
        "for the application properties), separated by commas.",
        default="none",
        deprecated_name="logMessage",
    ),
    setting(
        "openContainerId",
        STRING,
        "Container-id in the open, instead of the router id; not for the roles inter-router and edge. Brokers store "
        "durable subscriptions under it: if several routers have the same value, clients find their subscriptions "
        "through each of these.",
    ),
    setting(
        "durableNames",
        ("user", "container"),
        "Whose durable subscriptions over link routes are kept apart at the peer: those of each authenticated user, or "
        "only those of each container-id of clients, so that another user with the same one gets the subscription and "
        "its messages. Without a value: container, with a warning. Not for the roles inter-router and edge.",
    ),
    setting("openProperties", PROPERTIES, "Connection properties to send in the open, as a JSON map."),
)

LISTENER = configuration(
    "listener",
    "Accepts connections at a host and port.",
    setting(
        "policyVhost",
        STRING,
        "Name of the vhost whose policy applies to the connections, instead of the host name in the client's open. An "
        "update applies to new connections.",
        update=True,
    ),
    setting(
        "host",
        STRING,
        "Address or host name to listen on; empty: all local addresses.",
        default="",
        deprecated_name="addr",
    ),
    setting("port", PORT, "Port number or service name; 0: any free port.", default="amqp"),
    *_SHARED,
    setting(
        "authenticatePeer",
        BOOLEAN,
        "Require authentication: ANONYMOUS is neither offered nor accepted, whatever saslMechanisms allows, and a "
        "peer without SASL is refused.",
        default=False,
    ),
    setting(
        "allowInsecurePlain",
        BOOLEAN,
        "Offer and accept SASL PLAIN also on connections without TLS, where others can read the password.",
        default=False,
    ),
    setting(
        "tokenProfile",
        STRING,
        "Name of the tokenProfile: TLS clients may log in by the SASL mechanisms OAUTHBEARER and XOAUTH2, and are "
        "disconnected when their token expires. Needs an sslProfile.",
    ),
    setting(
        "usersFile",
        PATH,
        "Absolute path of a file with the users of this listener and their passwords, instead of that of the router "
        "(saslConfigDir, saslConfigName). It is read again when it has changed.",
    ),
    setting(
        "saslPlugin",
        STRING,
        "Name of the authServicePlugin that decides on clients, except those that log in by a client certificate "
        "(EXTERNAL) or by a token (tokenProfile). Not with usersFile; the users of the router are not used.",
    ),
    setting(
        "requireEncryption",
        BOOLEAN,
        "Accept only encrypted connections. SASL security layers are not supported, so this needs an sslProfile and "
        "accepts only TLS connections.",
        default=False,
    ),
    setting("requireSsl", BOOLEAN, "Accept only TLS connections; needs an sslProfile.", default=False),
    setting(
        "management",
        MANAGEMENT,
        "Management requests that clients may send to this router, and through it to others: none (links to "
        "$management are refused, and messages to it rejected), those that change nothing (read), or all (write). "
        "Default: write for authenticated users and clients from a loopback address, read for others.",
    ),
    setting(
        "managementFiles",
        BOOLEAN,
        "Management requests at this listener may name files and environment variables of the router's machine. For a "
        "listener that only an operator can reach.",
        default=False,
        on_host=bool,
    ),
    setting(
        "trustedCertsFile",
        PATH,
        "PEM file of certificate authorities for client certificates, instead of that of the sslProfile.",
        deprecated=True,
        deprecated_name="trustedCerts",
    ),
    setting(
        "peerNames",
        STRING,
        "DNS names, separated by blanks. Only TLS clients whose certificate has one of them (subject alternative name) "
        "are accepted. A leading `*` matches one label. Needs an sslProfile with caCertFile. An update applies to new "
        "connections, with recheckPeers also to open ones.",
        update=True,
    ),
    setting(
        "recheckPeers",
        BOOLEAN,
        "Close open connections whose client certificate expires, or would be refused after a change of peerNames or "
        "of the trusted authorities. The intermediate authorities of its chain are not checked again. For listeners to "
        "which the routers of other meshes connect; needs an sslProfile and client certificates. An extension of "
        "Waymesh.",
        default=False,
        update=True,
    ),
    setting(
        "sslProfilesByHost",
        MAP,
        "JSON map of host names to sslProfiles: the profile, with all its settings, for TLS clients that ask for this "
        "host (SNI). A leading `*` matches one label; an exact name takes precedence. Clients that ask for another "
        "host or for none get that of sslProfile, which is required.",
    ),
    *LISTENER_LIMITS,
    setting(
        "strictEdges",
        BOOLEAN,
        "Refuse edge routers without a user group of the policy. Otherwise, they may use and route all addresses, with "
        "a warning. For role edge.",
        default=False,
    ),
    setting(
        "multiTenant",
        BOOLEAN,
        "Each vhost has its own address space: the address x of a client is VHOST/x in the mesh. The vhost is the one "
        "with the name or alias policyVhost, else with the host name in the client's open; if there is none, this name "
        "stands for it. Requires role normal, stripAnnotations in or both and "
        "no routeAddress, with http also metrics: no. With management: read, tenants may read their own entities; "
        "otherwise they may not send management requests.",
        default=False,
    ),
    setting(
        "aliasSpaces",
        BOOLEAN,
        "With multiTenant: each alias of a vhost has an address space of its own. An extension of Waymesh.",
        default=False,
    ),
    setting(
        "failoverUrls",
        STRING,
        "Alternative URLs (amqp, amqps, ws, wss), separated by commas, that clients get in the open. An update applies "
        "to new connections.",
        update=True,
        deprecated_name="failoverList",
    ),
    setting(
        "routeAddress",
        STRING,
        "Address of a link route for links without an address (temporary queues, anonymous producers, ending of "
        "subscriptions, transactions): they go to the containers of this link route, whose capabilities are offered to "
        "the clients.",
    ),
    setting("openCapabilities", STRING, "Additional capabilities, separated by blanks, that are offered to clients."),
    setting("healthz", BOOLEAN, "With http: answer /healthz.", default=True),
    setting("metrics", BOOLEAN, "With http: answer /metrics.", default=True),
    setting(
        "websockets",
        BOOLEAN,
        "With http: accept AMQP over WebSocket (subprotocol amqp), with the AMQP settings of the listener.",
        default=True,
    ),
    setting(
        "allowedOrigins",
        STRING,
        "With websockets: origins, separated by blanks, of web pages whose scripts may open a WebSocket, besides that "
        "of the listener itself: https://HOST[:PORT], or * for all. Clients other than browsers send no origin and are "
        "accepted. An extension of Waymesh.",
    ),
    setting("http", BOOLEAN, "Serve HTTP, and AMQP only over WebSocket.", default=False),
    setting(
        "console",
        BOOLEAN,
        "With http and websockets: serve the console at /console/, and the REST API at /api/v1/. Both ask the routers "
        "over AMQP, with the rights of their user. An extension of Waymesh.",
        default=False,
    ),
    setting(
        "httpRootDir",
        PATH,
        "Absolute path of a folder whose files are served, except files whose names begin with a dot, and links to "
        "files elsewhere. There are no listings. Implies http: yes.",
        deprecated_name="httpRoot",
    ),
    operations=("CREATE", "UPDATE", "DELETE"),
)

CONNECTOR = configuration(
    "connector",
    "A connection that the router opens and keeps open.",
    setting(
        "policyVhost",
        STRING,
        "Name of a vhost, whose user group $connector says which links the peer may attach; without this group, none. "
        "Not for the roles inter-router and edge.",
    ),
    setting("host", STRING, "Address or name to connect to.", default="127.0.0.1", deprecated_name="addr"),
    setting("port", PORT, "Port number or service name.", default="amqp"),
    *_SHARED,
    setting("openHostname", STRING, "Host name in the open if it differs from host: a broker's virtual host."),
    setting(
        "allowRedirect",
        BOOLEAN,
        "Follow redirects of the peer.",
        default=False,
        only_default="redirects are not supported; list all hosts in failoverUrls",
    ),
    setting(
        "management",
        MANAGEMENT,
        "Management requests that the peer may send over the connection: none, read or all (write).",
        default="none",
    ),
    setting(
        "verifyHostname",
        BOOLEAN,
        "Check that the peer's certificate is for the host.",
        default=True,
        deprecated_name="verifyHostName",
    ),
    setting("saslUsername", STRING, "User name for SASL."),
    setting(
        "saslPassword",
        STRING,
        "Password: env:NAME, file:PATH, pass:TEXT, literal:TEXT, or the plain text.",
        hidden=True,
        on_host=names_place,
    ),
    setting("failoverUrls", STRING, "URLs, separated by commas, to try in turn if host and port fail."),
    reported("connectionStatus", ("CONNECTING", "SUCCESS", "FAILED"), "State of the connection."),
    reported("connectionMsg", STRING, "Last event of the connection."),
    operations=("CREATE", "DELETE"),
)
