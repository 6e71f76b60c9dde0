"""Files of a spool, each to an object of the same name; what is there is removed here.

The name of a file follows from its content and a finished file is never changed (waymesh_schema.telemetry): to upload
one again, after a crash between the two steps, writes the same object with the same content.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from waymesh_schema.telemetry import KINDS, SUFFIX, FileName, parse_path
from waymesh_upload.store import Refused

OLD_S = 7200.0
"""Folders of hours are removed when they are empty and nothing came or went for so long."""


class Store(Protocol):
    """Where files go."""

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        """Make or replace the object of a file. Raises Refused."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of one pass over the spool. `waiting`: files that are still there. `refusal`: why, "" for none."""

    files: int = 0
    size: int = 0
    waiting: int = 0
    refusal: str = ""


class Uploader:
    """Empties a spool, which may be that of several routers, into a store. `wall()`: seconds since 1970."""

    def __init__(self, spool: Path, store: Store, wall: Callable[[], float]) -> None:
        self._spool = spool
        self._store = store
        self._wall = wall

    def run(self) -> Passage:
        """One pass: ends with the first refusal, for the next file would hardly be taken."""
        found = self._finished()
        files = size = 0
        for name in found:
            try:
                size += self._upload(name)
            except FileNotFoundError:
                continue  # the router had no more room for it
            except (Refused, OSError) as error:
                return Passage(files, size, len(found) - files, f"{name.path}: {error}")
            files += 1
        self._tidy()
        return Passage(files, size)

    def _finished(self) -> list[FileName]:
        """The finished files, the oldest first; samples last, for they are the least missed."""
        paths = (path.relative_to(self._spool).as_posix() for path in self._spool.glob(f"v*/kind=*/*/*/*{SUFFIX}"))
        names = [name for name in map(parse_path, paths) if name is not None]
        return sorted(names, key=lambda name: (KINDS[name.kind].sampled, name.dt, name.hr, name.boot, name.first))

    def _upload(self, name: FileName) -> int:
        path = self._spool / name.path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._store.put(name.path, file, size)
        path.unlink(missing_ok=True)
        return size

    def _tidy(self) -> None:
        """Remove folders that nothing will come to any more."""
        for hour in self._spool.glob("v*/kind=*/dt=*/hr=*"):
            self._remove(hour)
        for day in self._spool.glob("v*/kind=*/dt=*"):
            self._remove(day)

    def _remove(self, folder: Path) -> None:
        try:
            if self._wall() - folder.stat().st_mtime > OLD_S:
                folder.rmdir()
        except OSError:
            return  # it is not empty, or gone
