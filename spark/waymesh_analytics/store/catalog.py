"""The manifests of a store: a new file for each commit, and the removal of files that they name as superseded.

A manifest is the file `manifest/TERM-NUMBER.json`. TERM is the term of the claim under which it was written (see
`claim`), NUMBER grows by one with each commit. The newest complete manifest is valid. A file of the store is removed
only after a committed manifest has named it as superseded, so a run can be killed between any two steps: the next run
finds a complete manifest, all files that it names, and the list of files that are still to be removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.log import Log

from .claim import Claim, Clock, Owner, acquire
from .files import Files
from .manifest import SINGLE_VERSION, VERSION, Hour, Manifest, from_single, from_text, to_text

FOLDER = "manifest"
KEPT = 4
"""How many manifests are kept: the valid one, and earlier ones in case it becomes unreadable."""
KEPT_RUNS = 24
"""Of that many earlier runs, the last manifest is kept too, so that queries can see the store as it was."""
SINGLE, SINGLE_PART = "manifest.json", "manifest.json.tmp"
"""The only manifest of the previous version, and its temporary name before the last rename."""
AREAS = ("curated", "rollups")
_NAME = re.compile(r"(\d{8})-(\d{8})\.json")


@dataclass(slots=True)
class Catalog:
    """The content of a store. Open one with `read` or `write`."""

    files: Files
    # None: opened for reading only.
    claim: Claim | None
    log: Log
    manifest: Manifest = field(default_factory=Manifest)
    # Protects `manifest`.
    lock: RLock = field(default_factory=RLock)
    _number: int = 0
    _committed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, files: Files, log: Log = lambda text: None) -> Catalog:
        """Open with the newest complete manifest, or an empty one for an empty store. Raises AnalyticsError."""
        catalog = cls(files, None, log)
        catalog._load()
        return catalog

    @classmethod
    @contextmanager
    def write(
        cls, files: Files, log: Log, owner: Owner | None = None, clock: Clock | None = None
    ) -> Iterator[Catalog]:
        """Open for writing: the store is claimed until the block ends. Raises AnalyticsError, StoreBusy."""
        claim = acquire(files, log, max((_order(name)[0] for name in versions(files)), default=0), owner, clock)
        try:
            claim.start()
            catalog = cls(files, claim, log)
            found = catalog._load()
            if not found or claim.taken_over:
                # The first manifest, or one of a higher term: what the previous run may still write is older than it.
                catalog.commit()
            catalog._prepare_folder()
            catalog.remove_superseded()
            yield catalog
            catalog.finish()
        finally:
            claim.release()

    def commit_hours(self, kind: str, hours: Mapping[str, Hour]) -> None:
        """Commit new versions of some hours of a kind, then remove the folders of files that these do not have."""
        with self.lock:
            known = self.manifest.of(kind)
            before = {folder_of(path) for hour in hours if hour in known for path in known[hour].paths}
            known.update(hours)
            self.commit(before - {folder_of(path) for entry in hours.values() for path in entry.paths})
        self.remove_superseded()

    def commit(self, superseded: Iterable[str] = ()) -> None:
        """Write the manifest; `superseded` are folders to remove afterwards. Raises StoreBusy after a take-over."""
        claim = self._claimed()
        with self.lock:
            self.manifest.superseded = sorted({*self.manifest.superseded, *superseded})
            self._number += 1
            claim.check()
            self.files.write_new(f"{FOLDER}/{claim.term:08d}-{self._number:08d}.json", to_text(self.manifest))
            self._committed = self.manifest.superseded
            claim.check()  # a run that claims the store after this check finds the new manifest
            self._prune()

    def remove_superseded(self) -> None:
        """Remove the folders that the last manifest names as superseded, unless a manifest is unreadable."""
        if self.manifest.unreadable:
            return
        with self.lock:
            folders = list(self._committed)
            valid = {part for path in self.manifest.paths() for part in _parents(path)}
        for folder in folders:
            if folder not in valid:
                self.files.delete(folder)
        with self.lock:
            self.manifest.superseded = [folder for folder in self.manifest.superseded if folder not in folders]

    def remove_orphans(self) -> None:
        """Remove folders of runs that no manifest names: killed runs have left them.

        Folders of runs that the manifest names are not listed, because a store has some for each of its hours.
        """
        if self.manifest.unreadable:
            return
        runs = {folder_of(folder_of(path)) for path in self.manifest.paths()}
        present = (
            f"{area}/{table}/{run}"
            for area in AREAS
            for table in self.files.names(area)
            for run in self.files.names(f"{area}/{table}")
        )
        orphans = sorted(set(present) - runs)
        if orphans:
            self.commit(orphans)
            self.remove_superseded()

    def finish(self) -> None:
        """Commit that nothing is left to remove, so that the next run does not look for it."""
        if self._committed and not self.manifest.superseded:
            self.commit()

    def _claimed(self) -> Claim:
        if self.claim is None:
            raise AnalyticsError(f"{self.files.full('')} was opened for reading only")
        return self.claim

    def _load(self) -> bool:
        """Load the newest complete manifest; returns whether there is one."""
        names = versions(self.files)
        unreadable = []
        found = None
        for name in reversed(names):
            try:
                found = from_text(self.files.read_text(f"{FOLDER}/{name}"))
                self._number = _order(name)[1]
                break
            except AnalyticsError as error:
                raise AnalyticsError(f"{self.files.full(f'{FOLDER}/{name}')}: {error}") from error
            except ValueError as error:
                unreadable.append(name)
                self.log(f"warning: {self.files.full(f'{FOLDER}/{name}')} cannot be read and is skipped: {error}")
        if found is None:
            found = _read_single(self.files, self.log)
            self._number = max((_order(name)[1] for name in names), default=0)
        if found is None:
            if unreadable or any(self.files.names(area) for area in AREAS):
                raise AnalyticsError(
                    f"{self.files.full('')} contains data but no readable manifest; nothing was removed. Restore a "
                    f"file of {FOLDER}/ from a backup, or move the store away to have it built again"
                )
            return False
        self.manifest = found
        self._committed = list(found.superseded)
        if unreadable:
            self._invalidate_missing()
        found.unreadable = sorted({*found.unreadable, *unreadable} & set(names))
        if found.unreadable:
            some = ", ".join(found.unreadable)
            self.log(f"warning: superseded files are kept until {some} is removed from {self.files.full(FOLDER)}")
        return bool(names)

    def _invalidate_missing(self) -> None:
        """Mark the hours whose files are missing, so that they are processed again from their exported files.

        A newer manifest that cannot be read may have had them removed.
        """
        for hours in self.manifest.hours.values():
            for hour, entry in hours.items():
                gone = {path for path in entry.paths if not self.files.exists(path)}
                if gone:
                    rollups = {table: paths for table, paths in entry.rollups.items() if not gone.intersection(paths)}
                    curated = () if gone.intersection(entry.curated) else entry.curated
                    hours[hour] = replace(entry, fingerprint="", curated=curated, rollups=rollups)

    def _prepare_folder(self) -> None:
        """Write the file that makes earlier releases refuse the store, and remove partly written manifests."""
        guard = f'{{"version":{VERSION}}}\n'
        if SINGLE not in self.files.names("") or self.files.read_text(SINGLE) != guard:
            self.files.put(SINGLE, guard)
        self.files.delete(SINGLE_PART)
        for name in self.files.names(FOLDER):
            if name.startswith("."):
                self.files.delete(f"{FOLDER}/{name}")

    def _prune(self) -> None:
        """Remove old manifests."""
        readable = [name for name in versions(self.files) if name not in self.manifest.unreadable]
        last_of_run = {_order(name)[0]: name for name in readable}
        kept = {*readable[-KEPT:], *list(last_of_run.values())[-KEPT_RUNS - 1 :]}
        for name in readable:
            if name not in kept:
                self.files.delete(f"{FOLDER}/{name}")


def _read_single(files: Files, log: Log) -> Manifest | None:
    """The manifest of the previous version.

    That version deleted the old file before it renamed the new one, so a killed run may have left the temporary name.
    """
    present = files.names("")
    for name in (SINGLE, SINGLE_PART):
        if name in present:
            try:
                found = from_single(files.read_text(name))
            except (KeyError, TypeError, ValueError) as error:
                log(f"warning: {files.full(name)} is not a manifest of version {SINGLE_VERSION}: {error}")
            else:
                log(f"{files.full(name)} is of version {SINGLE_VERSION}; its store is converted")
                return found
    return None


def versions(files: Files) -> list[str]:
    """The names of the manifests, oldest first."""
    return sorted((name for name in files.names(FOLDER) if _NAME.fullmatch(name)), key=_order)


def _order(name: str) -> tuple[int, int]:
    term, number = name.removesuffix(".json").split("-")
    return int(term), int(number)


def folder_of(path: str) -> str:
    """The folder of a path."""
    return path.rpartition("/")[0]


def _parents(path: str) -> Iterator[str]:
    while path := folder_of(path):
        yield path
