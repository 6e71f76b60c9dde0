"""Finds and loads the CRDs, and enforces their structural schemas and CEL rules as the API server does. Also checks
Secrets, which have no CRD.

It supports the keywords that our CRDs use (a test checks that no others are used) and reports readable errors."""

from __future__ import annotations

import base64
import binascii
import copy
import difflib
import functools
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cel
import yaml

from waymesh_operator.errors import LocalError

from .manifests import Path_

Finding = tuple[Path_, str]
Schema = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_NAMES = {"string": "text", "boolean": "true or false", "array": "a list", "object": "a map of fields"}


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy of the value with defaults filled in at every depth."""
    if isinstance(value, dict):
        result = dict(value)
        for name, child in schema.get("properties", {}).items():
            if name not in result and "default" in child:
                result[name] = copy.deepcopy(child["default"])
            if name in result:
                result[name] = with_defaults(child, result[name])
        return result
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """A copy without null fields: in a manifest, a field without a value means the same as an absent field."""
    if isinstance(value, dict):
        return {name: without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def findings(schema: Schema, value: Any, path: Path_ = ()) -> Iterator[Finding]:
    """All violations of the schema in the value, outermost first."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string") and not (_is_type("string", value) or _is_type("integer", value)):
        yield path, f"must be text or a whole number (got {_show(value)})"
        return
    if kind and not _is_type(kind, value):
        wanted = _NAMES.get(kind, f"a whole {kind}" if kind == "number" else "a whole number")
        yield path, f"must be {wanted} (got {_show(value)})"
        return
    if schema.get("format") == "int64" and not -(2**63) <= value < 2**63:
        yield path, f"must fit into 64 bits (got {_show(value)})"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path, _not_in_enum(schema["enum"], value)
    yield from ((path, message) for message in _bounds(schema, value))
    if isinstance(value, dict):
        yield from _object(schema, value, path)
    elif isinstance(value, list):
        yield from _array(schema, value, path)


