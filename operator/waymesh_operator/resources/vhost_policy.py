"""The VhostPolicy resource as a typed value: which users may connect to a virtual host, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .router import Manifest, Ref, local_ref, ref_of, server_metadata

_LIMITS = (
    "maxConnectionsPerUser", "maxConnectionsPerHost", "connectionRatePerUser", "connectionRatePerHost",
    "maxMessageSize", "maxFrameSize", "maxSessionWindow", "maxSessions", "maxSenders", "maxReceivers",
)  # fmt: skip
_RIGHTS = (
    "allowDynamicSource", "allowAnonymousSender", "allowUserIdProxy", "allowWaypointLinks", "allowDynamicLinkRoutes",
    "allowAdminStatusUpdate", "allowFallbackLinks", "blocked",
)  # fmt: skip
_LISTS = {
    "users": "users",
    "remoteHosts": "remoteHosts",
    "sources": "sources",
    "targets": "targets",
    "sourcePatterns": "sourcePattern",
    "targetPatterns": "targetPattern",
    "linkRoutePatterns": "linkRoutePattern",
}
"""Lists of a group: the name of the field, and that of the router's setting."""


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A group of users: its settings by the router's names; None: not set."""

    name: str
    settings: tuple[tuple[str, str | int | bool | None], ...] = ()


@dataclass(frozen=True, slots=True)
class VhostPolicy:
    """The policy of one virtual host."""

    ref: Ref
    router: Ref
    hostname: str
    aliases: tuple[str, ...] = ()
    max_connections: int = 65535
    max_connections_per_user: int = 65535
    max_connections_per_host: int = 65535
    # Bytes; 0: no limit; None: the Router's limit.
    max_message_size: int | None = None
    allow_unknown_user: bool = False
    groups: tuple[UserGroup, ...] = ()
    # Connections/seconds, None: no limit.
    connection_rate: str | None = None
    connection_rate_per_user: str | None = None
    connection_rate_per_host: str | None = None
    # (user, rate), sorted by user.
    user_connection_rates: tuple[tuple[str, str], ...] = ()
    blocked_users: tuple[str, ...] = ()
    # None: that of the Router.
    warn_at_percent: int | None = None
    dry_run: bool = False
    # Creation time in the API server's format, "" outside a cluster. Of two with a common host name, the oldest wins.
    created: str = ""
    uid: str = ""
    generation: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The host name and the aliases."""
        return (self.hostname, *self.aliases)


def parse_vhost_policy(manifest: Manifest) -> VhostPolicy:
    """The VhostPolicy of a validated manifest; its Router is in the same namespace."""
    spec = manifest["spec"]
    return VhostPolicy(
        ref=ref_of(manifest),
        router=local_ref(manifest, "routerRef"),
        hostname=spec["hostname"],
        aliases=tuple(sorted(spec.get("aliases", ()))),
        max_connections=spec["maxConnections"],
        max_connections_per_user=spec["maxConnectionsPerUser"],
        max_connections_per_host=spec["maxConnectionsPerHost"],
        connection_rate=spec.get("connectionRate"),
        connection_rate_per_user=spec.get("connectionRatePerUser"),
        connection_rate_per_host=spec.get("connectionRatePerHost"),
        user_connection_rates=tuple(sorted(spec.get("userConnectionRates", {}).items())),
        blocked_users=tuple(sorted(spec.get("blockedUsers", ()))),
        warn_at_percent=spec.get("warnAtPercent"),
        dry_run=spec["dryRun"],
        max_message_size=spec.get("maxMessageSize"),
        allow_unknown_user=spec["allowUnknownUser"],
        groups=tuple(_group(item) for item in spec["groups"]),
        **server_metadata(manifest),
    )


def _group(item: Mapping[str, Any]) -> UserGroup:
    plain = {name: item.get(name) for name in (*_LIMITS, *_RIGHTS, "management")}
    lists = {setting: ",".join(item[name]) if name in item else None for name, setting in _LISTS.items()}
    return UserGroup(item["name"], tuple({**plain, **lists}.items()))
