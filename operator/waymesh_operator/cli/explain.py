"""`waymesh explain`: kinds and fields of manifests, described by the CRDs. It needs no cluster."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waymesh_operator.errors import WaymeshError
from waymesh_operator.resources.crds import Crd, load_crds

from .terminal import make_console

Schema = Mapping[str, Any]
_BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "matches {}"),
)
"""Schema keywords that limit a value, and their wording."""


def run_explain(path: str, recursive: bool, no_color: bool) -> int:
    """Describe a field, such as `router.spec.size`, or without a path, all kinds. Raises WaymeshError."""
    console, crds = make_console(no_color), load_crds()
    if not path:
        kinds = ((crd.kind, crd.api_version, str(crd.schema["description"])) for crd in crds.values())
        _print_rows(console, "Kind", kinds)
        return 0
    name, *fields = path.split(".")
    crd = _crd(crds, name)
    schema, required = _field(crd, fields)
    _print_line(console, "Kind", f"{crd.kind} ({crd.api_version})")
    if fields:
        _print_line(console, "Field", f"{'.'.join(fields)} <{type_of(schema)}>{' required' if required else ''}")
    _print_line(console, "", str(schema.get("description", "")))
    for text in allowed(schema):
        _print_line(console, "Value", text)
    for rule in schema.get("x-kubernetes-validations", ()):
        _print_line(console, "Rule", str(rule.get("message") or rule["rule"]))
    rows = list(_rows(_of_items(schema), recursive))
    if rows:
        _print_rows(console, "Field", rows)
    return 0


def type_of(schema: Schema) -> str:
    """Return the type as kubectl writes it: `string`, `[]object`, `map[string]string`."""
    if "items" in schema:
        return f"[]{type_of(schema['items'])}"
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        return f"map[string]{type_of(values)}"
    return "integer or string" if schema.get("x-kubernetes-int-or-string") else str(schema.get("type", "any"))


def allowed(schema: Schema) -> Iterator[str]:
    """Describe the allowed values: default, choices, bounds."""
    if "default" in schema:
        yield f"default {_text(schema['default'])}"
    if "enum" in schema:
        yield f"one of {', '.join(_text(value) for value in schema['enum'])}"
    for keyword, words in _BOUNDS:
        if keyword in schema:
            yield words.format(schema[keyword])


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _crd(crds: Mapping[str, Crd], name: str) -> Crd:
    """Return the CRD of a kind, named as kubectl accepts it: Router, router, routers. Raises WaymeshError."""
    for crd in crds.values():
        kind = crd.kind.lower()
        if name.lower() in (kind, f"{kind}s", f"{kind}es"):
            return crd
    raise WaymeshError(f"no kind {name}; kinds are {', '.join(crds)}")


def _field(crd: Crd, fields: Iterable[str]) -> tuple[Schema, bool]:
    """Return the schema of a field, and whether it is required. Raises WaymeshError for an unknown field."""
    schema, required, where = crd.schema, False, crd.kind
    for name in fields:
        parent = _of_items(schema)
        known = parent.get("properties", {})
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else f"; its fields are {', '.join(known)}" if known else ""
            raise WaymeshError(f"{where} has no field {name}{hint}")
        schema, required, where = known[name], name in parent.get("required", ()), f"{where}.{name}"
    return schema, required


def _of_items(schema: Schema) -> Schema:
    """Return the schema that has the fields: for a list that of its items, for a map that of its values."""
    while True:
        inner = schema.get("items") or schema.get("additionalProperties")
        if not isinstance(inner, Mapping):
            return schema
        schema = inner


def _rows(schema: Schema, recursive: bool, depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Name, type and description of each field."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        kind = type_of(field) + (" required" if name in required else "")
        said = [str(field.get("description", "")), *allowed(field)]
        yield "  " * depth + name, kind, " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in said if text)
        if recursive:
            yield from _rows(_of_items(field), recursive, depth + 1)


def _print_line(console: Console, title: str, text: str) -> None:
    if text:
        console.print(f"{title:<7}{text}" if title else f"\n{text}\n", markup=False, highlight=False)


def _print_rows(console: Console, heading: str, rows: Iterable[tuple[str, str, str]]) -> None:
    table = Table(box=SIMPLE_HEAD, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column(heading, no_wrap=True)
    table.add_column("Type", no_wrap=True)
    table.add_column("Description", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # a Text: brackets in descriptions are not markup
    console.print(table)
