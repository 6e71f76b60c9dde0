"""What the agent says about itself: types, attributes, operations and the whole schema, from the one schema table."""

from __future__ import annotations

import json
from typing import Any

from waymesh_schema.entities import ENTITY_TYPES, Attribute, EntityType

PREFIX = "org.apache.qpid.dispatch"


def _chosen(kind: EntityType | None) -> list[EntityType]:
    return list(ENTITY_TYPES.values()) if kind is None else [kind]


def types(kind: EntityType | None) -> dict[str, list[str]]:
    """Long type name to the long names of its base types (GET-TYPES); with a type, it and all that extend it."""
    wanted = [t for t in ENTITY_TYPES.values() if kind is None or t.has_base(kind.long_name)]
    return {one.long_name: list(one.extends) for one in wanted}


def attributes(kind: EntityType | None) -> dict[str, list[str]]:
    """Long type name to attribute names (GET-ATTRIBUTES)."""
    return {one.long_name: list(one.attributes) for one in _chosen(kind)}


def operations(kind: EntityType | None) -> dict[str, list[str]]:
    """Long type name to operations (GET-OPERATIONS)."""
    return {one.long_name: list(one.operations) for one in _chosen(kind)}


def schema() -> dict[str, Any]:
    """The whole schema (GET-SCHEMA): `prefix` and `entityTypes` by short name."""
    return {"prefix": PREFIX, "entityTypes": {one.name: _type(one) for one in ENTITY_TYPES.values()}}


def json_schema(indent: int | None) -> str:
    """The schema as JSON text (GET-JSON-SCHEMA)."""
    return json.dumps(schema(), indent=indent)


def _type(kind: EntityType) -> dict[str, Any]:
    return {
        "attributes": {name: _attribute(one) for name, one in kind.attributes.items()},
        "operations": list(kind.operations),
        "description": kind.description,
        "fullyQualifiedType": kind.long_name,
        "singleton": kind.singleton,
    }


def _attribute(one: Attribute) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "type": list(one.values) if one.values is not None else one.type,
        "required": one.required,
        "unique": one.unique,
        "create": one.create,
        "update": one.update,
        "hidden": one.hidden,
        "graph": one.graph,
        "deprecated": one.deprecated,
        "description": one.description,
    }
    if one.default is not None:
        facts["default"] = one.default
    return facts
