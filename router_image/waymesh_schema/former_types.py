"""Translates sections of entity types that Qpid Dispatch 1.0 removed, if current types have an exact counterpart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .conf_syntax import Section
from .errors import SchemaError
from .model import camel_case

Attributes = Mapping[str, Any]


def _fixed_address(given: Attributes) -> tuple[str, dict[str, Any]]:
    """Prefixes of a fixedAddress begin with a slash; the slash alone matches all addresses."""
    if str(given.get("phase", 0)) != "0":
        raise SchemaError("fixedAddress", "phase", "has no counterpart other than 0; use address with waypoint: yes")
    prefix = _text(given, "fixedAddress", "prefix").removeprefix("/")
    fanout = _choice(given, "fixedAddress", "fanout", ("multiple", "single"))
    bias = _choice(given, "fixedAddress", "bias", ("closest", "spread"))
    distribution = "multicast" if fanout == "multiple" else "closest" if bias == "closest" else "balanced"
    place = {"prefix": prefix} if prefix else {"pattern": "#"}
    return "router.config.address", {**place, "distribution": distribution}


def _link_route_pattern(given: Attributes) -> tuple[str, dict[str, Any]]:
    route = {
        "prefix": _text(given, "linkRoutePattern", "prefix"),
        "direction": _choice(given, "linkRoutePattern", "dir", ("both", "in", "out")),
    }
    return "router.config.linkRoute", {**route, "connection": given.get("connector")}


_Translation = Callable[[Attributes], tuple[str, dict[str, Any]]]
_TYPES: Mapping[str, tuple[tuple[str, ...], _Translation]] = {
    "fixedAddress": (("prefix", "phase", "fanout", "bias"), _fixed_address),
    "linkRoutePattern": (("prefix", "dir", "connector"), _link_route_pattern),
}
"""The attributes of each type beside its name, and its translation."""


def counterpart(section: Section) -> tuple[Section, tuple[str, ...]]:
    """The section as one of a current type, and a warning if its type was a former one. Raises SchemaError."""
    kind = camel_case(section.name)
    if kind not in _TYPES:
        return section, ()
    known, translate = _TYPES[kind]
    given = {camel_case(written): value for written, value in section.attributes.items()}
    for name in given:
        if name not in (*known, "name"):
            raise SchemaError(kind, name, "no such attribute")
    present, attributes = translate(given)
    attributes = {name: value for name, value in attributes.items() if value is not None}
    text = ", ".join(f"{name}: {value}" for name, value in attributes.items())
    warning = f"{kind}: does not exist since Qpid Dispatch 1.0; taken as {present} with {text}"
    if "name" in given:
        attributes["name"] = given["name"]
    return Section(present, section.line, attributes), (warning,)


def _text(given: Attributes, kind: str, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise SchemaError(kind, name, "is required")
    return value


def _choice(given: Attributes, kind: str, name: str, values: tuple[str, ...]) -> str:
    """One of the values; the first of them is the default."""
    value = str(given.get(name, values[0]))
    if value not in values:
        raise SchemaError(kind, name, f"must be one of {', '.join(values)}, not {value!r}")
    return value
