"""Finds and loads the CRDs that validation uses; also checks Secrets, which have no CRD."""

from __future__ import annotations

import base64
import binascii
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from waymesh_operator.errors import LocalError

from .schema import Finding

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
