"""The manifests of a store, a new file for each commit, and what may be removed by them.

`manifest/TERM-NUMBER.json`: the term is that of the claim under which it was written (see `claim`), the number counts
on. The newest that is whole counts. A file of the store is removed only when a committed manifest names it as
superseded, so that a run can be killed between any two steps: the next one finds a whole manifest, all files that this
names, and what is still to be removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock

from waymesh_analytics.errors import AnalyticsError

from .claim import Claim, Clock, Owner, Say, acquire
from .files import Files
from .manifest import SINGLE_VERSION, VERSION, Hour, Manifest, from_single, from_text, to_text

FOLDER = "manifest"
KEPT = 4
"""Manifests that stay: the valid one, and some before it for the case that it becomes unreadable."""
SINGLE, SINGLE_PART = "manifest.json", "manifest.json.tmp"
"""Where the one manifest of the former version was, and where it was before its last rename."""
AREAS = ("curated", "rollups")
_NAME = re.compile(r"(\d{8})-(\d{8})\.json")


@dataclass(slots=True)
class Catalog:
    """What a store holds: `manifest`. Without a `claim` it can be read alone. `lock`: of the manifest."""

    files: Files
    claim: Claim | None
    say: Say
    manifest: Manifest = field(default_factory=Manifest)
    lock: RLock = field(default_factory=RLock)
    _number: int = 0
    _committed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, files: Files, say: Say = lambda text: None) -> Catalog:
        """The newest whole manifest, that of an empty store where there is nothing. Raises AnalyticsError."""
        made = cls(files, None, say)
        made._load()
        return made

    @classmethod
    @contextmanager
    def write(
        cls, files: Files, say: Say, owner: Owner | None = None, clock: Clock | None = None
    ) -> Iterator[Catalog]:
        """The same, claimed for this run until the block ends. Raises AnalyticsError, StoreBusy."""
        claim = acquire(files, say, max((_order(name)[0] for name in _versions(files)), default=0), owner, clock)
        try:
            claim.start()
            made = cls(files, claim, say)
            known = made._load()
            if not known or claim.taken_over:
                made.commit()  # the first one; or one of a higher term, beside which the former run's count for nothing
            made._tidy()
            made.discard()
            yield made
            made.finish()
        finally:
            claim.release()

    def record(self, kind: str, hours: Mapping[str, Hour]) -> None:
        """Commit what was made of some hours of a kind, then remove what was made of them before."""
        with self.lock:
            known = self.manifest.of(kind)
            superseded = {folder_of(path) for hour in hours if hour in known for path in known[hour].paths}
            known.update(hours)
            self.commit(superseded)
        self.discard()

    def commit(self, superseded: Iterable[str] = ()) -> None:
        """From now on what the manifest says is so. Raises StoreBusy where another run has taken over."""
        claim = self._claimed()
        with self.lock:
            self.manifest.superseded = sorted({*self.manifest.superseded, *superseded})
            self._number += 1
            claim.check()
            self.files.write_new(f"{FOLDER}/{claim.term:08d}-{self._number:08d}.json", to_text(self.manifest))
            self._committed = self.manifest.superseded
            claim.check()  # who claims later than this finds what was written
            self._prune()

    def discard(self) -> None:
        """Remove what the last manifest names as superseded; nothing while there is a manifest that can't be read."""
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

    def sweep(self) -> None:
        """Remove what a killed run left: folders of runs that no manifest names.

        Folders of runs that the manifest names are not looked into, for a store has some for each hour of its past.
        """
        if self.manifest.unreadable:
            return
        runs = {folder_of(folder_of(path)) for path in self.manifest.paths()}
        there = (
            f"{area}/{table}/{run}"
            for area in AREAS
            for table in self.files.names(area)
            for run in self.files.names(f"{area}/{table}")
        )
        left = sorted(set(there) - runs)
        if left:
            self.commit(left)
            self.discard()

    def finish(self) -> None:
        """Commit that nothing is left to be removed, so that the next run need not look."""
        if self._committed and not self.manifest.superseded:
            self.commit()

    def _claimed(self) -> Claim:
        if self.claim is None:
            raise AnalyticsError(f"{self.files.full('')} was opened for reading")
        return self.claim

    def _load(self) -> bool:
        """Find the newest whole manifest; whether there is one."""
        names = _versions(self.files)
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
                self.say(f"warning: {self.files.full(f'{FOLDER}/{name}')} can't be read and is passed over: {error}")
        if found is None:
            found = _single(self.files, self.say)
            self._number = max((_order(name)[1] for name in names), default=0)
        if found is None:
            if unreadable or any(self.files.names(area) for area in AREAS):
                raise AnalyticsError(
                    f"{self.files.full('')} holds data, but no manifest that can be read: nothing was removed. Bring a "
                    f"file of {FOLDER}/ back from a copy, or move the store away to have it made anew"
                )
            return False
        self.manifest = found
        self._committed = list(found.superseded)
        if unreadable:
            self._mend()
        found.unreadable = sorted({*found.unreadable, *unreadable} & set(names))
        if found.unreadable:
            some = ", ".join(found.unreadable)
            self.say(f"warning: until {some} in {self.files.full(FOLDER)} is removed, what killed runs left stays")
        return bool(names)

    def _mend(self) -> None:
        """A newer manifest can't be read, and some of what this one names may have been removed by it: such an hour is
        done again, if its files are still there."""
        for hours in self.manifest.hours.values():
            for hour, entry in hours.items():
                gone = {path for path in entry.paths if not self.files.exists(path)}
                if gone:
                    rollups = {table: path for table, path in entry.rollups.items() if path not in gone}
                    curated = "" if entry.curated in gone else entry.curated
                    hours[hour] = replace(entry, fingerprint="", curated=curated, rollups=rollups)

    def _tidy(self) -> None:
        """Leave a file that keeps releases which know one manifest alone from taking the store for an empty one; remove
        manifests that a killed run had begun to write."""
        guard = f'{{"version":{VERSION}}}\n'
        if SINGLE not in self.files.names("") or self.files.read_text(SINGLE) != guard:
            self.files.put(SINGLE, guard)
        self.files.delete(SINGLE_PART)
        for name in self.files.names(FOLDER):
            if name.startswith("."):
                self.files.delete(f"{FOLDER}/{name}")

    def _prune(self) -> None:
        """Remove old manifests."""
        readable = [name for name in _versions(self.files) if name not in self.manifest.unreadable]
        for name in readable[:-KEPT]:
            self.files.delete(f"{FOLDER}/{name}")


def _single(files: Files, say: Say) -> Manifest | None:
    """The manifest of the former version. It was renamed over the one before it, which was deleted for that: a run that
    was killed in between has left it under its first name."""
    there = files.names("")
    for name in (SINGLE, SINGLE_PART):
        if name in there:
            try:
                found = from_single(files.read_text(name))
            except (KeyError, TypeError, ValueError) as error:
                say(f"warning: {files.full(name)} can't be read as a manifest of version {SINGLE_VERSION}: {error}")
            else:
                say(f"{files.full(name)} is of version {SINGLE_VERSION}; its store is taken over as it is")
                return found
    return None


def _versions(files: Files) -> list[str]:
    """The names of the manifests, the oldest first."""
    return sorted((name for name in files.names(FOLDER) if _NAME.fullmatch(name)), key=_order)


def _order(name: str) -> tuple[int, int]:
    term, number = name.removesuffix(".json").split("-")
    return int(term), int(number)


def folder_of(path: str) -> str:
    """The folder that a file of the store is in."""
    return path.rpartition("/")[0]


def _parents(path: str) -> Iterator[str]:
    while path := folder_of(path):
        yield path
