"""Attributes, entity types, and short constructors for the common kinds of attribute."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

LONG_PREFIX = "org.apache.qpid.dispatch."

STRING, INTEGER, BOOLEAN, ENUM = "string", "integer", "boolean", "enum"
PATH, PORT, ENTITY_ID = "path", "port", "entityId"
LIST, MAP, PROPERTIES, NAMES = "list", "map", "properties", "names"


def camel_case(name: str) -> str:
    """The name without hyphens and with a capital after each of them: `router-id` becomes `routerId`."""
    if "-" not in name:
        return name
    return re.sub(r"-+([A-Za-z0-9])", lambda match: match[1].upper(), name)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an entity type.

    `type` is one of the kinds above; `values`: the values of an enum. `create` and `update`: whether a request or a
    configuration file may set it at creation and afterwards; with neither it is reported only. `graph` marks numbers
    that tools may plot over time. `minimum` and `maximum` bound integers, both included; a number beyond them is
    refused, or replaced by the bound that `clamped` names ("minimum" or "maximum"), with a warning.

    `only_default`: why values other than the default are refused; "" if they are supported. `without_effect`: why they
    are accepted, with a warning, but replaced by the default. `on_host` returns whether a
    value names a file or an environment variable of the router's machine; only the configuration file, and requests at
    a listener with `managementFiles`, may set such a value. A path always does.
    """

    name: str
    type: str
    default: Any = None
    required: bool = False
    unique: bool = False
    create: bool = False
    update: bool = False
    description: str = ""
    values: tuple[str, ...] | None = None
    deprecated_name: str | None = None
    hidden: bool = False
    graph: bool = False
    deprecated: bool = False
    minimum: int | None = None
    maximum: int | None = None
    clamped: str = ""
    only_default: str = ""
    without_effect: str = ""
    on_host: Callable[[Any], bool] | None = None

    def names_host(self, value: Any) -> bool:
        """Whether the value names something on the router's machine; see `on_host`."""
        if value is None or value == "":
            return False
        return self.type == PATH or (self.on_host is not None and self.on_host(value))


@dataclass(frozen=True, slots=True)
class EntityType:
    """One entity type: its short name, its long name on the wire, its attributes by name (inherited ones first).

    `operations`: those on one entity of the type. `extends` lists the long names of the base types, nearest first.
    `aliases` are further short names. `configurable` types may be in a configuration file.
    `refused`: why this router does not support entities of the type; "" if it does.
    """

    name: str
    long_name: str
    attributes: Mapping[str, Attribute]
    operations: tuple[str, ...]
    singleton: bool = False
    aliases: tuple[str, ...] = ()
    description: str = ""
    extends: tuple[str, ...] = ()
    configurable: bool = False
    refused: str = ""
    deprecated_names: Mapping[str, str] = field(default_factory=dict)

    def has_base(self, long_name: str) -> bool:
        """Whether this type is, or extends, the type of that long name."""
        return long_name == self.long_name or long_name in self.extends

    def attribute_name(self, written: str) -> str | None:
        """The current name of an attribute, written perhaps with hyphens or as its deprecated name; None: unknown."""
        for name in (written, camel_case(written)):
            if name in self.attributes:
                return name
            if name in self.deprecated_names:
                return self.deprecated_names[name]
        return None


ENTITY_ATTRIBUTES = (
    Attribute("name", STRING, unique=True, create=True, description="Name given by the user; by default the identity."),
    Attribute("identity", STRING, unique=True, description="Identity given by the router; never changes."),
    Attribute("type", STRING, required=True, create=True, description="Long name of the entity type."),
)


def _type_of(kind: str | tuple[str, ...]) -> dict[str, Any]:
    """The type of an attribute, for an enum with its values."""
    return {"type": ENUM, "values": kind} if isinstance(kind, tuple) else {"type": kind}


def setting(name: str, kind: str | tuple[str, ...], description: str, **flags: Any) -> Attribute:
    """An attribute that configuration may set; a tuple of values as `kind` makes an enum."""
    return Attribute(name, create=True, description=description, **_type_of(kind), **flags)


def changeable(name: str, kind: str | tuple[str, ...], description: str, **flags: Any) -> Attribute:
    """An attribute that only UPDATE may set."""
    return Attribute(name, update=True, description=description, **_type_of(kind), **flags)


def reported(name: str, kind: str | tuple[str, ...], description: str) -> Attribute:
    """An attribute that the router reports and that cannot be set."""
    return Attribute(name, description=description, **_type_of(kind))


def count(name: str, description: str) -> Attribute:
    """A reported number with `graph`."""
    return Attribute(name, INTEGER, description=description, graph=True)


def _build(name: str, description: str, attributes: tuple[Attribute, ...], **facts: Any) -> EntityType:
    table = {attribute.name: attribute for attribute in (*ENTITY_ATTRIBUTES, *attributes)}
    return EntityType(
        name=name,
        long_name=facts.pop("long_name", LONG_PREFIX + name),
        attributes=MappingProxyType(table),
        deprecated_names=MappingProxyType({a.deprecated_name: a.name for a in attributes if a.deprecated_name}),
        description=description,
        **facts,
    )


def configuration(name: str, description: str, *attributes: Attribute, **facts: Any) -> EntityType:
    """An entity type that holds configuration; READ is added to the operations given."""
    facts["operations"] = (*facts.get("operations", ()), "READ")
    facts.setdefault("configurable", True)
    extends = (LONG_PREFIX + "configurationEntity", LONG_PREFIX + "entity")
    return _build(name, description, attributes, extends=extends, **facts)


def operational(name: str, description: str, *attributes: Attribute, **facts: Any) -> EntityType:
    """An entity type that reports what the router is doing; READ is added to the operations given."""
    facts["operations"] = (*facts.get("operations", ()), "READ")
    facts["extends"] = (*facts.get("extends", ()), LONG_PREFIX + "operationalEntity", LONG_PREFIX + "entity")
    return _build(name, description, attributes, **facts)


def base(name: str, description: str, *extends: str) -> EntityType:
    """A type that others extend and that has no entities of its own."""
    return _build(name, description, (), operations=("READ",), extends=tuple(LONG_PREFIX + e for e in extends))
