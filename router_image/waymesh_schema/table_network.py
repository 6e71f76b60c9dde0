"""The part of the table about the network: listeners, connectors, TLS, SASL plugins, policy and vhosts."""

from __future__ import annotations

from .model import (
    BOOLEAN,
    INTEGER,
    MAP,
    NAMES,
    PATH,
    PORT,
    PROPERTIES,
    STRING,
    Attribute,
    configuration,
    count,
    reported,
    setting,
)
from .password import names_place

ROLES = ("normal", "inter-router", "route-container")
MANAGEMENT = ("none", "write")
NO_POLICIES = "this router enforces no policies, so it takes none: authenticatePeer and sslProfile limit who connects"
NO_PLUGINS = "this router hands no SASL exchange to another service: use a user file (saslConfigDir of the router)"
MAX_UINT = 2**32 - 1
MAX_INT = 2**31 - 1

SSL_PROFILE = configuration(
    "sslProfile",
    "TLS settings that listeners and connectors refer to by name.",
    setting("ciphers", STRING, "Enabled ciphers, in OpenSSL's notation."),
    setting(
        "protocols", STRING, "Enabled versions by blank: TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; the system's unless given."
    ),
    setting("caCertFile", PATH, "PEM file of the certificate authorities that are trusted.", deprecated_name="certDb"),
    setting("certFile", PATH, "PEM file of our own certificate, with its chain."),
    setting("privateKeyFile", PATH, "PEM file of the key of our own certificate.", deprecated_name="keyFile"),
    setting(
        "passwordFile", PATH, "File that holds the key's password; password with file: says the same.", deprecated=True
    ),
    setting(
        "password",
        STRING,
        "Password of the key: env:NAME, file:PATH, pass:TEXT, literal:TEXT, or the text itself.",
        hidden=True,
        on_host=names_place,
    ),
    setting(
        "uidFormat",
        STRING,
        "Which parts of a client's certificate make its user name: any of c s l o u n (country, state, locality, "
        "organization, unit, common name) and one of 1 2 5 (SHA-1, SHA-256, SHA-512 fingerprint), joined by ;. "
        "An absent part is empty, those at the end are left out; ; and \\ in values are escaped by \\.",
    ),
    setting(
        "uidNameMappingFile",
        PATH,
        "JSON file that maps user names made by uidFormat to display names.",
        deprecated_name="displayNameFile",
    ),
    operations=("CREATE", "DELETE"),
)

AUTH_SERVICE_PLUGIN = configuration(
    "authServicePlugin",
    "A remote service that listeners may hand SASL exchanges to.",
    setting("authService", STRING, "host:port of the service; host and port say the same.", deprecated=True),
    setting("host", STRING, "Host of the service.", default=""),
    setting("port", PORT, "Port of the service.", default="amqp"),
    setting("realm", STRING, "Host name told in the SASL init.", deprecated_name="saslInitHostname"),
    setting("sslProfile", STRING, "Name of the sslProfile for the connection.", deprecated_name="authSslProfile"),
    operations=("CREATE", "DELETE"),
    refused=NO_PLUGINS,
)

