"""The schema in the replies to GET-TYPES, GET-ATTRIBUTES, GET-OPERATIONS, GET-ANNOTATIONS and GET-JSON-SCHEMA."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from waymesh_router.management.errors import bad_request
from waymesh_schema.dump import schema_dump
from waymesh_schema.entities import ENTITY_TYPES, EntityType

MAX_INDENT = 8


def with_bases(kinds: Iterable[EntityType]) -> list[EntityType]:
    """These types and all their base types, and that of the values of `groups`, in the order of the schema."""
    names = {name for kind in kinds for name in (kind.long_name, *kind.extends)}
    if ENTITY_TYPES["vhost"].long_name in names:
        names.add(ENTITY_TYPES["vhostUserGroupSettings"].long_name)
    return [kind for kind in ENTITY_TYPES.values() if kind.long_name in names]


def types(kinds: Sequence[EntityType]) -> dict[str, list[str]]:
    """Long type name to the long names of its base types (GET-TYPES)."""
    return {kind.long_name: list(kind.extends) for kind in kinds}


def attributes(kinds: Sequence[EntityType]) -> dict[str, list[str]]:
    """Long type name to attribute names (GET-ATTRIBUTES)."""
    return {kind.long_name: list(kind.attributes) for kind in kinds}


def operations(kinds: Sequence[EntityType]) -> dict[str, list[str]]:
    """Long type name to operations (GET-OPERATIONS)."""
    return {kind.long_name: list(kind.operations) for kind in kinds}


def annotations_of(_kinds: Sequence[EntityType]) -> dict[str, list[str]]:
    """Long type name to annotations (GET-ANNOTATIONS); always empty, because no type has annotations."""
    return {}


def json_schema(kinds: Sequence[EntityType], indent: int | None) -> str:
    """The schema as JSON text (GET-JSON-SCHEMA)."""
    if indent is not None and indent > MAX_INDENT:
        raise bad_request(f"'indent' must be at most {MAX_INDENT}")
    return json.dumps(schema_dump(kinds), indent=indent)
