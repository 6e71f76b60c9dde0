"""The table: every entity type by its short name, and the look-up by any name that users and clients write."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from . import (
    table_addresses,
    table_authentication,
    table_network,
    table_operational,
    table_policy,
    table_router,
    table_telemetry,
    table_tls,
)
from .errors import SchemaError
from .model import LONG_PREFIX, Attribute, EntityType, camel_case

__all__ = ["ENTITY_TYPES", "Attribute", "EntityType", "entity_type"]

_TABLES = (
    table_router,
    table_addresses,
    table_tls,
    table_network,
    table_authentication,
    table_policy,
    table_operational,
    table_telemetry,
)
_ALL = [value for table in _TABLES for value in vars(table).values() if isinstance(value, EntityType)]

ENTITY_TYPES: Mapping[str, EntityType] = MappingProxyType({entity.name: entity for entity in _ALL})
"""Every entity type by its short name; base types, which have no entities of their own, included."""

_NAMES = {name: entity for entity in _ALL for name in (entity.name, entity.long_name, *entity.aliases)}

_REMOVED = {
    "container": "the attributes of router",
    "fixedAddress": "address",
    "linkRoutePattern": "linkRoute",
    "waypoint": "address with waypoint: yes, and an autoLink for each direction",
}
"""Types that Qpid Dispatch 1.0 removed, and what replaces them. former_types translates some of them."""
_ADAPTORS = ("tcpListener", "tcpConnector", "httpListener", "httpConnector")
"""Types of the adaptors of Qpid Dispatch, which carry TCP and HTTP through a mesh."""


def is_type(name: str, short: str) -> bool:
    """Whether `name`, in any form that `entity_type` takes, means the entity type `short`."""
    try:
        return entity_type(name).name == short
    except SchemaError:
        return False


def entity_type(name: str) -> EntityType:
    """The entity type of a short or long name, an alias, or any of these written with hyphens.

    Raises SchemaError when there is none.
    """
    for candidate in (name, name.removeprefix(LONG_PREFIX), camel_case(name.removeprefix(LONG_PREFIX))):
        found = _NAMES.get(candidate)
        if found is not None:
            return found
    if camel_case(name) in _REMOVED:
        raise SchemaError(name, "", f"does not exist since Qpid Dispatch 1.0; use {_REMOVED[camel_case(name)]}")
    if camel_case(name.removeprefix(LONG_PREFIX)) in _ADAPTORS:
        raise SchemaError(name, "", "is not supported: a mesh carries AMQP, not TCP or HTTP")
    near = difflib.get_close_matches(name, (n for n, e in ENTITY_TYPES.items() if e.configurable), n=1)
    raise SchemaError(name, "", "no such entity type" + (f"; did you mean {near[0]}?" if near else ""))
