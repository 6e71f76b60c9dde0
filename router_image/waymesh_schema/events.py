"""The ids of all events in the logs and in the telemetry of routers. They are stable; docs/audit.md lists them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class LogEvent(StrEnum):
    """The event id of a log line, for programs."""

    ROUTER_STARTED = "router.started"
    ROUTER_STOPPING = "router.stopping"
    LISTENER_OPENED = "listener.opened"
    CONNECTION_OPENED = "connection.opened"
    CONNECTION_CLOSED = "connection.closed"
    CONNECTION_ERROR = "connection.error"
    CONNECTION_REFUSED = "connection.refused"
    CONNECTOR_FAILED = "connector.failed"
    ROUTER_REFUSED = "router.refused"
    AUTHENTICATION_SUCCEEDED = "authentication.succeeded"
    AUTHENTICATION_FAILED = "authentication.failed"
    TOKEN_REFUSED = "token.refused"
    LINK_ATTACHED = "link.attached"
    LINK_DETACHED = "link.detached"
    LINK_LOST = "link.lost"
    LINK_REFUSED = "link.refused"
    LINK_BLOCKED = "link.blocked"
    DELIVERY_STUCK = "delivery.stuck"
    AUTOLINK_CHANGED = "autolink.changed"
    LINKROUTE_CHANGED = "linkroute.changed"
    POLICY_ALLOWED = "policy.allowed"
    POLICY_DENIED = "policy.denied"
    POLICY_WOULD_DENY = "policy.would_deny"
    POLICY_LIMIT = "policy.limit"
    POLICY_FILES = "policy.files"
    LIMIT_REACHED = "limit.reached"
    LIMIT_MEMORY = "limit.memory"
    MANAGEMENT_CREATE = "management.create"
    MANAGEMENT_UPDATE = "management.update"
    MANAGEMENT_DELETE = "management.delete"
    MANAGEMENT_FAILED = "management.failed"
    MANAGEMENT_PASSED_ON = "management.passed_on"
    TOPOLOGY_ROUTER_ADDED = "topology.router_added"
    TOPOLOGY_ROUTER_REMOVED = "topology.router_removed"
    CERTIFICATE_READ = "certificate.read"
    CERTIFICATE_FAILED = "certificate.failed"
    CERTIFICATE_EXPIRES = "certificate.expires"
    USERS_READ = "users.read"
    USERS_FAILED = "users.failed"
    DRAIN_STARTED = "drain.started"
    DRAIN_CANCELLED = "drain.cancelled"
    DRAIN_FINISHED = "drain.finished"
    LOG_LEFT_OUT = "log.left_out"


LOG_EVENTS: Mapping[LogEvent, str] = {
    LogEvent.ROUTER_STARTED: "the router serves its clients",
    LogEvent.ROUTER_STOPPING: "a signal ends the router",
    LogEvent.LISTENER_OPENED: "a listener listens",
    LogEvent.CONNECTION_OPENED: "the open of a peer was accepted",
    LogEvent.CONNECTION_CLOSED: "a connection that was opened has ended",
    LogEvent.CONNECTION_ERROR: "a connection ends because of an error (`condition`) of one of its sides",
    LogEvent.CONNECTION_REFUSED: "a connection ends before it is open (`reason` or `condition`): by TLS, protocol, "
    "HTTP, a limit, policy, or its peer",
    LogEvent.CONNECTOR_FAILED: "a connector could not connect; it retries. Equal lines follow once a minute, with the "
    "number of those left out",
    LogEvent.ROUTER_REFUSED: "a router is refused because another one has its `id`; `instance` and `known` are the "
    "start times of both",
    LogEvent.AUTHENTICATION_SUCCEEDED: "a client has logged in as `user` by `mechanism`, other than ANONYMOUS",
    LogEvent.AUTHENTICATION_FAILED: "a client could not log in; `user` only if there is such a user: other names may "
    "be a password in the wrong place",
    LogEvent.TOKEN_REFUSED: "a bearer token was not accepted, and why; authentication.failed has the user",
    LogEvent.LINK_ATTACHED: "both sides have attached a link (`link`, `direction`, `address`)",
    LogEvent.LINK_DETACHED: "a link was detached; with its deliveries by outcome",
    LogEvent.LINK_LOST: "a link ended with its connection; with its deliveries by outcome. If a connection had more "
    "than 100 links, one line has the number (`links`) and the sums of those beyond",
    LogEvent.LINK_REFUSED: "a link cannot be attached (`condition`, `reason`)",
    LogEvent.LINK_BLOCKED: "deliveries wait for a client or another router that has taken none for `stuckAfterSeconds` "
    "(`deliveries`, `seconds`)",
    LogEvent.DELIVERY_STUCK: "deliveries sent on a link have been unsettled for `stuckAfterSeconds`: how many, and the "
    "age of the oldest (`deliveries`, `seconds`)",
    LogEvent.AUTOLINK_CHANGED: "the state of an autolink has changed",
    LogEvent.LINKROUTE_CHANGED: "the state of a link route has changed",
    LogEvent.POLICY_ALLOWED: "policy lets a client connect, to the `vhost` and `group` named",
    LogEvent.POLICY_DENIED: "policy denies a connection, a session, a link or a management request (`kind`)",
    LogEvent.POLICY_WOULD_DENY: "a dry run allows what policy would deny",
    LogEvent.POLICY_LIMIT: "`warnAtPercent` of a maximum number of connections is reached",
    LogEvent.POLICY_FILES: "files of `policyDir` were read, or cannot be read",
    LogEvent.LIMIT_REACHED: (
        "a limit (`limit`) is reached, or no longer reached: "
        "`maxConnections` of a listener, `maxBufferedBytes` of the router"
    ),
    LogEvent.LIMIT_MEMORY: "memory is `high`, `full` or `normal`, see `maxMemory`",
    LogEvent.MANAGEMENT_CREATE: "a management request has created an entity",
    LogEvent.MANAGEMENT_UPDATE: "a management request has changed attributes of an entity",
    LogEvent.MANAGEMENT_DELETE: "a management request has deleted an entity",
    LogEvent.MANAGEMENT_FAILED: "a management request failed (`status`)",
    LogEvent.MANAGEMENT_PASSED_ON: "a client asks another router for a change",
    LogEvent.TOPOLOGY_ROUTER_ADDED: "another `router` can be reached",
    LogEvent.TOPOLOGY_ROUTER_REMOVED: "another `router` cannot be reached any more",
    LogEvent.CERTIFICATE_READ: "the files of an sslProfile were read again",
    LogEvent.CERTIFICATE_FAILED: "the files of an sslProfile are unusable: the files read before stay in use",
    LogEvent.CERTIFICATE_EXPIRES: "a certificate with which this router connects to others, or another router to a "
    "listener with recheckPeers, expires soon (`ends`): 7 days and 1 day before",
    LogEvent.USERS_READ: "a file of users has changed and is read again",
    LogEvent.USERS_FAILED: "a file of users, or a line of it, is unusable",
    LogEvent.DRAIN_STARTED: "the router begins to drain",
    LogEvent.DRAIN_CANCELLED: "the router stops draining and serves its clients again",
    LogEvent.DRAIN_FINISHED: "the router has closed the connections of its clients",
    LogEvent.LOG_LEFT_OUT: "the number (`lines`) of lines about one host that were left out",
}
"""When each one is written."""

PROVOKED = frozenset(
    {
        LogEvent.CONNECTION_REFUSED,
        LogEvent.ROUTER_REFUSED,
        LogEvent.AUTHENTICATION_FAILED,
        LogEvent.TOKEN_REFUSED,
        LogEvent.LINK_REFUSED,
        LogEvent.POLICY_DENIED,
        LogEvent.POLICY_WOULD_DENY,
        LogEvent.MANAGEMENT_FAILED,
    }
)
"""Events that clients without authorization can cause any number of times: their lines are limited for each host."""

RECORD_EVENTS: Mapping[str, tuple[str, str]] = {
    "connection.up": ("container-id of the peer", "a router or a route-container has connected"),
    "connection.down": ("the same", "it has disconnected; `error` is the reason"),
    "connection.refused": (
        "host of the peer",
        "a connection ended before it was open, for another reason than a policy",
    ),
    "link.refused": ("name of the link", "a link cannot be attached: no such address, not implemented, …"),
    "link.blocked": (
        "the same",
        "deliveries wait for a link that has taken none for `stuckAfterSeconds` (`deliveries`, `seconds`)",
    ),
    "delivery.stuck": ("the same", "deliveries sent on a link have been unsettled for `stuckAfterSeconds`"),
    "policy.denied": (
        "host, link or operation (`kind`)",
        "a login failed; a connection, a link or a management request is not permitted, or over a limit",
    ),
    "policy.limit": (
        "router, listener, vhost, user or host",
        "a maximum number of connections (`limit`) is reached to `warnAtPercent`; `open` and `maximum` are the numbers",
    ),
    "management.create": ("identity of the entity", "a management request has created an entity"),
    "management.update": ("the same", "a management request has changed attributes of an entity"),
    "management.delete": ("the same", "a management request has deleted an entity"),
    "topology.change": ("the router", "new paths were computed"),
    "topology.converged": ("the router", "no more of them followed"),
    "log.warning": ("log module", "a line of this level was written"),
    "log.error": ("log module", "the same"),
    "log.critical": ("log module", "the same"),
}
"""Events in records of kind `event`: what `object` holds, and when each one is recorded."""


def log_table() -> str:
    """The table of the log's events, in Markdown."""
    rows = [f"| `{event}` | {when}{' (limited)' if event in PROVOKED else ''} |" for event, when in LOG_EVENTS.items()]
    return "\n".join(["| event | when |", "|---|---|", *rows])


def record_table() -> str:
    """The table of the events in telemetry, in Markdown."""
    rows = [f"| `{name}` | {about} | {when} |" for name, (about, when) in RECORD_EVENTS.items()]
    return "\n".join(["| event | object | when |", "|---|---|---|", *rows])
