"""Uploads each file of a spool as an object of the same name, then removes the file.

A finished file never changes and its name depends only on its content (waymesh_schema.telemetry): uploading it again,
after a crash between the two steps, writes the same object with the same content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from waymesh_schema.telemetry import KINDS, SUFFIX, FileName, parse_path
from waymesh_upload.store import UploadRefused

OLD_S = 7200.0
"""Empty folders are removed when they have not changed for this long."""
PROBES = 2
"""After a failed upload, how many other files are tried before the store counts as unavailable."""
TRIES = 5
"""A file that failed this often, while others were uploaded, is set aside."""
RETRY_S = 3600.0
"""Time between two tries of a file that is set aside."""


class Store(Protocol):
    """The object store."""

    def put(self, path: str, data: BinaryIO, size: int) -> None:
        """Create or replace the object of a file. Raises UploadRefused."""


@dataclass(frozen=True, slots=True)
class UploadPass:
    """The result of one pass over the spool."""

    # Uploaded files, and their bytes.
    files: int = 0
    size: int = 0
    # Files that are still in the spool, and how many of them are set aside.
    waiting: int = 0
    set_aside: int = 0
    # Why the pass was aborted; "" if it was not.
    refusal: str = ""
    # Files that failed while others were uploaded, with the reasons.
    failed: Mapping[str, str] = field(default_factory=dict)
    # Those of them that are set aside from now on.
    newly_set_aside: tuple[str, ...] = ()


class Uploader:
    """Uploads the files of a spool, which several routers may share. `wall()`: seconds since 1970.

    When an upload fails, others are tried at once. If they fail too, the pass ends: the store seems to be unavailable,
    and all files stay. If one succeeds, the failure counts against the first file. After TRIES failures that file is
    set aside and only tried again from time to time. It stays in the spool, where the router removes it if it needs
    the space.
    """

    def __init__(self, spool: Path, store: Store, wall: Callable[[], float]) -> None:
        self._spool = spool
        self._store = store
        self._wall = wall
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}

    def run(self) -> UploadPass:
        """Make one pass, oldest files first."""
        found = self._finished()
        self._forget({name.path for name in found})
        now = self._wall()
        queue = [name for name in reversed(found) if self._retry_at.get(name.path, 0.0) <= now]
        sizes: list[int] = []
        failed: dict[str, str] = {}
        refusal = ""
        while queue and not refusal:
            name = queue.pop()
            reason = self._try_upload(name, sizes)
            if reason:
                suspects = {name.path: reason}
                failed_before = sizes and name.path in self._failures  # and the store accepts files in this pass
                if failed_before or self._accepts_others(queue, sizes, suspects):
                    failed |= suspects
                else:
                    refusal = f"{name.path}: {reason}"
        newly_set_aside = tuple([path for path in failed if self._count_failure(path, now)])
        if not refusal:
            self._remove_empty_folders()
        waiting = len(found) - len(sizes)
        return UploadPass(len(sizes), sum(sizes), waiting, len(self._retry_at), refusal, failed, newly_set_aside)

    def _try_upload(self, name: FileName, sizes: list[int]) -> str:
        """Upload a file and append its size; returns the reason of a failure, "" also if the file no longer exists."""
        try:
            sizes.append(self._upload(name))
        except FileNotFoundError:
            return ""  # the router removed it for lack of space
        except (UploadRefused, OSError) as error:
            return str(error) or type(error).__name__
        self._failures.pop(name.path, None)
        self._retry_at.pop(name.path, None)
        return ""

    def _accepts_others(self, queue: list[FileName], sizes: list[int], suspects: dict[str, str]) -> bool:
        """After a failure: whether the store accepts another file.

        An arbitrary file is tried, not the next one, because neighbours may have the same problem. Files that fail too
        are added to the suspects.
        """
        if not queue:
            return bool(sizes)
        for _ in range(min(PROBES, len(queue))):
            before = len(sizes)
            good = [name for name in queue if name.path not in self._failures] or queue
            other = good[int(self._wall() * 1000) % len(good)]
            queue.remove(other)
            reason = self._try_upload(other, sizes)
            if len(sizes) > before:
                return True
            if reason:
                suspects[other.path] = reason
        return False

    def _count_failure(self, path: str, now: float) -> bool:
        """Count a failure of a file; returns whether the file is now set aside."""
        count = self._failures.get(path, 0) + 1
        self._failures[path] = count
        if count >= TRIES:
            self._retry_at[path] = now + RETRY_S
        return count == TRIES

    def _forget(self, present: Set[str]) -> None:
        """Forget files that no longer exist."""
        for path in self._failures.keys() - present:
            del self._failures[path]
            self._retry_at.pop(path, None)

    def _finished(self) -> list[FileName]:
        """The finished files, oldest first; samples come last, because they matter least."""
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

    def _remove_empty_folders(self) -> None:
        """Remove empty folders of past hours and days."""
        for hour in self._spool.glob("v*/kind=*/dt=*/hr=*"):
            self._remove(hour)
        for day in self._spool.glob("v*/kind=*/dt=*"):
            self._remove(day)

    def _remove(self, folder: Path) -> None:
        try:
            if self._wall() - folder.stat().st_mtime > OLD_S:
                folder.rmdir()
        except OSError:
            return  # not empty, or already removed
