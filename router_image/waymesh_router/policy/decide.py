"""Decisions on connections and links. Dispatch book 3.6.2 and 3.6.3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.rates import RecentConnections
from waymesh_router.policy.settings import Group, Policy, Vhost
from waymesh_router.policy.statistics import OpenConnections
from waymesh_schema.rates import Rate
from waymesh_schema.rules import DEFAULT_GROUP

UNAUTHORIZED = "amqp:unauthorized-access"
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
OF_LISTENER, OF_ROUTER, OF_VHOST = "listener", "policy", "vhost"
"""Entity types whose settings can refuse a connection."""


@dataclass(frozen=True, slots=True)
class Request:
    """A client connection at its open. `user`: authenticated name; `host`: numeric address; `hostname`: of the open.

    `manages`: its listener has `management: write`. The limits of the router do not apply to it, so that the router can
    be managed when clients use all allowed connections. `listener`: its name; `listener_rate`: its `connectionRate`.
    `groups`: those in the user's token.
    """

    user: str
    host: str
    hostname: str
    manages: bool = False
    listener: str = ""
    listener_rate: Rate | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Denied:
    """A refusal: AMQP condition, the reason as text for log and peer, and the entity type whose setting it is."""

    condition: str
    reason: str
    level: str = OF_VHOST


@dataclass(frozen=True, slots=True)
class Allowed:
    """An allowed connection. While vhost policy is off, vhost and group are None and set no limits.

    `would`: the refusal that a dry run prevented. Then vhost and group may be None because none was found.
    """

    vhost: Vhost | None
    group: Group | None
    would: Denied | None = None


def named_by_client(hostname: str) -> str:
    """The host name in a client's open, empty if it begins with `$`: such a vhost is for listeners with its
    `policyVhost`, as the operator's for management. `$default` applies to clients of other names anyway."""
    return "" if hostname.startswith("$") else hostname


def vhost_of(policy: Policy, hostname: str) -> Vhost | None:
    """The vhost with this name or alias, else one whose pattern matches (if enabled), else the default vhost.

    Without a host name: the vhost with the empty name first. An empty defaultVhost is none, not this one.
    """
    vhost = policy.vhosts.get(hostname)
    if vhost is None and policy.patterns is not None and (pattern := policy.patterns.match(hostname)) is not None:
        vhost = policy.vhosts[pattern]
    return policy.vhosts.get(policy.default_vhost) if vhost is None and policy.default_vhost else vhost


def group_of(vhost: Vhost, user: str, groups: tuple[str, ...] = ()) -> Group | None:
    """The group that lists the user, else the one among `groups`, else `$default` if unknown users are allowed.

    Also None if `groups` names several groups of the vhost: a user has one group, so the choice would be ambiguous.
    """
    group = vhost.group_of.get(user)
    named = named_groups(vhost, groups)
    if group is None and named:
        return vhost.groups[named[0]] if len(named) == 1 else None
    return vhost.groups[DEFAULT_GROUP] if group is None and vhost.allow_unknown_user else group


def named_groups(vhost: Vhost, groups: tuple[str, ...]) -> list[str]:
    """The groups of the vhost that a token names. `$default` is for users without a group."""
    return sorted({name for name in groups if name in vhost.groups and name != DEFAULT_GROUP})


def decide_connection(policy: Policy, request: Request, now_open: OpenConnections, now: float) -> Allowed | Denied:
    """Whether the connection may be opened at the time `now` in seconds; `now_open` does not count it.

    The result is the first refusal that a dry run does not prevent.
    """
    vhost = vhost_of(policy, request.hostname) if policy.enabled else None
    group = None if vhost is None else group_of(vhost, request.user, request.groups)
    would: Denied | None = None
    for denied in _refusals(policy, request, Allowed(vhost, group), now_open, now):
        if not is_dry_run(policy, vhost, denied.level):
            return denied
        would = would or denied
    return Allowed(vhost, group, would)


def is_dry_run(policy: Policy, vhost: Vhost | None, level: str = OF_VHOST) -> bool:
    """Whether a dry run prevents refusals by the settings of that level."""
    if level == OF_LISTENER:
        return False
    return policy.dry_run or (level == OF_VHOST and vhost is not None and vhost.dry_run)


