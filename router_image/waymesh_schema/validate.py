"""Checking the attributes of CREATE and UPDATE, from a request or from a configuration file, against the table."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from typing import Any

from .convert import convert
from .entities import ENTITY_TYPES, entity_type
from .errors import SchemaError
from .leniency import read_safely, without_effect_in_group
from .model import Attribute, EntityType, camel_case
from .rules import apply_request_rules, apply_rules

ONLY_FROM_FILE = (
    "is only taken from the configuration file, or over a listener with managementFiles: yes, because it names a file "
    "or an environment variable of the router's machine, or gives the right to do so"
)
"""Error for a request that names a file or variable of the router's machine."""
_USER_GROUP = ENTITY_TYPES["vhostUserGroupSettings"]


def validate_create(entity: EntityType, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes that creation may set, by their current names, converted and with defaults filled in.

    An attribute without value and default is None. Deprecated and hyphenated names are accepted, null means absent,
    and `type` is checked and left out. Raises SchemaError(entity, attribute, reason) for the first error.
    """
    values, errors = examine(entity, attrs)
    if errors:
        raise errors[0]
    return values


def validate_from_file(entity: EntityType, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What `validate_create` returns, for the attributes of an entity of a file, which were examined with `notes`."""
    values, errors = examine(entity, attrs, [])
    if errors:
        raise errors[0]
    return values


def examine(
    entity: EntityType, attrs: Mapping[str, Any], notes: list[str] | None = None
) -> tuple[dict[str, Any], list[SchemaError]]:
    """What `validate_create` returns, and all errors; the values are complete if there are none.

    `notes`: for an entity of a configuration file; gets the warnings about settings that are read safely instead of
    being refused (leniency.py). None: nothing is accepted that a request may not say.
    """
    errors: list[SchemaError] = []
    given = _present(entity, attrs, errors)
    if entity.name == "vhost" and "hostname" not in given and "name" in given:
        given["hostname"] = given["name"]  # Dispatch book 3.6.5: its examples give a vhost only a name
    values: dict[str, Any] = {}
    for attribute in entity.attributes.values():
        try:
            if attribute.name in given:
                if not attribute.create:
                    raise SchemaError(entity.name, attribute.name, "is read-only")
                value = _convert(entity, attribute, given[attribute.name], notes)
                values[attribute.name] = attribute.default if attribute.without_effect else value
            elif attribute.create and attribute.name != "type":
                if attribute.required:
                    raise SchemaError(entity.name, attribute.name, "is required")
                values[attribute.name] = copy.copy(attribute.default)
        except SchemaError as error:
            errors.append(error)
    if notes is not None and not errors:
        notes += read_safely(entity.name, values, given.keys())
    errors += _unsupported(entity, values)
    if not errors:
        try:
            apply_rules(entity.name, values)
            if notes is None:
                apply_request_rules(entity.name, values)
        except SchemaError as error:
            errors.append(error)
    return values, errors


def clamped(entity: EntityType, attrs: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """A warning for each number in `attrs` that was replaced by its bound in `values`."""
    found = []
    for written, value in attrs.items():
        name = entity.attribute_name(str(written))
        if name is not None and entity.attributes[name].clamped and value is not None and int(value) != values[name]:
            found.append(f"{entity.name} {name}: {value} is beyond the limit; {values[name]} is used")
    return found


def renamed(entity: EntityType, attrs: Mapping[str, Any]) -> list[str]:
    """A warning for each attribute in `attrs` that has its deprecated name."""
    found = []
    for written in map(str, attrs):
        present = entity.deprecated_names.get(written) or entity.deprecated_names.get(camel_case(written))
        if present is not None and camel_case(written) not in entity.attributes:
            found.append(f"{entity.name} {written}: is deprecated; use {present}")
    return found


def refuse_host_values(entity: EntityType, values: Mapping[str, Any]) -> None:
    """Refuse values of a request that name a file or an environment variable of the router's machine.

    Clients could otherwise read files that only the router can read, such as a mounted Secret, and write to files that
    only it can write. Raises SchemaError.
    """
    for name, value in values.items():
        if entity.attributes[name].names_host(value):
            raise SchemaError(entity.name, name, ONLY_FROM_FILE)


def validate_update(
    entity: EntityType, attrs: Mapping[str, Any], current: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The attributes that an UPDATE changes, converted; null restores the default.

    Attributes that cannot be updated are refused unless they only repeat what `current` has. Raises SchemaError.
    """
    current = current or {}
    values: dict[str, Any] = {}
    errors: list[SchemaError] = []
    given = _present(entity, attrs, errors, keep_null=True)
    if errors:
        raise errors[0]
    for name, value in given.items():
        attribute = entity.attributes[name]
        if attribute.update:
            values[name] = copy.copy(attribute.default) if value is None else _convert(entity, attribute, value)
        elif name not in current or current[name] != value:
            raise SchemaError(entity.name, name, "cannot be updated")
    for error in _unsupported(entity, values):
        raise error
    apply_rules(entity.name, {**_defaults(entity), **current, **values})
    return values


def _unsupported(entity: EntityType, values: Mapping[str, Any]) -> list[SchemaError]:
    """An error for each unsupported setting: it is not ignored."""
    return [
        SchemaError(entity.name, name, attribute.only_default)
        for name, attribute in entity.attributes.items()
        if attribute.only_default and name in values and values[name] not in (attribute.default, "")
    ]


def _present(
    entity: EntityType, attrs: Mapping[str, Any], errors: list[SchemaError], keep_null: bool = False
) -> dict[str, Any]:
    """The given values by current attribute names, without `type` and, unless kept, without nulls.

    An attribute may be given twice, also by its deprecated name, if the values are equal.
    """
    given: dict[str, Any] = {}
    for written, value in attrs.items():
        try:
            name = _attribute_name(entity, str(written))
            if name == "type":
                _check_type(entity, value)
            elif name in given and given[name] != value:
                raise SchemaError(entity.name, name, f"is given twice, also as {str(written)!r}")
            elif value is not None or keep_null:
                given[name] = value
        except SchemaError as error:
            errors.append(error)
    return given


def _attribute_name(entity: EntityType, written: str) -> str:
    name = entity.attribute_name(written)
    if name is not None:
        return name
    near = difflib.get_close_matches(written, entity.attributes, n=1)
    raise SchemaError(entity.name, written, "no such attribute" + (f"; did you mean {near[0]}?" if near else ""))


def _check_type(entity: EntityType, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or entity_type(str(value)) is not entity):
        raise SchemaError(entity.name, "type", f"is {value!r}, but the entity is a {entity.name}")


def _convert(entity: EntityType, attribute: Attribute, value: Any, notes: list[str] | None = None) -> Any:
    try:
        converted = convert(attribute, value)
    except ValueError as error:
        raise SchemaError(entity.name, attribute.name, str(error)) from None
    if entity.name == "vhost" and attribute.name == "groups":
        return {name: _user_group(name, settings, notes) for name, settings in converted.items()}
    return converted


def _user_group(name: str, settings: Any, notes: list[str] | None) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise SchemaError("vhost", f"groups.{name}", "must be a map of settings")
    if notes is not None:
        settings, ignored = without_effect_in_group(name, settings)
        notes += ignored
    try:
        values = validate_create(_USER_GROUP, settings)
    except SchemaError as error:
        raise SchemaError("vhost", f"groups.{name}.{error.attribute}", error.reason) from None
    del values["name"]
    return values


def _defaults(entity: EntityType) -> dict[str, Any]:
    return {attribute.name: attribute.default for attribute in entity.attributes.values()}
