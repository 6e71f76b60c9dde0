"""Access policy: `policy` as spec.policy of the Router, and vhosts as VhostPolicies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from waymesh_schema.convert import names
from waymesh_schema.entities import entity_type

from .notes import Translation
from .source import Entity, Source

_POLICY = {
    "enableVhostPolicy": "enabled",
    "defaultVhost": "defaultVhost",
    "maxConnections": "maxConnections",
    "maxMessageSize": "maxMessageSize",
    "enableVhostNamePatterns": "hostnamePatterns",
    "warnAtPercent": "warnAtPercent",
    "dryRun": "dryRun",
}
_VHOST = (
    "maxConnections", "maxConnectionsPerUser", "maxConnectionsPerHost", "connectionRate", "connectionRatePerUser",
    "connectionRatePerHost", "userConnectionRates", "warnAtPercent", "dryRun", "maxMessageSize", "allowUnknownUser",
)  # fmt: skip
_GROUP_LISTS = {
    "users": "users",
    "remoteHosts": "remoteHosts",
    "sources": "sources",
    "targets": "targets",
    "sourcePattern": "sourcePatterns",
    "targetPattern": "targetPatterns",
    "linkRoutePattern": "linkRoutePatterns",
}
_GROUP_NAME = re.compile(r"\$(default|connector)|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def router_policy(found: Translation, sources: Sequence[Source]) -> dict[str, Any]:
    """spec.policy of the Router. Other values of further routers are lost: a Router has one policy."""
    policies = [(source, next(source.of("policy"), None)) for source in sources]
    specs = [(_policy(found, source, entity) if entity else {}) for source, entity in policies]
    for (source, entity), spec in zip(policies, specs):
        if spec != specs[0]:
            found.lose(entity or source.router, "policy: differs from that of the first router, which is used")
    return specs[0]


def _policy(found: Translation, source: Source, entity: Entity) -> dict[str, Any]:
    found.read(entity)
    found.not_taken(entity, (*_POLICY, "policyDir"))
    folder = entity.text("policyDir")
    if folder and not any(vhost.place.startswith(f"{folder.rstrip('/')}/") for vhost in source.of("vhost")):
        found.lose(entity, f"policyDir: no vhosts could be read from {folder}; give the files of vhosts in the file")
    return {name: entity.attributes[key] for key, name in _POLICY.items() if not entity.is_default(key)} | (
        {"defaultVhost": ""} if entity.attributes.get("defaultVhost") == "" else {}
    )


def add_vhosts(found: Translation, sources: Sequence[Source]) -> None:
    """Add the VhostPolicies, which apply to all routers."""
    made: dict[str, Mapping[str, Any]] = {}
    everywhere = set.intersection(*({vhost.text("hostname") for vhost in source.of("vhost")} for source in sources))
    for entity in [vhost for source in sources for vhost in source.of("vhost")]:
        found.read(entity)
        hostname = entity.text("hostname")
        if hostname not in everywhere:
            found.lose(entity, f"hostname: {hostname}: not all routers had this vhost; now they all admit its users")
        spec = _vhost(found, entity)
        if spec != made.setdefault(hostname, spec):
            found.lose(entity, f"hostname: {hostname} has another policy in another file, which is used")
            continue
        found.add_dependent("VhostPolicy", hostname or "no-host-name", spec, entity.place)


def _vhost(found: Translation, entity: Entity) -> dict[str, Any]:
    found.not_taken(entity, (*_VHOST, "hostname", "aliases", "blockedUsers", "groups"))
    spec: dict[str, Any] = {"hostname": entity.text("hostname")}
    aliases = [name for name in entity.text("aliases").replace(",", " ").split() if name != spec["hostname"]]
    if aliases:
        spec["aliases"] = list(dict.fromkeys(aliases))
    if not entity.is_default("blockedUsers"):
        spec["blockedUsers"] = list(names(entity.text("blockedUsers")))
    spec |= {name: entity.attributes[name] for name in _VHOST if _is_set(entity, name)}
    groups = entity.attributes.get("groups")
    if isinstance(groups, Mapping) and "groups" not in dict(entity.wrong):
        made = [_group(found, entity, str(name), settings) for name, settings in groups.items()]
        spec["groups"] = [group for group in made if group is not None]
    if not any(group["name"] == "$default" for group in spec.get("groups", ())):
        spec.pop("allowUnknownUser", None)  # no right for these users is left
    return spec


def _is_set(entity: Entity, name: str) -> bool:
    return name in entity.attributes and not entity.is_default(name) and name not in dict(entity.wrong)


def _group(found: Translation, entity: Entity, name: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """One group; its settings are complete and converted."""
    if _GROUP_NAME.fullmatch(name) is None:
        found.lose(entity, f"groups.{name}: no resource has a group of that name")
        return None
    group: dict[str, Any] = {"name": name}
    for setting, attribute in entity_type("vhostUserGroupSettings").attributes.items():
        value = settings.get(setting)
        if value in (None, "") or value == attribute.default:
            continue
        if setting in _GROUP_LISTS:
            listed = [one for one in names(value) if (setting, one) != ("users", "*")]
            if listed:
                group[_GROUP_LISTS[setting]] = listed
        elif setting == "management" and value == "write":
            found.note(entity, f"groups.{name}.management: write: the configuration is that of the resources; left out")
        else:
            group[setting] = value
    return group