def _refusals(
    policy: Policy, request: Request, place: Allowed, now_open: OpenConnections, now: float
) -> Iterator[Denied]:
    """All reasons to refuse the connection; only the first one is reported."""
    vhost, group, rate = place.vhost, place.group, request.listener_rate
    if not now_open.recent.listeners.has_room(request.listener, rate, now):
        yield Denied(LIMIT_EXCEEDED, f"listener {request.listener}: connectionRate {rate} is reached", OF_LISTENER)
    if now_open.total >= policy.max_connections and not request.manages:
        yield Denied(LIMIT_EXCEEDED, f"the router's maxConnections {policy.max_connections} is reached", OF_ROUTER)
    if not policy.enabled:
        return
    if vhost is None:
        yield Denied(UNAUTHORIZED, f"no vhost for host name {request.hostname!r}", OF_ROUTER)
        return
    if request.user in vhost.blocked_users:
        yield Denied(UNAUTHORIZED, f"vhost {vhost.hostname}: user {request.user!r} is among the blockedUsers")
    if group is None:
        named = ", ".join(named_groups(vhost, request.groups))
        why = f"has a token with several groups: {named}" if named else "is in no group"
        yield Denied(UNAUTHORIZED, f"vhost {vhost.hostname}: user {request.user!r} {why}")
        return
    about = f"vhost {vhost.hostname}, group {group.name}"
    if group.blocked:
        yield Denied(UNAUTHORIZED, f"{about}: blocked is yes")
    if not group.remote_hosts.allow(request.host):
        yield Denied(UNAUTHORIZED, f"{about}: host {request.host} is not allowed")
    yield from _over_limit(vhost, group, request, now_open)
    yield from _over_rate(vhost, group, request, now_open.recent, now)


def _over_limit(vhost: Vhost, group: Group, request: Request, now_open: OpenConnections) -> Iterator[Denied]:
    name = vhost.hostname
    limits = (
        ("maxConnections", now_open.vhosts[name], vhost.max_connections),
        ("maxConnectionsPerUser", now_open.users[name, request.user], per_user_of(vhost, group)),
        ("maxConnectionsPerHost", now_open.hosts[name, request.host], per_host_of(vhost, group)),
    )
    for attribute, count, limit in limits:
        if count >= limit:
            yield Denied(LIMIT_EXCEEDED, f"vhost {name}: {attribute} {limit} is reached")


def per_user_of(vhost: Vhost, group: Group) -> int:
    """`maxConnectionsPerUser` of the group, else of the vhost."""
    own = group.max_connections_per_user
    return vhost.max_connections_per_user if own is None else own


def per_host_of(vhost: Vhost, group: Group) -> int:
    """`maxConnectionsPerHost` of the group, else of the vhost."""
    own = group.max_connections_per_host
    return vhost.max_connections_per_host if own is None else own


def _over_rate(
    vhost: Vhost, group: Group, request: Request, recent: RecentConnections, now: float
) -> Iterator[Denied]:
    name, user = vhost.hostname, request.user
    attribute, rate = rate_of_user(vhost, group, user)
    if not recent.vhosts.has_room(name, vhost.connection_rate, now):
        yield Denied(LIMIT_EXCEEDED, f"vhost {name}: connectionRate {vhost.connection_rate} is reached")
    if not recent.users.has_room((name, user), rate, now):
        yield Denied(LIMIT_EXCEEDED, f"vhost {name}: {attribute} {rate} is reached")
    if not recent.hosts.has_room((name, request.host), group.connection_rate_per_host, now):
        reason = f"vhost {name}: connectionRatePerHost {group.connection_rate_per_host} is reached"
        yield Denied(LIMIT_EXCEEDED, reason)


def rate_of_user(vhost: Vhost, group: Group, user: str) -> tuple[str, Rate | None]:
    """The rate for the user's connections, and the attribute that sets it. A rate for the user replaces the group's."""
    if user in vhost.user_connection_rates:
        return "userConnectionRates", vhost.user_connection_rates[user]
    return "connectionRatePerUser", group.connection_rate_per_user


def count_connection(allowed: Allowed, request: Request, recent: RecentConnections, now: float) -> None:
    """Count an allowed connection toward the rates. Refused ones do not count, so retries succeed eventually."""
    recent.listeners.add(request.listener, request.listener_rate, now)
    vhost, group = allowed.vhost, allowed.group
    if vhost is None or group is None:
        return
    recent.vhosts.add(vhost.hostname, vhost.connection_rate, now)
    _, rate = rate_of_user(vhost, group, request.user)
    recent.users.add((vhost.hostname, request.user), rate, now)
    recent.hosts.add((vhost.hostname, request.host), group.connection_rate_per_host, now)


def max_message_size(policy: Policy, allowed: Allowed, manages: bool = False) -> int:
    """`maxMessageSize` in bytes, of the group, else of the vhost, else of the router. 0: no limit. `manages`: see
    Request."""
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