_SHARED: tuple[Attribute, ...] = (
    setting(
        "socketAddressFamily",
        ("IPv4", "IPv6"),
        "Only this family of addresses; any unless given.",
        deprecated_name="protocolFamily",
    ),
    setting(
        "role",
        ROLES,
        "Who is at the other end: a client, a router, a broker (route-container).",
        default="normal",
    ),
    setting(
        "cost",
        INTEGER,
        "Cost of the path, for role inter-router: paths of least total cost are taken.",
        default=1,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting("sslProfile", STRING, "Name of the sslProfile; without one there is no TLS."),
    setting("saslMechanisms", STRING, "SASL mechanisms by blank; all that can work unless given."),
    setting("maxFrameSize", INTEGER, "Largest frame we take, in bytes.", default=16384, minimum=512, maximum=MAX_UINT),
    setting(
        "maxSessions",
        INTEGER,
        "Most sessions at a time; 0 stands for the default.",
        default=32768,
        minimum=0,
        maximum=65536,
    ),
    setting(
        "maxSessionFrames", INTEGER, "Session window in frames; 0 or absent: no limit.", minimum=0, maximum=MAX_UINT
    ),
    setting(
        "idleTimeoutSeconds",
        INTEGER,
        "Close after so many seconds without a whole frame (or 16 KiB of a longer one), for role route-container after "
        "4 at the soonest; 0: never.",
        default=16,
        minimum=0,
        maximum=MAX_INT // 1000,
    ),
    setting(
        "stripAnnotations",
        ("in", "out", "both", "no"),
        "Where the router's own message annotations are taken off: coming in, going out, both, nowhere.",
        default="both",
    ),
    setting(
        "linkCapacity",
        INTEGER,
        "Deliveries that may be under way on one link.",
        default=250,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting(
        "messageLoggingComponents",
        STRING,
        "Message parts that the MESSAGE log shows: none, all, or names of properties by comma.",
        default="none",
        deprecated_name="logMessage",
        only_default="this router writes no message parts to its log: leave it at none",
    ),
    setting(
        "policyVhost",
        STRING,
        "Name of the vhost whose policy holds for the connections.",
        only_default=NO_POLICIES,
    ),
    setting(
        "openContainerId",
        STRING,
        "Container-id that we give in the open, in place of the router's id; not for role inter-router. Brokers keep "
        "durable subscriptions under it: with the same one on several routers they are found through any of these.",
    ),
    setting("openProperties", PROPERTIES, "Connection properties that we send in the open, as a JSON map."),
)

LISTENER = configuration(
    "listener",
    "A place where connections are accepted.",
    setting(
        "host",
        STRING,
        "Address or name to listen at; empty for all local addresses.",
        default="",
        deprecated_name="addr",
    ),
    setting("port", PORT, "Port number or service name; 0 takes any free port.", default="amqp"),
    *_SHARED,
    setting(
        "authenticatePeer",
        BOOLEAN,
        "Only peers that have authenticated themselves: ANONYMOUS is neither offered nor taken, whatever "
        "saslMechanisms says, and a peer without SASL is refused.",
        default=False,
    ),
    setting("saslPlugin", STRING, "Name of the authServicePlugin that handles SASL.", only_default=NO_PLUGINS),
    setting(
        "requireEncryption",
        BOOLEAN,
        "Only encrypted connections. There are no SASL security layers here: it needs an sslProfile, and then only TLS "
        "connections are taken.",
        default=False,
    ),
    setting("requireSsl", BOOLEAN, "Only TLS connections; needs an sslProfile.", default=False),
    setting(
        "management",
        MANAGEMENT,
        "What clients may ask of the management of this router and, through it, of others: nothing (links to "
        "$management are refused, and messages to it rejected), or all.",
        default="write",
    ),
    setting(
        "managementFiles",
        BOOLEAN,
        "Management requests that come here may name files and environment variables of the router's machine: for an "
        "operator's own listener, which nobody else can reach.",
        default=False,
        on_host=bool,
    ),
    setting(
        "trustedCertsFile",
        PATH,
        "PEM file of authorities for client certificates, in place of the profile's.",
        deprecated=True,
        deprecated_name="trustedCerts",
    ),
    setting(
        "peerNames",
        STRING,
        "DNS names by blank; only TLS clients come in whose certificate has one of them (subject alternative names). "
        "A `*` in front stands for one label. Needs sslProfile with caCertFile.",
    ),
    setting(
        "initialHandshakeTimeoutSeconds",
        INTEGER,
        "Close unless the open has come within so many seconds; 0: never.",
        default=15,
        minimum=0,
        maximum=MAX_INT,
    ),
    setting(
        "maxLinks",
        INTEGER,
        "Most links of a client's connection at a time, of all its sessions together; with more it is closed. "
        "Connections of role inter-router and route-container have no limit.",
        default=32768,
        minimum=1,
        maximum=MAX_INT,
    ),
    setting(
        "multiTenant",
        BOOLEAN,
        "Each virtual host of clients is an address space of its own.",
        default=False,
        only_default="all clients of this router share one address space: run a mesh for each tenant",
    ),
    setting("failoverUrls", STRING, "URLs, by comma, that clients are told as alternatives."),
    setting(
        "routeAddress",
        STRING,
        "For clients of the containers to which the link routes of this address lead: what they attach without an "
        "address (temporary queues, anonymous producers, subscriptions to be ended, transactions) goes there, and what "
        "these containers offer in the open is offered to them.",
    ),
    setting("openCapabilities", STRING, "Capabilities, by blank, that clients are offered besides our own."),
    setting("healthz", BOOLEAN, "With http: answer /healthz.", default=True),
    setting("metrics", BOOLEAN, "With http: answer /metrics.", default=True),
    setting(
        "websockets",
        BOOLEAN,
        "With http: accept AMQP over WebSocket.",
        default=False,
        only_default="this router speaks no AMQP over WebSocket: clients use TCP or TLS",
    ),
    setting("http", BOOLEAN, "Speak HTTP here and no plain AMQP.", default=False),
    setting(
        "httpRootDir",
        PATH,
        "With http: folder of static files to serve.",
        deprecated_name="httpRoot",
        only_default="this router serves no files over HTTP: use a web server",
    ),
    operations=("CREATE", "DELETE"),
)

CONNECTOR = configuration(
    "connector",
    "A connection that the router opens and keeps open.",
    setting("host", STRING, "Address or name to connect to.", default="127.0.0.1", deprecated_name="addr"),
    setting("port", PORT, "Port number or service name.", default="amqp"),
    *_SHARED,
    setting("openHostname", STRING, "Host name asked for in the open, where it is not host: a broker's virtual host."),
    setting(
        "allowRedirect",
        BOOLEAN,
        "Follow redirects of the peer.",
        default=False,
        only_default="this router follows no redirects: name all places in failoverUrls",
    ),
    setting(
        "management",
        MANAGEMENT,
        "What the peer may ask of the management of this router over the connection: nothing, or all.",
        default="none",
    ),
    setting(
        "verifyHostname",
        BOOLEAN,
        "The peer's certificate must be for the host we connect to.",
        default=True,
        deprecated_name="verifyHostName",
    ),
    setting("saslUsername", STRING, "User name that we authenticate with."),
    setting(
        "saslPassword",
        STRING,
        "Password: env:NAME, file:PATH, pass:TEXT, literal:TEXT, or the text itself.",
        hidden=True,
        on_host=names_place,
    ),
    setting("failoverUrls", STRING, "URLs, by comma, that are tried in turn where host and port do not answer."),
    reported("connectionStatus", ("CONNECTING", "SUCCESS", "FAILED"), "How the connection stands."),
    reported("connectionMsg", STRING, "What happened last on the connection."),
    operations=("CREATE", "DELETE"),
)

POLICY = configuration(
    "policy",
    "Limits of the whole router, and whether vhost policies are enforced.",
    setting("maxConnections", INTEGER, "Most client connections at a time; always enforced.", default=65535, minimum=0),
    setting("maxMessageSize", INTEGER, "Largest message from clients in bytes; 0: no limit.", default=0, minimum=0),
    setting("enableVhostPolicy", BOOLEAN, "Enforce the vhost policies.", default=False),
    setting("enableVhostNamePatterns", BOOLEAN, "Vhost host names are patterns.", default=False),
    setting("policyDir", PATH, "Absolute path of a folder of *.json files with vhosts.", default=""),
    setting("defaultVhost", STRING, "Vhost for connections that no other fits; empty for none.", default="$default"),
    count("connectionsProcessed", "Connections checked."),
    count("connectionsDenied", "Connections refused."),
    count("connectionsCurrent", "Connections open now."),
    count("linksDenied", "Links refused, of all vhosts."),
    count("maxMessageSizeDenied", "Transfers refused for their size."),
    count("totalDenials", "Everything refused."),
    singleton=True,
    refused=NO_POLICIES,
)

VHOST = configuration(
    "vhost",
    "Policy of one virtual host: who may connect, and what each group of users may do.",
    setting("hostname", STRING, "Host name that clients ask for.", required=True, unique=True, deprecated_name="id"),
    setting("aliases", STRING, "Further host names, by comma or blank, with the same policy.", update=True),
    setting("maxConnections", INTEGER, "Most connections at a time.", default=65535, minimum=0, update=True),
    setting(
        "maxMessageSize",
        INTEGER,
        "Largest message in bytes, in place of the policy's; 0: no limit.",
        minimum=0,
        update=True,
    ),
    setting("maxConnectionsPerUser", INTEGER, "Most connections of one user.", default=65535, minimum=0, update=True),
    setting(
        "maxConnectionsPerHost",
        INTEGER,
        "Most connections from one remote host.",
        default=65535,
        minimum=0,
        update=True,
        deprecated_name="maxConnectionsPerRemoteHost",
    ),
    setting(
        "allowUnknownUser", BOOLEAN, "Users of no group get the settings of group $default.", default=False, update=True
    ),
    setting("groups", MAP, "Settings (vhostUserGroupSettings) by group name.", default={}, update=True),
    operations=("CREATE", "UPDATE", "DELETE"),
    refused=NO_POLICIES,
)

USER_GROUP = configuration(
    "vhostUserGroupSettings",
    "What the users of one group of a vhost may do; stands within the groups of a vhost.",
    setting("users", NAMES, "Users of the group, by comma.", default=""),
    setting(
        "remoteHosts", NAMES, "Hosts, addresses or ranges that they may connect from, by comma; * for all.", default=""
    ),
    setting("maxConnectionsPerUser", INTEGER, "Most connections of one user, in place of the vhost's.", minimum=0),
    setting(
        "maxConnectionsPerHost", INTEGER, "Most connections from one remote host, in place of the vhost's.", minimum=0
    ),
    setting("maxMessageSize", INTEGER, "Largest message in bytes, in place of the vhost's; 0: no limit.", minimum=0),
    setting(
        "maxFrameSize", INTEGER, "Largest frame in bytes, in place of the listener's.", minimum=0, maximum=MAX_UINT
    ),
    setting("maxSessionWindow", INTEGER, "Incoming session window in bytes.", minimum=0, maximum=MAX_UINT),
    setting(
        "maxSessions", INTEGER, "Most sessions of a connection, in place of the listener's.", minimum=0, maximum=65536
    ),
    setting("maxSenders", INTEGER, "Most sending links of a connection.", default=MAX_INT, minimum=0),
    setting("maxReceivers", INTEGER, "Most receiving links of a connection.", default=MAX_INT, minimum=0),
    setting("allowDynamicSource", BOOLEAN, "Receivers may ask for a dynamic source.", default=False),
    setting("allowAnonymousSender", BOOLEAN, "Senders may attach without a target address.", default=False),
    setting("allowUserIdProxy", BOOLEAN, "Messages may carry the user id of somebody else.", default=False),
    setting("allowDynamicLinkRoutes", BOOLEAN, "Connections may make link routes of their own.", default=True),
    setting("allowAdminStatusUpdate", BOOLEAN, "Connections may close other connections by management.", default=True),
    setting("allowFallbackLinks", BOOLEAN, "Links may attach as fallback destinations.", default=True),
    setting(
        "sources", NAMES, "Addresses they may receive from, by comma; a trailing * and ${user} are known.", default=""
    ),
    setting("targets", NAMES, "Addresses they may send to, by comma; a trailing * and ${user} are known.", default=""),
    setting("sourcePattern", NAMES, "Patterns of addresses they may receive from; not together with sources."),
    setting("targetPattern", NAMES, "Patterns of addresses they may send to; not together with targets."),
    configurable=False,
    refused=NO_POLICIES,
)
