"""The source of a translation: the entities of a configuration file of Qpid Dispatch, or of an Interconnect."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.model import EntityType
from waymesh_schema.validate import examine


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity: its short type name, its attributes by their present names, and its position (`file:line`).

    `remarks`: settings that are read as something else than they say. `wrong`: attributes whose values no router would
    accept, and why; they are among the attributes as they were written.
    """

    type: str
    attributes: Mapping[str, Any]
    place: str
    remarks: tuple[str, ...] = ()
    wrong: tuple[tuple[str, str], ...] = ()

    def text(self, name: str) -> str:
        """The value of an attribute as text; "" if it is not there."""
        value = self.attributes.get(name)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "" if value is None else str(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """The value of a boolean attribute."""
        text = self.text(name).lower()
        return text in ("yes", "true", "on", "1") if text else default

    def is_default(self, name: str) -> bool:
        """Whether the attribute is as if it were not set."""
        try:
            attribute = entity_type(self.type).attributes.get(name)
        except SchemaError:
            return False
        value = self.attributes.get(name)
        return value in (None, "") or (attribute is not None and value == attribute.default)


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration of one router, or of several equal ones (`size`)."""

    place: str
    entities: Sequence[Entity]
    size: int = 1
    name: str = ""
    namespace: str = ""
    # Fields of spec.deploymentPlan, for an Interconnect.
    plan: Mapping[str, Any] = field(default_factory=dict)
    # What the file has besides, which is not translated.
    skipped: tuple[str, ...] = ()

    def of(self, kind: str) -> Iterator[Entity]:
        """The entities of a type."""
        return (entity for entity in self.entities if entity.type == kind)

    @property
    def router(self) -> Entity:
        """The entity `router`, an empty one if there is none."""
        return next(self.of("router"), Entity("router", {}, self.place))

    def profile(self, name: str) -> Entity | None:
        """The sslProfile of that name."""
        return next((one for one in self.of("sslProfile") if one.text("name") == name), None)


def entity_of(name: str, attributes: Mapping[str, Any], place: str, others: Collection[str] = ()) -> Entity:
    """An entity with present names and converted values, read as the router reads configuration files.

    Types and attributes unknown to Waymesh keep their names. `others`: attributes that only this file format has.
    """
    try:
        kind = entity_type(name)
    except SchemaError:
        return Entity(name, attributes, place)
    written = {kind.attribute_name(str(key)) or str(key): value for key, value in attributes.items()}
    known = {key: value for key, value in written.items() if key in kind.attributes and key not in others}
    remarks: list[str] = []
    values, wrong = _examined(kind, known, remarks)
    changed = (key for key, value in values.items() if value != kind.attributes[key].default or key in known)
    read = {key: values[key] for key in changed if key not in wrong}
    told = tuple(text.removeprefix(f"{kind.name} ") for text in remarks)
    return Entity(kind.name, {**written, **read}, place, told, tuple(wrong.items()))


def _examined(
    kind: EntityType, given: Mapping[str, Any], remarks: list[str]
) -> tuple[Mapping[str, Any], dict[str, str]]:
    """The values of what can be read, and the reasons for the rest by attribute."""
    left, wrong = dict(given), dict[str, str]()
    while True:
        found: list[str] = []
        values, errors = examine(kind, left, found)
        if not errors:
            remarks += found
            return values, wrong
        bad = {error.attribute.partition(".")[0]: error for error in errors}
        wrong |= {name: f"{error.attribute}: {error.reason}" for name, error in bad.items()}
        if not bad.keys() & left.keys():
            return left, wrong
        left = {name: value for name, value in left.items() if name not in bad}
