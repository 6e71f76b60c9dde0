"""Routers started from several configuration files, as a pod is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit.process import RouterProcess

Entities = Sequence[Sequence[Any]]


def write_boot_files(folder: Path, files: Mapping[str, Entities]) -> list[str]:
    """Write files of entities (`["router", {…}]`), compressed where the name says so; the arguments that name them."""
    arguments: list[str] = []
    for name, entities in files.items():
        data = json.dumps(entities).encode()
        path = folder / name
        path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
        arguments += ["-c", str(path)]
    return arguments


class BootedRouter(RouterProcess):
    """A router that reads the files `shared.json.gz` and `<name>.json`, in that order."""

    def __init__(self, folder: Path, name: str, entities: tuple[Entities, Entities], ports: Iterable[int]) -> None:
        """`entities`: shared ones and its own."""
        super().__init__(folder, name, "", ports)
        shared, own = entities
        self.arguments = write_boot_files(folder, {"shared.json.gz": shared, f"{name}.json": own})
