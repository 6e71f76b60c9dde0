"""Decisions on connections and links. Dispatch book 3.6.2 and 3.6.3."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.settings import Group, Policy, Vhost
from waymesh_router.policy.statistics import OpenConnections
from waymesh_schema.rules import DEFAULT_GROUP

UNAUTHORIZED = "amqp:unauthorized-access"
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"


@dataclass(frozen=True, slots=True)
class Request:
    """A client connection at its open. `user`: authenticated name; `host`: numeric address; `hostname`: of the open.

    `manages`: its listener has `management: write`. The limits of the router do not concern it, so that the router can
    be managed when clients have taken all connections.
    """

    user: str
    host: str
    hostname: str
    manages: bool = False


@dataclass(frozen=True, slots=True)
class Denied:
    """A refusal: AMQP condition and the reason as text for log and peer."""

    condition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """An allowed connection; without vhost policy, vhost and group are None and nothing is limited by them."""

    vhost: Vhost | None
    group: Group | None


def vhost_of(policy: Policy, hostname: str) -> Vhost | None:
    """By name or alias, then by pattern if enabled, then the default vhost."""
    vhost = policy.vhosts.get(hostname)
    if vhost is None and policy.patterns is not None and (pattern := policy.patterns.match(hostname)) is not None:
        vhost = policy.vhosts[pattern]
    return policy.vhosts.get(policy.default_vhost) if vhost is None else vhost


def group_of(vhost: Vhost, user: str) -> Group | None:
    """The group that lists the user, else `$default` if unknown users are allowed."""
    group = vhost.group_of.get(user)
    return vhost.groups[DEFAULT_GROUP] if group is None and vhost.allow_unknown_user else group


def decide_connection(policy: Policy, request: Request, now_open: OpenConnections) -> Allowed | Denied:
    """Whether the connection may be opened; `now_open` does not count it."""
    if now_open.total >= policy.max_connections and not request.manages:
        return Denied(LIMIT_EXCEEDED, f"the router's maxConnections {policy.max_connections} is reached")
    if not policy.enabled:
        return Allowed(None, None)
    vhost = vhost_of(policy, request.hostname)
    if vhost is None:
        return Denied(UNAUTHORIZED, f"no vhost for host name {request.hostname!r}")
    group = group_of(vhost, request.user)
    if group is None:
        return Denied(UNAUTHORIZED, f"vhost {vhost.hostname}: user {request.user!r} is in no group")
    if not group.remote_hosts.allow(request.host):
        return Denied(UNAUTHORIZED, f"vhost {vhost.hostname}, group {group.name}: host {request.host} is not allowed")
    return _over_limit(vhost, group, request, now_open) or Allowed(vhost, group)


def _over_limit(vhost: Vhost, group: Group, request: Request, now_open: OpenConnections) -> Denied | None:
    per_user, per_host = group.max_connections_per_user, group.max_connections_per_host
    name = vhost.hostname
    limits = (
        ("maxConnections", now_open.vhosts[name], vhost.max_connections),
        (
            "maxConnectionsPerUser",
            now_open.users[name, request.user],
            vhost.max_connections_per_user if per_user is None else per_user,
        ),
        (
            "maxConnectionsPerHost",
            now_open.hosts[name, request.host],
            vhost.max_connections_per_host if per_host is None else per_host,
        ),
    )
    for attribute, count, limit in limits:
        if count >= limit:
            return Denied(LIMIT_EXCEEDED, f"vhost {name}: {attribute} {limit} is reached")
    return None


def max_message_size(policy: Policy, allowed: Allowed, manages: bool = False) -> int:
    """Bytes: that of the group, else of the vhost, else of the router. 0: no limit. `manages`: see Request."""
    for level in (allowed.group, allowed.vhost):
        if level is not None and level.max_message_size is not None:
            return level.max_message_size
    return 0 if manages else policy.max_message_size


def sources_of(policy: Policy, group: Group, user: str) -> AllowedAddresses:
    """Addresses that the user may receive from; made once for each connection."""
    return AllowedAddresses(group.sources, group.source_patterns, user, policy.tree)


def targets_of(policy: Policy, group: Group, user: str) -> AllowedAddresses:
    """Addresses that the user may send to; made once for each connection."""
    return AllowedAddresses(group.targets, group.target_patterns, user, policy.tree)
