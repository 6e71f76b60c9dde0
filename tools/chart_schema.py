"""Writes the schemas of the CRDs into `definitions` of the chart's values.schema.json: `python tools/chart_schema.py`.

With them, helm refuses a value that a custom resource does not have: the API server would drop it with a warning.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waymesh_operator.resources.crds import load_crds

FILE = Path(__file__).resolve().parent.parent / "helm" / "waymesh" / "values.schema.json"
VALUES = {"Router": "mesh", "Broker": "broker", "AutoLink": "autoLink", "LinkRoute": "linkRoute", "Address": "address"}
"""The name in `definitions` of the values that become a resource of each kind."""

_KEPT = ("type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
         "maxProperties", "required")  # fmt: skip
# The API server checks rules and keys of lists, and fills in defaults.
_LEFT_OUT = ("description", "default", "format", "x-kubernetes-validations", "x-kubernetes-list-type",
             "x-kubernetes-list-map-keys")  # fmt: skip
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
_OWN = {
    "name": {"description": "Name of the resource.", **_NAME},
    "labels": {"description": "More labels of the resource.", **_TEXTS},
    "annotations": {"description": "Annotations of the resource.", **_TEXTS},
}
_OF_MESH = {
    "enabled": {"type": "boolean", "description": "Whether the chart makes a Router."},
    "namespace": {"type": "string", "description": "Namespace of it and of the lists; empty: that of the release."},
}


def schema_text() -> str:
    """Return the text of values.schema.json with regenerated definitions."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    crds = load_crds()
    schema["definitions"] = {name: _values(kind, crds[kind].schema) for kind, name in VALUES.items()}
    return json.dumps(schema, indent=2) + "\n"


def _values(kind: str, resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a kind's spec together with the chart's values for it. Raises ValueError if the two have a
    name in common."""
    spec = json_schema(resource["properties"]["spec"])
    own = {**_OWN, **_OF_MESH} if kind == "Router" else _OWN
    if clash := own.keys() & spec["properties"].keys():
        raise ValueError(f"{kind}: {', '.join(sorted(clash))} is a value of the chart and an attribute of spec")
    spec["properties"] = own | spec["properties"]
    if kind != "Router":  # whose values have defaults; the chart sets routerRef to it
        spec["required"] = ["name", *(name for name in spec["required"] if name != "routerRef")]
    return spec


def json_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema of a CRD to JSON Schema. Raises ValueError at an unknown keyword."""
    found: dict[str, Any] = {}
    for word, value in node.items():
        if word in _KEPT:
            found[word] = value
        elif word == "properties":
            found[word] = {name: json_schema(child) for name, child in value.items()}
        elif word in ("items", "additionalProperties"):
            found[word] = json_schema(value) if isinstance(value, Mapping) else value
        elif word == "x-kubernetes-int-or-string":
            found["type"] = ["integer", "string"]
        elif word not in (*_LEFT_OUT, "x-kubernetes-preserve-unknown-fields"):
            raise ValueError(f"{word} of a CRD has no counterpart here")
    if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


def main() -> None:
    """Write the file, and report if that changed it."""
    text = schema_text()
    if FILE.read_text(encoding="utf-8") != text:
        FILE.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {FILE}\n")


if __name__ == "__main__":
    main()
