"""Parsed settings of the entities `policy` and `vhost`. Dispatch book 3.6.3 "Policy Schema".

Checked attributes are those that `waymesh_schema.validate` returned, with the defaults of the schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_router.policy.hosts import RemoteHosts
from waymesh_router.policy.names import NewPatterns, Patterns
from waymesh_schema.convert import names
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.host_rules import Resolve, is_name
from waymesh_schema.rates import Rate, parse_rate
from waymesh_schema.rules import ANY_USER

_DEFAULTS = ENTITY_TYPES["policy"].attributes


class SettingsError(ValueError):
    """Settings that cannot be enforced; the text names the vhost and the attribute."""


class PatternError(SettingsError):
    """A pattern of host names that cannot be used."""


@dataclass(frozen=True, slots=True)
class Group:
    """Settings of one user group. None: the value of the vhost or else of the router applies. For rates, those of the
    vhost are already filled in."""

    name: str
    users: tuple[str, ...]
    remote_hosts: RemoteHosts
    max_connections_per_user: int | None
    max_connections_per_host: int | None
    connection_rate_per_user: Rate | None
    connection_rate_per_host: Rate | None
    blocked: bool
    max_frame_size: int | None
    max_sessions: int | None
    max_session_window: int | None
    max_message_size: int | None
    max_senders: int
    max_receivers: int
    allow_dynamic_source: bool
    allow_anonymous_sender: bool
    allow_user_id_proxy: bool
    allow_waypoint_links: bool
    allow_fallback_links: bool
    allow_dynamic_link_routes: bool
    allow_admin_status_update: bool
    management: str | None
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    source_patterns: tuple[str, ...]
    target_patterns: tuple[str, ...]
    link_route_patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vhost:
    """Settings of one vhost; `group_of`: group by user."""

    hostname: str
    aliases: tuple[str, ...]
    max_connections: int
    max_connections_per_user: int
    max_connections_per_host: int
    connection_rate: Rate | None
    user_connection_rates: Mapping[str, Rate | None]
    blocked_users: frozenset[str]
    max_message_size: int | None
    warn_at_percent: int | None
    dry_run: bool
    allow_unknown_user: bool
    groups: Mapping[str, Group]
    group_of: Mapping[str, Group]

    @property
    def names(self) -> tuple[str, ...]:
        """Host name and aliases."""
        return (self.hostname, *self.aliases)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a verdict depends on, apart from the request and the open connections."""

    tree: NewPatterns
    max_connections: int = _DEFAULTS["maxConnections"].default
    max_message_size: int = _DEFAULTS["maxMessageSize"].default
    enabled: bool = _DEFAULTS["enableVhostPolicy"].default
    default_vhost: str = _DEFAULTS["defaultVhost"].default
    warn_at_percent: int = _DEFAULTS["warnAtPercent"].default
    dry_run: bool = _DEFAULTS["dryRun"].default
    vhosts: Mapping[str, Vhost] = field(default_factory=dict)
    """By hostname and alias."""
    patterns: Patterns | None = None
    """Pattern tree of host names if they are patterns; the values are the patterns."""


def parse_vhost(values: Mapping[str, Any], resolve: Resolve) -> Vhost:
    """One vhost from its checked attributes. Raises SettingsError."""
    name = values["hostname"]
    groups: dict[str, Group] = {}
    for group_name, settings in values["groups"].items():
        try:
            groups[group_name] = _group(group_name, {**settings, **_rates(settings, values)}, resolve)
        except ValueError as error:
            raise SettingsError(f"vhost {name}: groups.{group_name}: {error}") from None
    return Vhost(
        hostname=name,
        aliases=alias_names(values["aliases"] or ""),
        max_connections=values["maxConnections"],
        max_connections_per_user=values["maxConnectionsPerUser"],
        max_connections_per_host=values["maxConnectionsPerHost"],
        connection_rate=parse_rate(values["connectionRate"]),
        user_connection_rates={user: parse_rate(rate) for user, rate in values["userConnectionRates"].items()},
        blocked_users=frozenset(names(values["blockedUsers"])),
        max_message_size=values["maxMessageSize"],
        warn_at_percent=values["warnAtPercent"],
        dry_run=values["dryRun"],
        allow_unknown_user=values["allowUnknownUser"],
        groups=groups,
        group_of={user: group for group in groups.values() for user in group.users},
    )


def host_names(groups: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The host names in the remoteHosts of checked groups."""
    rules = (rule for settings in groups.values() for rule in names(settings["remoteHosts"]))
    return [rule for rule in dict.fromkeys(rules) if is_name(rule)]


def alias_names(text: str) -> tuple[str, ...]:
    """The names in the attribute `aliases`."""
    return tuple(dict.fromkeys(alias for alias in re.split(r"[,\s]+", text) if alias))


def _rates(settings: Mapping[str, Any], vhost: Mapping[str, Any]) -> dict[str, Any]:
    """The rates of a group, or those of the vhost where it has none."""
    attributes = ("connectionRatePerUser", "connectionRatePerHost")
    return {name: vhost[name] if settings[name] is None else settings[name] for name in attributes}


def _group(name: str, values: Mapping[str, Any], resolve: Resolve) -> Group:
    return Group(
        name=name,
        users=tuple(user for user in names(values["users"]) if user != ANY_USER),
        remote_hosts=_remote_hosts(values["remoteHosts"], resolve),
        max_connections_per_user=values["maxConnectionsPerUser"],
        max_connections_per_host=values["maxConnectionsPerHost"],
        connection_rate_per_user=parse_rate(values["connectionRatePerUser"]),
        connection_rate_per_host=parse_rate(values["connectionRatePerHost"]),
        blocked=values["blocked"],
        max_frame_size=values["maxFrameSize"] or None,
        max_sessions=values["maxSessions"] or None,
        max_session_window=values["maxSessionWindow"] or None,
        max_message_size=values["maxMessageSize"],
        max_senders=values["maxSenders"],
        max_receivers=values["maxReceivers"],
        allow_dynamic_source=values["allowDynamicSource"],
        allow_anonymous_sender=values["allowAnonymousSender"],
        allow_user_id_proxy=values["allowUserIdProxy"],
        allow_waypoint_links=values["allowWaypointLinks"],
        allow_fallback_links=values["allowFallbackLinks"],
        allow_dynamic_link_routes=values["allowDynamicLinkRoutes"],
        allow_admin_status_update=values["allowAdminStatusUpdate"],
        management=values["management"],
        sources=names(values["sources"]),
        targets=names(values["targets"]),
        source_patterns=names(values["sourcePattern"]),
        target_patterns=names(values["targetPattern"]),
        link_route_patterns=names(values["linkRoutePattern"]),
    )


def _remote_hosts(rules: str, resolve: Resolve) -> RemoteHosts:
    try:
        return RemoteHosts(names(rules), resolve)
    except ValueError as error:
        raise SettingsError(f"remoteHosts: {error}") from None
