"""The seeds that a pod mounts, from the ConfigMaps of its mesh."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any


def mounted(find: Callable[[str], Mapping[str, Any] | None], mesh: str = "mesh") -> dict[str, bytes]:
    """Return the files of the volume: of later ConfigMaps in place of those with the same name of earlier ones.
    `find`: a ConfigMap by name."""
    files: dict[str, bytes] = {}
    for name in (f"{mesh}-seed", *(f"{mesh}-seed-{number}" for number in (2, 3, 4))):
        body = find(name) or {}
        files |= {key: base64.b64decode(text) for key, text in (body.get("binaryData") or {}).items()}
        files |= {key: text.encode() for key, text in (body.get("data") or {}).items()}
    return files


def shared_rows(find: Callable[[str], Mapping[str, Any] | None], mesh: str = "mesh") -> list[Any]:
    """Return the entities that all routers of the mesh share, as rows of JSON."""
    files = mounted(find, mesh)
    names = sorted(name for name in files if name.startswith("shared") and name.endswith(".gz"))
    return [row for name in names for row in json.loads(gzip.decompress(files[name]))]
