"""Creates the entities of a router from the entries of its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.core.attaching import Rng
from waymesh_router.core.containers.registry import ROUTE_CONTAINER, no_container
from waymesh_router.management.agent import Agent
from waymesh_router.management.closed_vhosts import deny_all
from waymesh_router.management.errors import ManagementError
from waymesh_router.management.identity import configured_name
from waymesh_router.policy.overlaps import FirstPatterns
from waymesh_router.policy.settings import alias_names, host_names
from waymesh_schema.config import ConfigEntry
from waymesh_schema.entities import ENTITY_TYPES
from waymesh_schema.errors import ConfigError, Problem, SchemaError
from waymesh_schema.operator_names import of_operator
from waymesh_schema.validate import validate_from_file

_IGNORED = (
    "vhosts are ignored ({}): all clients may use all addresses until the section policy has enableVhostPolicy: yes"
)
_NO_PATTERN = (
    "vhost {} is only for clients that ask for exactly this name: * and # are wildcards only if the section policy has "
    "enableVhostNamePatterns: yes"
)


def configure(agent: Agent, config: Sequence[ConfigEntry], log: Callable[[str, str, str], None]) -> None:
    """Create the configured entities in order, as CREATE requests would. `log(module, level, text)`.

    Raises ConfigError with all refused entities. An entity that the operator configured (OPERATOR_PREFIX) is logged and
    skipped instead: one resource must not keep the routers of a mesh from starting, and the operator sees that the
    entity is missing. A vhost of the operator is replaced by one that denies all clients of names that no other vhost
    has: otherwise another vhost could apply to them and allow more.
    """
    problems: list[Problem] = []
    config = list(_without_overlaps(config, log))
    for entry in config:
        # Line 0: a default entity, for whose type this router may have no adapter.
        if not entry.line and entry.type.name not in agent.adapters:
            continue
        try:
            if entry.created:
                agent.configure(entry.type.name, entry.attributes, check=validate_from_file)
        except (ManagementError, SchemaError) as error:
            name = str(entry.attributes.get("name") or "")
            operators = of_operator(entry.attributes)
            if operators and entry.type.name == "vhost":
                denies = deny_all(agent, entry.attributes) is not None  # else all its names are those of other vhosts
                done = "denies all its clients" if denies else "left out"
                log("AGENT", "error", f"vhost {name} of {entry.filename} {done}: {error}")
            elif not operators or _is_required(name, entry):
                problems.append(Problem(entry.filename, entry.line, str(error)))
            else:
                log("AGENT", "error", f"{entry.type.name} {name} of {entry.filename} left out: {error}")
        for warning in entry.warnings:
            log("AGENT", "warning", f"{entry.filename}:{entry.line}: {warning}")
    if problems:
        raise ConfigError(*problems)
    for warning in [*_without_effect(config), *_unknown_vhosts(config)]:
        log("POLICY", "warning", warning)
    for warning in _without_connection(config):
        log("ROUTER_CORE", "warning", warning)


def _without_overlaps(config: Sequence[ConfigEntry], log: Callable[[str, str, str], None]) -> Iterator[ConfigEntry]:
    """The configuration without vhosts and aliases whose patterns an earlier vhost has, with warnings."""
    policy = _policy(config)
    if policy is None or not policy["enableVhostNamePatterns"]:
        yield from config
        return
    first = FirstPatterns(PatternTree[str])
    for entry in config:
        if entry.type.name != "vhost" or of_operator(entry.attributes):
            yield entry
            continue
        kept, warnings = first.take(entry.attributes)
        for warning in warnings:
            log("POLICY", "warning", f"{entry.filename}:{entry.line}: {warning}")
        if kept is not None:
            yield replace(entry, attributes=dict(kept))


def _policy(config: Iterable[ConfigEntry]) -> Mapping[str, Any] | None:
    return next((entry.attributes for entry in config if entry.type.name == "policy"), None)


def _without_effect(config: Iterable[ConfigEntry]) -> list[str]:
    """Warnings about vhosts that have no effect, as in Qpid Dispatch; not about those of the operator."""
    config = [entry for entry in config if not of_operator(entry.attributes)]
    policy = _policy(config)
    if policy is None:
        return []
    vhosts = [entry.attributes for entry in config if entry.type.name == "vhost"]
    hostnames = [str(vhost["hostname"]) or "for clients without host name" for vhost in vhosts]
    if not policy["enableVhostPolicy"]:
        bound = [entry for entry in config if entry.type.name in ("listener", "connector")]
        named = [_title(entry) for entry in bound if entry.attributes["policyVhost"]]
        hostnames += [f"policyVhost of {name}" for name in named]
        return [_IGNORED.format(", ".join(hostnames))] if hostnames else []
    if policy["enableVhostNamePatterns"]:
        return []
    patterns = [name for name in hostnames if "*" in name or "#" in name]
    return [_NO_PATTERN.format(name) for name in patterns]


def _unknown_vhosts(config: Sequence[ConfigEntry]) -> Iterator[str]:
    """Warnings about settings that name an unknown vhost. None if vhost names are patterns, because one may match."""
    policy = _policy(config)
    if policy is None or not policy["enableVhostPolicy"] or policy["enableVhostNamePatterns"]:
        return
    known: set[str] = set()
    for entry in config:
        if entry.type.name == "vhost":
            known |= {entry.attributes["hostname"], *alias_names(entry.attributes["aliases"] or "")}
    default = policy["defaultVhost"]
    if default and default not in (*known, ENTITY_TYPES["policy"].attributes["defaultVhost"].default):
        yield f"policy defaultVhost: there is no vhost {default}: clients that match no other vhost are denied"
    for entry in config:
        vhost = entry.attributes["policyVhost"] if entry.type.name in ("listener", "connector") else None
        if vhost and vhost not in known and not of_operator(entry.attributes):
            instead = f"clients get the defaultVhost {default}" if default in known else "clients are denied"
            told = instead if entry.type.name == "listener" else "links of the peer are denied"
            yield f"{_title(entry)} policyVhost: there is no vhost {vhost}: {told}"


def _title(entry: ConfigEntry) -> str:
    """The type and name of a listener or connector."""
    return f"{entry.type.name} {configured_name(entry.type.name, entry.attributes)}"


def _without_connection(config: Sequence[ConfigEntry]) -> Iterator[str]:
    """Warnings about autolinks and link routes whose connector or listener does not exist, or has another role than
    route-container. They are no errors: a management request may create it later."""
    places = [entry.attributes for entry in config if entry.type.name in ("connector", "listener")]
    roles = {place["name"]: place["role"] for place in places}
    containers = {place["name"] for place in places if place["role"] == ROUTE_CONTAINER}
    for entry in config:
        values = entry.attributes
        connection = values.get("connection")
        if connection and connection not in containers and not of_operator(values):
            kind = entry.type.name.rpartition(".")[2]
            name = next(values[key] for key in ("name", "address", "prefix", "pattern") if values.get(key))
            why = f"there is no connector or listener named {connection}"
            if connection in roles:
                why = no_container(connection, roles[connection])
            yield f"{kind} {name}: is inactive, as {why}"


def _is_required(name: str, entry: ConfigEntry) -> bool:
    """Whether the router must not start without this entity of the operator.

    Not required: a listener with a tokenProfile, or with its own sslProfile, whose name begins with the listener's.
    Users provide their token keys and certificates; if these are unusable, only that listener stays closed.
    """
    if entry.type.name == "listener":
        own = str(entry.attributes["sslProfile"] or "").startswith(f"{name}/")
        return not own and not entry.attributes["tokenProfile"]
    return entry.type.name in ("router", "policy")


def random_id(mode: str, rng: Rng) -> str:
    """The id of a router whose configuration has none."""
    return f"{mode.capitalize()}_{''.join(rng.choice('0123456789ABCDEF') for _ in range(12))}"


def names_to_look_up(config: Iterable[ConfigEntry]) -> set[str]:
    """The host names in the remoteHosts of all vhosts."""
    vhosts = (entry.attributes for entry in config if entry.type.name == "vhost")
    return {name for vhost in vhosts for name in host_names(vhost["groups"])}
