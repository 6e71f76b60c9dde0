"""Parsed settings of the entities `policy` and `vhost`. Dispatch book 3.6.3 "Policy Schema"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_router.policy.hosts import RemoteHosts, Resolve
from waymesh_router.policy.names import NewPatterns, Patterns

DEFAULT_GROUP = "$default"
MAX_INT = 2**31 - 1


class SettingsError(ValueError):
    """Settings that cannot be enforced; the text names the vhost and the attribute."""


@dataclass(frozen=True, slots=True)
class Group:
    """Settings of one user group. None: the router-wide value applies."""

    name: str
    users: tuple[str, ...]
    remote_hosts: RemoteHosts
    max_connections_per_user: int | None
    max_connections_per_host: int | None
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
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    source_patterns: tuple[str, ...]
    target_patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vhost:
    """Settings of one vhost; `group_of`: group by user."""

    hostname: str
    aliases: tuple[str, ...]
    max_connections: int
    max_connections_per_user: int
    max_connections_per_host: int
    max_message_size: int | None
    allow_unknown_user: bool
    groups: Mapping[str, Group]
    group_of: Mapping[str, Group]


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a verdict depends on, apart from the request and the open connections."""

    tree: NewPatterns
    max_connections: int = 65535
    max_message_size: int = 0
    enabled: bool = False
    default_vhost: str = "$default"
    vhosts: Mapping[str, Vhost] = field(default_factory=dict)
    """By hostname and alias."""
    patterns: Patterns | None = None
    """Of host names, with the matching pattern as value, if names are patterns."""


def parse_policy(
    values: Mapping[str, Any], vhosts: Sequence[Mapping[str, Any]], tree: NewPatterns, resolve: Resolve
) -> Policy:
    """The settings from attributes of `policy` and of each `vhost`. Raises SettingsError."""
    by_name: dict[str, Vhost] = {}
    patterns = tree() if values.get("enableVhostNamePatterns") else None
    for attributes in vhosts:
        vhost = parse_vhost(attributes, resolve)
        for name in (vhost.hostname, *vhost.aliases):
            if name in by_name:
                raise SettingsError(f"vhost {vhost.hostname}: {name!r} is already a name of {by_name[name].hostname}")
            by_name[name] = vhost
            if patterns is not None:
                try:
                    patterns.add(name, name)
                except KeyError:
                    raise SettingsError(f"vhost {vhost.hostname}: another vhost has the pattern {name!r}") from None
    return Policy(
        tree,
        values.get("maxConnections", 65535),
        values.get("maxMessageSize", 0),
        values.get("enableVhostPolicy", False),
        values.get("defaultVhost") or "",
        by_name,
        patterns,
    )


def parse_vhost(values: Mapping[str, Any], resolve: Resolve) -> Vhost:
    """One vhost from its attributes. Raises SettingsError."""
    name = values["hostname"]
    groups: dict[str, Group] = {}
    group_of: dict[str, Group] = {}
    for group_name, settings in (values.get("groups") or {}).items():
        try:
            group = groups[group_name] = _group(group_name, settings, resolve)
        except ValueError as error:
            raise SettingsError(f"vhost {name}: groups.{group_name}: {error}") from None
        for user in group.users:
            if user in group_of:
                raise SettingsError(f"vhost {name}: user {user!r} is in groups {group_of[user].name} and {group_name}")
            group_of[user] = group
    unknown = bool(values.get("allowUnknownUser", False))
    if unknown and DEFAULT_GROUP not in groups:
        raise SettingsError(f"vhost {name}: allowUnknownUser needs a group {DEFAULT_GROUP}")
    return Vhost(
        name,
        tuple(re.split(r"[,\s]+", aliases.strip())) if (aliases := values.get("aliases") or "").strip() else (),
        values.get("maxConnections", 65535),
        values.get("maxConnectionsPerUser", 65535),
        values.get("maxConnectionsPerHost", 65535),
        values.get("maxMessageSize"),
        unknown,
        groups,
        group_of,
    )


def _group(name: str, values: Mapping[str, Any], resolve: Resolve) -> Group:
    for plain, pattern in (("sources", "sourcePattern"), ("targets", "targetPattern")):
        if _names(values.get(plain)) and _names(values.get(pattern)):
            raise SettingsError(f"{plain} and {pattern} exclude each other")
    users = _names(values.get("users"))
    if name == DEFAULT_GROUP and users:
        raise SettingsError(f"{DEFAULT_GROUP} is the group of users without a group and cannot list users")
    get = values.get
    return Group(
        name=name,
        users=users,
        remote_hosts=RemoteHosts(_names(get("remoteHosts")), resolve),
        max_connections_per_user=get("maxConnectionsPerUser"),
        max_connections_per_host=get("maxConnectionsPerHost"),
        max_frame_size=get("maxFrameSize"),
        max_sessions=get("maxSessions"),
        max_session_window=get("maxSessionWindow"),
        max_message_size=get("maxMessageSize"),
        max_senders=get("maxSenders", MAX_INT),
        max_receivers=get("maxReceivers", MAX_INT),
        allow_dynamic_source=get("allowDynamicSource", False),
        allow_anonymous_sender=get("allowAnonymousSender", False),
        allow_user_id_proxy=get("allowUserIdProxy", False),
        allow_waypoint_links=get("allowWaypointLinks", True),
        allow_fallback_links=get("allowFallbackLinks", True),
        allow_dynamic_link_routes=get("allowDynamicLinkRoutes", True),
        allow_admin_status_update=get("allowAdminStatusUpdate", True),
        sources=_names(get("sources")),
        targets=_names(get("targets")),
        source_patterns=_names(get("sourcePattern")),
        target_patterns=_names(get("targetPattern")),
    )


def _names(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """A list, or text with commas. A user that is listed twice in one group counts once."""
    items = value.split(",") if isinstance(value, str) else value or ()
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
