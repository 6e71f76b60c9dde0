"""Secrets of Kubernetes among the manifests: local mode has no API server that would hold them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from .crds import Crd
from .schema import Finding

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
    """Values of `data` that are no base64."""
    for name, text in manifest.get("data", {}).items():
        try:
            _decoded(text)
        except (binascii.Error, ValueError):
            yield ("data", name), "must be base64; plain text belongs into stringData"


def secret_data(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The contents of a valid Secret; stringData wins, as in the API server."""
    data = {name: _decoded(text) for name, text in manifest.get("data", {}).items()}
    return data | {name: text.encode() for name, text in manifest.get("stringData", {}).items()}


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)
