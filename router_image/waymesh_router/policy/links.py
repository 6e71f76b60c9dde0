"""Decisions on the links of a client. Dispatch book 3.6.3 "Vhost User Group Settings Map"."""

from __future__ import annotations

from dataclasses import dataclass

from waymesh_router.policy.decide import LIMIT_EXCEEDED, UNAUTHORIZED, sources_of, targets_of
from waymesh_router.policy.names import AllowedAddresses
from waymesh_router.policy.settings import Group, Policy
from waymesh_schema.address_match import covers

SENDER, RECEIVER, DYNAMIC, ANONYMOUS = "senders", "receivers", "dynamic_sources", "anonymous_senders"
"""What is denied: attributes of `Denials`."""


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """A client's attach. `receiver`: the client receives, and its source is checked; else its target."""

    receiver: bool
    addresses: tuple[str, ...] = ()
    """The address in each form in which a router on the path reads it; all must be allowed."""
    dynamic: bool = False
    anonymous: bool = False
    """A sender without a target address: each message has its own."""
    unnamed: bool = False
    """The address is not known at the attach: only a group that may use all addresses may attach the link."""
    waypoint: bool = False
    fallback: bool = False
    other_management: bool = False
    """The target is the management agent of another router, which would carry out any request."""


@dataclass(frozen=True, slots=True)
class LinkRules:
    """The link rules of a group for one user. Built once per connection, and again when the settings change."""

    group: Group
    sources: AllowedAddresses
    targets: AllowedAddresses


@dataclass(frozen=True, slots=True)
class LinkDenied:
    """A refused link: AMQP condition, reason for the log, and `kind`, the attribute of `Denials` that counts it."""

    condition: str
    reason: str
    kind: str
    carried_out: bool = True
    """False in a dry run."""


def link_rules(policy: Policy, group: Group, user: str) -> LinkRules:
    """The rules of a group for a user."""
    return LinkRules(group, sources_of(policy, group, user), targets_of(policy, group, user))


def decide_link(rules: LinkRules, request: LinkRequest, senders: int, receivers: int) -> LinkDenied | None:
    """Why the link is refused, None if it is allowed. `senders`, `receivers`: open links, this one not counted."""
    group = rules.group
    if request.receiver:
        if receivers >= group.max_receivers:
            return LinkDenied(LIMIT_EXCEEDED, "maxReceivers is reached", RECEIVER)
        kind, allowed, which = RECEIVER, rules.sources, "sources"
    else:
        if senders >= group.max_senders:
            return LinkDenied(LIMIT_EXCEEDED, "maxSenders is reached", SENDER)
        kind, allowed, which = SENDER, rules.targets, "targets"
    if request.receiver and request.dynamic and not group.allow_dynamic_source:
        return LinkDenied(UNAUTHORIZED, "allowDynamicSource is no", DYNAMIC)
    if request.anonymous and not group.allow_anonymous_sender:
        return LinkDenied(UNAUTHORIZED, "allowAnonymousSender is no", ANONYMOUS)
    if request.waypoint and not group.allow_waypoint_links:
        return LinkDenied(UNAUTHORIZED, "allowWaypointLinks is no", kind)
    if request.fallback and not group.allow_fallback_links:
        return LinkDenied(UNAUTHORIZED, "allowFallbackLinks is no", kind)
    if (request.unnamed and not allowed.every) or not all(map(allowed.allow, request.addresses)):
        return LinkDenied(UNAUTHORIZED, f"{which} do not have the address", kind)
    if request.other_management and not group.allow_admin_status_update:
        return LinkDenied(UNAUTHORIZED, "allowAdminStatusUpdate is no: another router could not check that", kind)
    return None


def may_create_link_route(group: Group, pattern: str) -> bool:
    """Whether a container or an edge router of the group may create a link route with this pattern to itself."""
    if not group.allow_dynamic_link_routes:
        return False
    patterns = group.link_route_patterns
    return not patterns or any(covers(allowed, pattern) for allowed in patterns)
