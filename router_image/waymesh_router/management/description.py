"""What the agent says about itself: types, attributes, operations, from the one schema table."""

from __future__ import annotations

import json

from waymesh_schema.dump import schema_dump
from waymesh_schema.entities import ENTITY_TYPES, EntityType


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


def json_schema(indent: int | None) -> str:
    """The schema as JSON text (GET-JSON-SCHEMA)."""
    return json.dumps(schema_dump(), indent=indent)
