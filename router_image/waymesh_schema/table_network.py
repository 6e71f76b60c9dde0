"""Entities of the network: listeners, connectors, TLS, SASL plugins, policy and vhosts."""

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
from .table_limits import LISTENER_LIMITS

ROLES = ("normal", "inter-router", "route-container")
MANAGEMENT = ("none", "read", "write")
NO_POLICIES = "policies are not supported; authenticatePeer and sslProfile limit who can connect"
NO_PLUGINS = "external SASL services are not supported; use a user file (saslConfigDir of the router)"
MAX_UINT = 2**32 - 1
MAX_INT = 2**31 - 1

SSL_PROFILE = configuration(
    "sslProfile",
    "TLS settings, used by listeners and connectors by name.",
    setting("ciphers", STRING, "Enabled ciphers, in OpenSSL's notation."),
    setting(
        "protocols", STRING, "Versions, separated by blanks: TLSv1 TLSv1.1 TLSv1.2 TLSv1.3. Default: the system's."
    ),
    setting("caCertFile", PATH, "PEM file of the trusted certificate authorities.", deprecated_name="certDb"),
    setting("certFile", PATH, "PEM file of the router's certificate, with its chain."),
    setting("privateKeyFile", PATH, "PEM file of the private key of the certificate.", deprecated_name="keyFile"),
    setting(
        "passwordFile", PATH, "File with the password of the key. Use password: file:PATH instead.", deprecated=True
    ),
    setting(
        "password",
        STRING,
        "Password of the private key: env:NAME, file:PATH, pass:TEXT, literal:TEXT, or the plain text.",
        hidden=True,
        on_host=names_place,
    ),
    setting(
        "uidFormat",
        STRING,
        "Parts of a client certificate that make up the user name: any of c s l o u n (country, state, locality, "
        "organization, unit, common name) and one of 1 2 5 (SHA-1, SHA-256, SHA-512 fingerprint), joined by ;. "
        "A missing part is empty, or left out at the end; ; and \\ in values are escaped with \\.",
    ),
    setting(
        "uidNameMappingFile",
        PATH,
        "JSON file that maps user names made with uidFormat to display names.",
        deprecated_name="displayNameFile",
    ),
    operations=("CREATE", "DELETE"),
)

AUTH_SERVICE_PLUGIN = configuration(
    "authServicePlugin",
    "A remote service to which listeners delegate SASL exchanges.",
    setting("authService", STRING, "host:port of the service. Use host and port instead.", deprecated=True),
    setting("host", STRING, "Host of the service.", default=""),
    setting("port", PORT, "Port of the service.", default="amqp"),
    setting("realm", STRING, "Host name in the SASL init.", deprecated_name="saslInitHostname"),
    setting("sslProfile", STRING, "Name of the sslProfile for the connection.", deprecated_name="authSslProfile"),
    operations=("CREATE", "DELETE"),
    refused=NO_PLUGINS,
)

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
        "Kind of peer: a client (normal), a router, or a broker (route-container).",
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
    setting("saslMechanisms", STRING, "SASL mechanisms, separated by blanks. Default: all that are possible."),
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
        "maxSessionFrames", INTEGER, "Session window in frames; 0 or not set: no limit.", minimum=0, maximum=MAX_UINT
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
        "policyVhost",
        STRING,
        "Name of the vhost whose policy applies to the connections.",
        only_default=NO_POLICIES,
    ),
    setting(
        "openContainerId",
        STRING,
        "Container-id in the open, instead of the router id; not for role inter-router. Brokers store durable "
        "subscriptions under it: with the same value on several routers, clients find them through any of these.",
    ),
    setting("openProperties", PROPERTIES, "Connection properties to send in the open, as a JSON map."),
)

LISTENER = configuration(
    "listener",
    "Accepts connections at a host and port.",
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
    setting("saslPlugin", STRING, "Name of the authServicePlugin that handles SASL.", only_default=NO_PLUGINS),
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
        "$management are refused, and messages to it rejected), those that change nothing (read), or all (write).",
        default="write",
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
        "are accepted. A leading `*` matches one label. Needs an sslProfile with caCertFile.",
    ),
    *LISTENER_LIMITS,
    setting(
        "multiTenant",
        BOOLEAN,
        "Each virtual host has its own address space.",
        default=False,
        only_default="multi-tenancy is not supported; run a mesh for each tenant",
    ),
    setting("failoverUrls", STRING, "Alternative URLs, separated by commas, that clients get in the open.",
            deprecated_name="failoverList"),
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
        "With http: accept AMQP over WebSocket.",
        default=False,
        only_default="AMQP over WebSocket is not supported; clients use TCP or TLS",
    ),
    setting("http", BOOLEAN, "Serve HTTP instead of AMQP.", default=False),
    setting(
        "httpRootDir",
        PATH,
        "With http: folder of static files to serve.",
        deprecated_name="httpRoot",
        only_default="serving files over HTTP is not supported; use a web server",
    ),
    operations=("CREATE", "DELETE"),
)

