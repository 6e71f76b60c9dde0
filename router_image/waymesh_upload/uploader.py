"""Files of a spool, each to an object of the same name; what is there is removed here.

The name of a file follows from its content and a finished file is never changed (waymesh_schema.telemetry): to upload
one again, after a crash between the two steps, writes the same object with the same content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from waymesh_schema.telemetry import KINDS, SUFFIX, FileName, parse_path
from waymesh_upload.store import Refused

OLD_S = 7200.0
"""Folders of hours are removed when they are empty and nothing came or went for so long."""
OTHERS = 2
"""So many other files are tried before the store is taken to be away."""
TRIES = 5
"""A file that was not taken so often, while others were, is set aside."""
AGAIN_S = 3600.0
"""Between two tries of a file that is set aside."""


class Store(Protocol):
    """Where files go."""

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        """Make or replace the object of a file. Raises Refused."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of one pass over the spool. `waiting`: files that are still there; `aside`: how many of them are set
    aside. `refusal`: why the pass was broken off, "" where it was not. `failed`: files that were not taken while others
    were, each with the reason; `given_up`: those of them that are set aside from now on."""

    files: int = 0
    size: int = 0
    waiting: int = 0
    aside: int = 0
    refusal: str = ""
    failed: Mapping[str, str] = field(default_factory=dict)
    given_up: tuple[str, ...] = ()


class Uploader:
    """Empties a spool, which may be that of several routers, into a store. `wall()`: seconds since 1970.

    When a file is not taken, others are tried at once. If none of these is taken either, the pass ends: the store seems
    to be away, and all files keep their places. If one is, the failure counts against the first file, which is set
    aside after TRIES of them, and tried again from time to time. It stays in the spool, where the router removes it
    when it needs the room.
    """

    def __init__(self, spool: Path, store: Store, wall: Callable[[], float]) -> None:
        self._spool = spool
        self._store = store
        self._wall = wall
        self._failures: dict[str, int] = {}
        self._again: dict[str, float] = {}

    def run(self) -> Passage:
        """One pass, the oldest files first."""
        found = self._finished()
        self._forget({name.path for name in found})
        now = self._wall()
        left = [name for name in reversed(found) if self._again.get(name.path, 0.0) <= now]
        sizes: list[int] = []
        failed: dict[str, str] = {}
        refusal = ""
        while left and not refusal:
            name = left.pop()
            reason = self._take(name, sizes)
            if reason:
                suspects = {name.path: reason}
                known = sizes and name.path in self._failures  # once more, and the store takes files in this pass
                if known or self._takes_others(left, sizes, suspects):
                    failed |= suspects
                else:
                    refusal = f"{name.path}: {reason}"
        given_up = tuple([path for path in failed if self._give_up(path, now)])
        if not refusal:
            self._tidy()
        waiting = len(found) - len(sizes)
        return Passage(len(sizes), sum(sizes), waiting, len(self._again), refusal, failed, given_up)

    def _take(self, name: FileName, sizes: list[int]) -> str:
        """Upload a file, and add its size; returns why it was not taken, "" also for one that is not there any more."""
        try:
            sizes.append(self._upload(name))
        except FileNotFoundError:
            return ""  # the router had no more room for it
        except (Refused, OSError) as error:
            return str(error) or type(error).__name__
        self._failures.pop(name.path, None)
        self._again.pop(name.path, None)
        return ""

    def _takes_others(self, left: list[FileName], sizes: list[int], suspects: dict[str, str]) -> bool:
        """After a file was not taken: whether the store takes another one. It is any other one, not the next, for many
        that follow each other may have the same fault; one that is not taken either joins the suspects."""
        if not left:
            return bool(sizes)
        for _ in range(min(OTHERS, len(left))):
            taken = len(sizes)
            good = [name for name in left if name.path not in self._failures] or left
            other = good[int(self._wall() * 1000) % len(good)]
            left.remove(other)
            reason = self._take(other, sizes)
            if len(sizes) > taken:
                return True
            if reason:
                suspects[other.path] = reason
        return False

    def _give_up(self, path: str, now: float) -> bool:
        """Count a failure of a file; whether it is the one after which the file is set aside."""
        count = self._failures.get(path, 0) + 1
        self._failures[path] = count
        if count >= TRIES:
            self._again[path] = now + AGAIN_S
        return count == TRIES

    def _forget(self, there: Set[str]) -> None:
        """Forget files that are gone."""
        for path in self._failures.keys() - there:
            del self._failures[path]
            self._again.pop(path, None)

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