def _is_type(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _object(schema: Schema, value: dict[str, Any], path: Path_) -> Iterator[Finding]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield (*path, name), "is required"
    free = schema.get("additionalProperties")
    for name, child in value.items():
        if name in properties:
            yield from findings(properties[name], child, (*path, name))
        elif isinstance(free, Mapping):
            yield from findings(free, child, (*path, name))
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield (*path, name), f"unknown field{_suggest(name, properties)}"


def _array(schema: Schema, value: list[Any], path: Path_) -> Iterator[Finding]:
    for i, item in enumerate(value):
        yield from findings(schema.get("items", {}), item, (*path, i))
    keys = schema.get("x-kubernetes-list-map-keys", ())
    seen: dict[Any, int] = {}
    for i, item in enumerate(value):
        if keys and isinstance(item, dict):
            identity: Any = tuple(repr(item.get(key)) for key in keys)
            where, what = (*path, i, keys[0]), f"{item.get(keys[0])!r}"
        elif schema.get("x-kubernetes-list-type") == "set":
            identity, where, what = repr(item), (*path, i), repr(item)
        else:
            continue
        if identity in seen:
            yield where, f"{what} duplicates item [{seen[identity]}]"
        seen.setdefault(identity, i)


def _bounds(schema: Schema, value: Any) -> Iterator[str]:
    if isinstance(value, (int, float)):
        yield from _range(schema, "minimum", "maximum", value, lambda low, high: f"(got {value})")
    elif isinstance(value, str):
        yield from _range(schema, "minLength", "maxLength", len(value), lambda low, high: "characters long")
        if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
            yield f"must match {schema['pattern']} (got {_show(value)})"
    elif isinstance(value, list):
        yield from _range(schema, "minItems", "maxItems", len(value), lambda low, high: f"items (got {len(value)})")
    elif isinstance(value, dict):
        yield from _range(schema, "", "maxProperties", len(value), lambda low, high: f"entries (got {len(value)})")


@functools.lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as the API server does: there, $ only matches at the end; in Python also before a final
    newline."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def _range(schema: Schema, lowest: str, highest: str, size: float, unit: Callable[[Any, Any], str]) -> Iterator[str]:
    low, high = schema.get(lowest), schema.get(highest)
    if (low is None or size >= low) and (high is None or size <= high):
        return
    if low is not None and high is not None:
        yield f"must be between {low} and {high} {unit(low, high)}"
    elif low is not None:
        yield f"must be at least {low} {unit(low, high)}"
    else:
        yield f"must be at most {high} {unit(low, high)}"


def _not_in_enum(values: list[Any], value: Any) -> str:
    allowed = ", ".join(map(str, values))
    return f"must be one of {allowed} (got {_show(value)}){_suggest(str(value), values)}"


def _suggest(name: str, known: Any) -> str:
    lower = {str(k).lower(): str(k) for k in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"; did you mean {lower[near[0]]}?" if near and lower[near[0]] != name else ""


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def rule_findings(schema: Schema, value: Any, old: Any = None, path: Path_ = ()) -> Iterator[Finding]:
    """Return every violated rule with its message. `value` must match the structural schema and have defaults filled
    in.

    `old` is the resource before the change, None for a new one: then rules about changes (`oldSelf`) are skipped.
    """
    for rule in schema.get("x-kubernetes-validations", ()):
        yield from _broken(rule, value, old, path)
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name in value:
                yield from rule_findings(child, value[name], _member(old, name), (*path, name))
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        for i, item in enumerate(value):
            yield from rule_findings(schema.get("items", {}), item, _twin(old, item, keys), (*path, i))


def _broken(rule: Mapping[str, str], value: Any, old: Any, path: Path_) -> Iterator[Finding]:
    names = {"self": value}
    if "oldSelf" in rule["rule"]:
        if old is None:
            return
        names["oldSelf"] = old
    if _program(rule["rule"]).execute(names) is not True:
        field = rule.get("fieldPath", "").removeprefix(".")
        yield (*path, *(field.split(".") if field else ())), rule["message"]


@functools.lru_cache(maxsize=256)
def _program(rule: str) -> cel.Program:
    return cel.compile(rule)


def _member(old: Any, name: str) -> Any:
    return old[name] if isinstance(old, dict) and name in old else None


def _twin(old: Any, item: Any, keys: Any) -> Any:
    """Return the old item with the same keys; items of lists without keys have no old counterpart."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return None
    return next((o for o in old if all(o.get(k) == item.get(k) for k in keys)), None)


GROUP = "waymesh.io"


@dataclass(frozen=True, slots=True)
class Crd:
    """One kind: the apiVersion that manifests must name, and the OpenAPI schema of its resources."""

    kind: str
    api_version: str
    schema: Mapping[str, Any]


def data_folder(name: str) -> Path:
    """A folder of the repository's top level: beside the sources in a checkout, under share/waymesh when installed."""
    checkout = Path(__file__).resolve().parents[3] / name
    installed = Path(sysconfig.get_path("data")) / "share" / "waymesh" / name
    for folder in (checkout, installed):
        if folder.is_dir():
            return folder
    raise LocalError(f"the folder {name} of Waymesh is missing; looked for {checkout} and {installed}")


def load_crds(folder: Path | None = None) -> dict[str, Crd]:
    """All CRDs of a folder, by kind."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Crd] = {}
    for path in sorted((folder or data_folder("crds")).glob("*.yaml")):
        spec = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)["spec"]  # both loaders are safe
        version = next(version for version in spec["versions"] if version["storage"])
        kind = spec["names"]["kind"]
        found[kind] = Crd(kind, f"{spec['group']}/{version['name']}", version["schema"]["openAPIV3Schema"])
    return found


_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SECRET = Crd(
    "Secret",
    "v1",
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "type": {"type": "string"},
            "immutable": {"type": "boolean"},
            "data": _TEXTS,
            "stringData": _TEXTS,
        },
    },
)


def secret_findings(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Values of `data` that are not valid base64."""
    for name, text in manifest.get("data", {}).items():
        try:
            _decoded(text)
        except (binascii.Error, ValueError):
            yield ("data", name), "must be base64; put plain text in stringData"


def secret_data(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The contents of a valid Secret; stringData wins, as in the API server."""
    data = {name: _decoded(text) for name, text in manifest.get("data", {}).items()}
    return data | {name: text.encode() for name, text in manifest.get("stringData", {}).items()}


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)
