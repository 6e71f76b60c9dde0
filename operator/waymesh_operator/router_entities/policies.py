"""Entities of access policy: a router's policy, the vhosts of VhostPolicies, and the vhost for management."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from waymesh_operator.resources.router import Policy, Ref
from waymesh_operator.resources.vhost_policy import VhostPolicy
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

from .names import OPERATORS, POLICY, VHOST, Entity, entity_name

MANAGEMENT_VHOST = "$management"
"""Name of the vhost of the management listeners. No VhostPolicy can have it."""
LOOPBACK = "127.0.0.1"
ANONYMOUS = "anonymous"
"""The user name of clients that do not authenticate."""
_MANAGERS: Mapping[str, Any] = {
    "allowDynamicSource": True,
    "targetPattern": "$management,_topo/*/*/$management",
    "allowDynamicLinkRoutes": False,
}
"""Addresses of requests to any router of the mesh, and of responses at dynamic addresses."""


def policy_entity(policy: Policy) -> Entity:
    """The policy of a router. It sets every attribute: one that is removed from the manifest is reset live."""
    return Entity(
        POLICY,
        POLICY,
        {
            "maxConnections": policy.max_connections,
            "maxMessageSize": policy.max_message_size,
            "enableVhostPolicy": policy.enabled,
            "enableVhostNamePatterns": policy.hostname_patterns,
            "defaultVhost": policy.default_vhost,
            "warnAtPercent": policy.warn_at_percent,
            "dryRun": policy.dry_run,
        },
    )


def is_default(entity: Entity) -> bool:
    """Return whether a router behaves the same without the entity. Only for the `policy` entity."""
    table = entity_type(POLICY).attributes
    return entity.type == POLICY and all(table[name].default == value for name, value in entity.attributes.items())


def vhost_entity(policy: VhostPolicy) -> Entity:
    """The vhost of a VhostPolicy. It sets every attribute that can be updated, as an UPDATE replaces all groups."""
    return Entity(
        VHOST,
        entity_name(policy.ref, "VhostPolicy"),
        {
            "hostname": policy.hostname,
            "aliases": ",".join(policy.aliases) or None,
            "maxConnections": policy.max_connections,
            "maxConnectionsPerUser": policy.max_connections_per_user,
            "maxConnectionsPerHost": policy.max_connections_per_host,
            "connectionRate": policy.connection_rate,
            "connectionRatePerUser": policy.connection_rate_per_user,
            "connectionRatePerHost": policy.connection_rate_per_host,
            "userConnectionRates": dict(policy.user_connection_rates),
            "blockedUsers": ",".join(policy.blocked_users),
            "warnAtPercent": policy.warn_at_percent,
            "dryRun": policy.dry_run,
            "maxMessageSize": policy.max_message_size,
            "allowUnknownUser": policy.allow_unknown_user,
            "groups": {
                group.name: {name: value for name, value in group.settings if value is not None}
                for group in policy.groups
            },
        },
    )


def closed_vhost(policy: VhostPolicy, names: Sequence[str]) -> Entity:
    """Build a deny-all vhost for names of a VhostPolicy that cannot be applied.

    Without it, another vhost could apply to these clients and allow them more: the default vhost, or a pattern.
    """
    return vhost_entity(VhostPolicy(policy.ref, policy.router, names[0], tuple(names[1:]), dry_run=policy.dry_run))


def management_vhost(ref: Ref, operator: str | None = None, *, any_certificate: bool = False) -> Entity:
    """Build the vhost of the management listeners: the operator may manage the router, and clients on loopback.

    `operator`: the user of its certificate, None in local mode. `any_certificate`: a user-provided issuer may have
    written another subject into it; the listener only accepts certificates with the operator's DNS name in any case.
    """
    groups: dict[str, Any] = {"local": {**_MANAGERS, "users": ANONYMOUS, "remoteHosts": LOOPBACK}}
    if operator is not None:
        name = "$default" if any_certificate else "operator"
        groups[name] = {**_MANAGERS, "users": operator, "remoteHosts": "*"}
    attributes = {"hostname": MANAGEMENT_VHOST, "allowUnknownUser": any_certificate, "groups": groups}
    return Entity(VHOST, entity_name(ref, "Router", OPERATORS), attributes)


def same_groups(live: Any, wanted: Any) -> bool:
    """Whether two values of `groups` mean the same: absent settings have their defaults, null is absent."""
    return bool(_full(live) == _full(wanted))


def _full(groups: Any) -> Any:
    """Return the groups with all settings, as routers report them; unchanged if they have settings unknown to the
    schema."""
    try:
        return validate_create(entity_type(VHOST), {"hostname": "x", "groups": groups or {}})["groups"]
    except SchemaError:
        return groups
