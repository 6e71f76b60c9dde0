"""The schema as the plain map that GET-SCHEMA answers with, in the shape that clients of Qpid Dispatch read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .entities import ENTITY_TYPES
from .model import LONG_PREFIX, NAMES, PORT, STRING, Attribute, EntityType

_WIRE_TYPES = {PORT: STRING, NAMES: STRING}


def schema_dump(kinds: Iterable[EntityType] = ENTITY_TYPES.values()) -> dict[str, Any]:
    """`prefix`, `annotations` (there are none) and `entityTypes` by short name; only maps, lists, text and numbers."""
    return {
        "prefix": LONG_PREFIX.rstrip("."),
        "description": "Management schema of the router.",
        "annotations": {},
        "entityTypes": {kind.name: _entity(kind) for kind in kinds},
    }


def _entity(entity: EntityType) -> dict[str, Any]:
    dumped: dict[str, Any] = {
        "fullyQualifiedType": entity.long_name,
        "description": entity.description,
        "attributes": {name: _attribute(attribute) for name, attribute in entity.attributes.items()},
        "operations": list(entity.operations),
    }
    if entity.extends:
        dumped["extends"] = entity.extends[0].removeprefix(LONG_PREFIX)
    if entity.singleton:
        dumped["singleton"] = True
    return dumped


def _attribute(attribute: Attribute) -> dict[str, Any]:
    """Description of the attribute, without false or absent facts."""
    kind: str | list[str] = _WIRE_TYPES.get(attribute.type, attribute.type)
    facts = {
        "required": attribute.required,
        "unique": attribute.unique,
        "create": attribute.create,
        "update": attribute.update,
        "graph": attribute.graph,
        "hidden": attribute.hidden,
        "deprecated": attribute.deprecated,
    }
    values = {
        "default": attribute.default,
        "deprecationName": attribute.deprecated_name,
        "minimum": attribute.minimum,
        "maximum": attribute.maximum,
    }
    return {
        "type": list(attribute.values) if attribute.values else kind,
        "description": attribute.description,
        **{name: True for name, holds in facts.items() if holds},
        **{name: value for name, value in values.items() if value is not None},
    }
