"""The part of the table about access policy: `policy`, vhosts, their user groups, and what was allowed and denied."""

from __future__ import annotations

from .model import BOOLEAN, INTEGER, MAP, NAMES, PATH, STRING, configuration, count, operational, reported, setting

MAX_UINT = 2**32 - 1
MAX_INT = 2**31 - 1
MANAGEMENT = ("none", "read", "write")
"""Values of `management` of listeners, connectors and user groups."""

_WARN = (
    "Log a warning when connections reach this percentage of their maximum number, and again only after they fell well "
    "below it; {}. An extension of Waymesh."
)

_DRY_RUN = (
    count("dryRunConnections", "Connections allowed only by a dry run. An extension of Waymesh."),
    count("dryRunLinks", "Links allowed only by a dry run. An extension of Waymesh."),
    count(
        "dryRunDenials",
        "All denials that a dry run prevented: connections, links, sessions, messages and requests. An extension of "
        "Waymesh.",
    ),
)

POLICY = configuration(
    "policy",
    "Limits of the whole router, and whether vhost policies are enforced. They apply to connections of clients, not to "
    "those between routers or those that the router opens.",
    setting(
        "maxConnections",
        INTEGER,
        "Maximum client connections; always enforced. Those of listeners with management: write are exempt.",
        default=65535,
        minimum=0,
        update=True,
    ),
    setting(
        "maxMessageSize",
        INTEGER,
        "Maximum bytes of client messages; 0: no limit. Listeners with management: write are exempt.",
        default=0,
        minimum=0,
        update=True,
    ),
    setting(
        "enableVhostPolicy",
        BOOLEAN,
        "Enforce the vhost policies: a connection without a vhost, a user group and an allowed remote host is denied.",
        default=False,
        update=True,
    ),
    setting("enableVhostNamePatterns", BOOLEAN, "Vhost host names are patterns.", default=False, update=True),
    setting(
        "policyDir",
        PATH,
        "Absolute path of a folder of *.json files with vhosts. They are read when the router starts, and again when "
        "they change.",
        default="",
    ),
    setting(
        "defaultVhost",
        STRING,
        "Vhost for connections that match no other. If it is empty or does not exist, they are denied.",
        default="$default",
        update=True,
    ),
    setting(
        "warnAtPercent",
        INTEGER,
        _WARN.format("0: no warning. It applies to maxConnections of policy and listeners, and the limits of vhosts"),
        default=0,
        minimum=0,
        maximum=100,
        update=True,
    ),
    setting(
        "dryRun",
        BOOLEAN,
        "Deny nothing: denials by the settings of policy and vhosts are counted and logged as would DENY, but not "
        "enforced. This gives no protection. An extension of Waymesh.",
        default=False,
        update=True,
    ),
    count("connectionsProcessed", "Connections checked."),
    count("connectionsDenied", "Connections refused."),
    count("connectionsCurrent", "Connections open now."),
    count("linksDenied", "Links refused, of all vhosts."),
    count("maxMessageSizeDenied", "Transfers refused for their size."),
    count("totalDenials", "All refusals, including those of management requests."),
    *_DRY_RUN,
    operations=("UPDATE",),
    singleton=True,
)

VHOST = configuration(
    "vhost",
    "Policy of one virtual host: who may connect, and what each group of users may do.",
    setting(
        "hostname",
        STRING,
        "Host name in the client's open; empty: for clients that send none.",
        required=True,
        unique=True,
        deprecated_name="id",
    ),
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
        "connectionRate",
        STRING,
        "Maximum rate of new connections, as connections/seconds: 60/10 is 60 at once and 60 more in each 10 seconds. "
        "Absent or none: no limit. An extension of Waymesh.",
        update=True,
    ),
    setting(
        "connectionRatePerUser",
        STRING,
        "Maximum rate of new connections of each user, as in connectionRate. An extension of Waymesh.",
        update=True,
    ),
    setting(
        "connectionRatePerHost",
        STRING,
        "Maximum rate of new connections from each remote host, as in connectionRate. An extension of Waymesh.",
        update=True,
    ),
    setting(
        "userConnectionRates",
        MAP,
        "Maximum rates of new connections by the name of the user, instead of connectionRatePerUser of group and "
        "vhost. An extension of Waymesh.",
        default={},
        update=True,
    ),
    setting(
        "blockedUsers",
        NAMES,
        "Users that may not connect, whatever their group allows, separated by commas. An extension of Waymesh.",
        default="",
        update=True,
    ),
    setting(
        "warnAtPercent",
        INTEGER,
        _WARN.format("instead of that of the policy; 0: no warning"),
        minimum=0,
        maximum=100,
        update=True,
    ),
    setting(
        "dryRun",
        BOOLEAN,
        "Deny nothing: denials by the settings of this vhost are counted and logged as would DENY, but not enforced. "
        "This gives no protection. An extension of Waymesh.",
        default=False,
        update=True,
    ),
    setting(
        "allowUnknownUser",
        BOOLEAN,
        "Treat users without a group as members of the group $default, which must exist then.",
        default=False,
        update=True,
    ),
    setting(
        "groups",
        MAP,
        "Settings (vhostUserGroupSettings) by group name. UPDATE replaces all groups. A user may be in one group only.",
        default={},
        update=True,
    ),
    operations=("CREATE", "UPDATE", "DELETE"),
)