CONNECTOR = configuration(
    "connector",
    "A connection that the router opens and keeps open.",
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

POLICY = configuration(
    "policy",
    "Limits of the whole router, and whether vhost policies are enforced.",
    setting("maxConnections", INTEGER, "Maximum client connections; always enforced.", default=65535, minimum=0),
    setting("maxMessageSize", INTEGER, "Maximum bytes of client messages; 0: no limit.", default=0, minimum=0),
    setting("enableVhostPolicy", BOOLEAN, "Enforce the vhost policies.", default=False),
    setting("enableVhostNamePatterns", BOOLEAN, "Vhost host names are patterns.", default=False),
    setting("policyDir", PATH, "Absolute path of a folder of *.json files with vhosts.", default=""),
    setting("defaultVhost", STRING, "Vhost for connections that match no other; empty: none.", default="$default"),
    count("connectionsProcessed", "Connections checked."),
    count("connectionsDenied", "Connections refused."),
    count("connectionsCurrent", "Connections open now."),
    count("linksDenied", "Links refused, of all vhosts."),
    count("maxMessageSizeDenied", "Transfers refused for their size."),
    count("totalDenials", "All refusals."),
    singleton=True,
    refused=NO_POLICIES,
)

VHOST = configuration(
    "vhost",
    "Policy of one virtual host: who may connect, and what each group of users may do.",
    setting("hostname", STRING, "Host name in the client's open.", required=True, unique=True, deprecated_name="id"),
    setting("aliases", STRING, "Further host names with the same policy, separated by commas or blanks.", update=True),
    setting("maxConnections", INTEGER, "Maximum number of connections.", default=65535, minimum=0, update=True),
    setting(
        "maxMessageSize",
        INTEGER,
        "Maximum message size in bytes, instead of that of the policy; 0: no limit.",
        minimum=0,
        update=True,
    ),
    setting("maxConnectionsPerUser", INTEGER, "Maximum connections of a user.", default=65535, minimum=0, update=True),
    setting(
        "maxConnectionsPerHost",
        INTEGER,
        "Maximum number of connections from one remote host.",
        default=65535,
        minimum=0,
        update=True,
        deprecated_name="maxConnectionsPerRemoteHost",
    ),
    setting(
        "allowUnknownUser", BOOLEAN, "Treat users without a group as members of $default.", default=False, update=True
    ),
    setting("groups", MAP, "Settings (vhostUserGroupSettings) by group name.", default={}, update=True),
    operations=("CREATE", "UPDATE", "DELETE"),
    refused=NO_POLICIES,
)

USER_GROUP = configuration(
    "vhostUserGroupSettings",
    "What the users of one group of a vhost may do; part of the groups of a vhost.",
    setting("users", NAMES, "Users of the group, separated by commas.", default=""),
    setting(
        "remoteHosts", NAMES, "Allowed remote hosts, addresses or ranges, separated by commas; *: all.", default=""
    ),
    setting("maxConnectionsPerUser", INTEGER, "Maximum connections of one user, instead of the vhost's.", minimum=0),
    setting(
        "maxConnectionsPerHost", INTEGER, "Maximum connections from one host, instead of the vhost's.", minimum=0
    ),
    setting("maxMessageSize", INTEGER, "Maximum message size, instead of the vhost's; 0: no limit.", minimum=0),
    setting(
        "maxFrameSize", INTEGER, "Maximum frame size in bytes, instead of the listener's.", minimum=0, maximum=MAX_UINT
    ),
    setting("maxSessionWindow", INTEGER, "Incoming session window in bytes.", minimum=0, maximum=MAX_UINT),
    setting(
        "maxSessions", INTEGER, "Maximum number of sessions, instead of that of the listener.", minimum=0, maximum=65536
    ),
    setting("maxSenders", INTEGER, "Maximum number of sending links of a connection.", default=MAX_INT, minimum=0),
    setting("maxReceivers", INTEGER, "Maximum number of receiving links of a connection.", default=MAX_INT, minimum=0),
    setting("allowDynamicSource", BOOLEAN, "Receivers may ask for a dynamic source.", default=False),
    setting("allowAnonymousSender", BOOLEAN, "Senders may attach without a target address.", default=False),
    setting("allowUserIdProxy", BOOLEAN, "Messages may have another user's user id.", default=False),
    setting("allowDynamicLinkRoutes", BOOLEAN, "Connections may create their own link routes.", default=True),
    setting("allowAdminStatusUpdate", BOOLEAN, "Connections may close other connections by management.", default=True),
    setting("allowFallbackLinks", BOOLEAN, "Links may attach as fallback destinations.", default=True),
    setting(
        "sources", NAMES, "Addresses to receive from, by comma; may have ${user} and a trailing *.", default=""
    ),
    setting("targets", NAMES, "Addresses to send to, by comma; may have ${user} and a trailing *.", default=""),
    setting("sourcePattern", NAMES, "Patterns of addresses to receive from; not together with sources."),
    setting("targetPattern", NAMES, "Patterns of addresses to send to; not together with targets."),
    configurable=False,
    refused=NO_POLICIES,
)
