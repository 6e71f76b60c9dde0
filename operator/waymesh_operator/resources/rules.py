"""The CEL rules of the CRDs (`x-kubernetes-validations`), evaluated as the API server does."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import cel

from .manifests import Path_
from .schema import Finding, Schema


def rule_findings(schema: Schema, value: Any, old: Any = None, path: Path_ = ()) -> Iterator[Finding]:
    """Every rule that the value breaks, with its message. `value` must fit the structural schema and have its defaults.

    `old` is the resource before the change, None for a new one: rules about the change (`oldSelf`) are skipped then.
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
    """The old item with the same keys; lists without keys have no correlated old items."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return None
    return next((o for o in old if all(o.get(k) == item.get(k) for k in keys)), None)