USER_GROUP = configuration(
    "vhostUserGroupSettings",
    "What the users of one group of a vhost may do. Not an entity, but a value in the groups of a vhost.",
    setting(
        "users",
        NAMES,
        "Users of the group, separated by commas. In the group $default, * means all users without a group; see "
        "allowUnknownUser of the vhost.",
        default="",
    ),
    setting(
        "remoteHosts",
        NAMES,
        "Hosts that the users may connect from, separated by commas: addresses, ranges (first-last), networks "
        "(10.0.0.0/8 or 192.168.1.*), names (at most 64 in a vhost), which are looked up when the vhost is created or "
        "updated, or * for all. Empty or absent: none.",
        default="",
    ),
    setting("maxConnectionsPerUser", INTEGER, "Maximum connections of one user, instead of the vhost's.", minimum=0),
    setting(
        "maxConnectionsPerHost", INTEGER, "Maximum connections from one host, instead of the vhost's.", minimum=0
    ),
    setting(
        "connectionRatePerUser",
        STRING,
        "Maximum rate of new connections of each user, instead of the vhost's; none: no limit. An extension of "
        "Waymesh.",
    ),
    setting(
        "connectionRatePerHost",
        STRING,
        "Maximum rate of new connections from each host, instead of the vhost's; none: no limit. An extension of "
        "Waymesh.",
    ),
    setting("blocked", BOOLEAN, "The users of the group may not connect. An extension of Waymesh.", default=False),
    setting("maxMessageSize", INTEGER, "Maximum message size, instead of the vhost's; 0: no limit.", minimum=0),
    setting(
        "maxFrameSize",
        INTEGER,
        "Maximum frame size in bytes, instead of the listener's; 0 or absent: the listener's.",
        minimum=0,
        maximum=MAX_UINT,
    ),
    setting(
        "maxSessionWindow",
        INTEGER,
        "Incoming session window in bytes; 0 or absent: that of the listener.",
        minimum=0,
        maximum=MAX_UINT,
    ),
    setting(
        "maxSessions",
        INTEGER,
        "Maximum number of sessions, instead of that of the listener; 0 or absent: that of the listener.",
        minimum=0,
        maximum=65536,
    ),
    setting("maxSenders", INTEGER, "Maximum number of sending links of a connection.", default=MAX_INT, minimum=0),
    setting("maxReceivers", INTEGER, "Maximum number of receiving links of a connection.", default=MAX_INT, minimum=0),
    setting("allowDynamicSource", BOOLEAN, "Receivers may ask for a dynamic source.", default=False),
    setting("allowAnonymousSender", BOOLEAN, "Senders may attach without a target address.", default=False),
    setting("allowUserIdProxy", BOOLEAN, "Messages may have another user's user id.", default=False),
    setting("allowWaypointLinks", BOOLEAN, "Links may attach with the capabilities of a waypoint.", default=True),
    setting("allowDynamicLinkRoutes", BOOLEAN, "Connections may create their own link routes.", default=True),
    setting("allowAdminStatusUpdate", BOOLEAN, "Connections may close other connections by management.", default=True),
    setting("allowFallbackLinks", BOOLEAN, "Links may attach as fallback destinations.", default=True),
    setting(
        "management",
        MANAGEMENT,
        "Management requests that the users may send: none, those that change nothing (read), or all (write), but no "
        "more than management of their listener allows. Absent: that of the listener. An extension of Waymesh.",
    ),
    setting(
        "sources",
        NAMES,
        "Addresses that the users may receive from, separated by commas. A * at the end matches any rest; elsewhere it "
        "is refused. The first ${user} or {user} is replaced by the user's name. Empty or absent, without "
        "sourcePattern: no address.",
        default="",
    ),
    setting(
        "targets",
        NAMES,
        "Addresses that the users may send to, as in sources. Empty or absent, without targetPattern: no address.",
        default="",
    ),
    setting(
        "sourcePattern",
        NAMES,
        "Patterns of addresses that the users may receive from, with * for one word, # for any number of words, and "
        "${user} or {user}; not together with sources.",
    ),
    setting(
        "targetPattern",
        NAMES,
        "Patterns of addresses that the users may send to, as in sourcePattern; not together with targets.",
    ),
    setting(
        "linkRoutePattern",
        NAMES,
        "Patterns of the link routes that containers and edge routers may create to themselves with "
        "allowDynamicLinkRoutes: these, and those that match fewer addresses. Absent: all, except # alone. "
        "An extension of Waymesh.",
    ),
    configurable=False,
)

_DENIALS = (
    count("sessionDenied", "Sessions refused."),
    count("senderDenied", "Sending links refused."),
    count("receiverDenied", "Receiving links refused."),
    count("maxMessageSizeDenied", "Transfers refused for their size."),
)

VHOST_STATS = operational(
    "vhostStats",
    "Connections of one vhost, and refusals by its policy.",
    reported("id", STRING, "Name of the vhost, as in Qpid Dispatch."),
    reported("hostname", STRING, "Name of the vhost."),
    count("connectionsApproved", "Connections accepted."),
    count("connectionsDenied", "Connections refused."),
    count("connectionsCurrent", "Connections open now."),
    reported("perUserState", MAP, "Number of open connections by user."),
    reported("perHostState", MAP, "Number of open connections by remote host."),
    *_DENIALS,
    *_DRY_RUN,
)

USER_GROUP_STATS = operational(
    "vhostUserGroupStats",
    "Refusals by the settings of one user group of a vhost. An extension of Waymesh.",
    reported("hostname", STRING, "Name of the vhost."),
    reported("groupName", STRING, "Name of the user group."),
    *_DENIALS,
    count("dynamicSourceDenied", "Receiving links with a dynamic source refused."),
    count("anonymousSenderDenied", "Sending links without a target address refused."),
    count("linksDenied", "Links refused for any reason."),
    count("messagesDenied", "Messages rejected for their address or user id."),
)
