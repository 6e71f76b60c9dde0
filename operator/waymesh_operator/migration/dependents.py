"""Addresses, link routes and autolinks as the resources that refer to a Router."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .notes import Translation
from .source import Entity

_ADDRESS = (
    "prefix", "pattern", "distribution", "waypoint", "ingressPhase", "egressPhase", "priority", "enableFallback",
    "exclusive", "messageGroups", "concurrency", "expired",
)  # fmt: skip
_OWN = ("name", "identity", "type")


def add_address(found: Translation, entity: Entity) -> None:
    """Add an Address."""
    found.read(entity)
    found.not_taken(entity, _ADDRESS)
    texts = ("prefix", "pattern", "distribution", "expired")
    spec: dict[str, Any] = {name: entity.text(name) for name in texts if entity.text(name)}
    for name in ("waypoint", "enableFallback", "exclusive", "messageGroups"):
        if entity.flag(name):
            spec[name] = True
    if spec.get("waypoint") and spec.pop("enableFallback", False):
        found.note(entity, "enableFallback: an Address that is a waypoint cannot have a fallback; left out")
    spec |= numbers(entity, "ingressPhase", "egressPhase", "priority", "concurrency")
    name = entity.text("name") or entity.text("prefix") or entity.text("pattern")
    found.add_dependent("Address", name, spec, entity.place)


def both_ways(entities: Iterable[Entity]) -> list[Entity]:
    """Merge link routes that differ only in direction into one for both directions."""
    found: dict[tuple[tuple[str, str], ...], Entity] = {}
    for entity in entities:
        key = tuple(sorted((n, str(v)) for n, v in entity.attributes.items() if n not in ("direction", *_OWN)))
        first = found.get(key)
        if first is not None and first.text("direction") != entity.text("direction"):
            entity = Entity(first.type, {**first.attributes, "direction": "both"}, first.place)
        found[key] = entity
    return list(found.values())


def add_link_route(found: Translation, entity: Entity, ordinal: int) -> None:
    """Add a LinkRoute."""
    names = ("prefix", "pattern", "addExternalPrefix", "delExternalPrefix")
    found.read(entity)
    found.not_taken(entity, (*names, "direction", "containerId", "connection", "distribution"))
    target = _target(found, entity, ordinal)
    if target is not None:
        spec = {name: entity.text(name) for name in names if entity.text(name)}
        spec |= {**target, "direction": entity.text("direction") or "both"}
        name = entity.text("name") or entity.text("prefix") or entity.text("pattern")
        found.add_dependent("LinkRoute", name, spec, entity.place)


def add_auto_link(found: Translation, entity: Entity, ordinal: int) -> None:
    """Add an AutoLink."""
    names = ("address", "direction", "externalAddress", "selector", "distributionMode")
    flags = ("fallback", "noLocal")
    others = ("phase", "containerId", "connection", "capabilities", "linkProperties")
    found.read(entity)
    found.not_taken(entity, (*names, *flags, *others))
    target = _target(found, entity, ordinal)
    if target is not None:
        spec: dict[str, Any] = {name: entity.text(name) for name in names if entity.text(name)}
        spec |= {**target, **numbers(entity, "phase"), **{name: True for name in flags if entity.flag(name)}}
        if entity.text("capabilities"):
            spec["capabilities"] = entity.text("capabilities").split()
        if entity.attributes.get("linkProperties"):
            spec["linkProperties"] = entity.attributes["linkProperties"]
        name = entity.text("name") or f"{entity.text('address')}-{entity.text('direction')}"
        found.add_dependent("AutoLink", name, spec, entity.place)


def _target(found: Translation, entity: Entity, ordinal: int) -> dict[str, Any] | None:
    """The Broker or container of a link; None if there is none."""
    connection, container = entity.text("connection"), entity.text("containerId")
    if (ordinal, connection) in found.brokers:
        return {"brokerRef": {"name": found.brokers[ordinal, connection]}}
    if connection:
        found.note(entity, f"connection: there is no connector {connection}; left out, give it a containerId")
        return None
    if container:
        return {"containerId": container}
    found.note(entity, "has neither connection nor containerId; left out")
    return None


def numbers(entity: Entity, *names: str) -> dict[str, int]:
    """The attributes that are whole numbers."""
    return {name: int(entity.text(name)) for name in names if entity.text(name).isdigit()}
