"""What the store holds: for each kind and hour which curated file and which rollups are valid, and what they come from.

The manifest alone decides: a file that it does not name is what a killed run left behind. It is replaced as a whole,
after the files that it names are complete.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from .errors import AnalyticsError
from .storage import Storage

MANIFEST = "manifest.json"
VERSION = 3


@dataclass(frozen=True, slots=True)
class Hour:
    """One committed hour of one kind. `fingerprint`: of the names and sizes of its files. `files`, and the records that
    their names `promised`; `rows`: good records that were read, `corrupt`: lines that were not; `short`: files with
    fewer lines than promised. `curated`, `rollups` (by table): paths in the store, "" and empty when expired.
    `sealed`: the raw files are gone, so that it can't be done again."""

    fingerprint: str
    files: int
    promised: int
    rows: int
    corrupt: int
    short: tuple[str, ...] = ()
    curated: str = ""
    rollups: dict[str, str] = field(default_factory=dict)
    sealed: bool = False

    @property
    def paths(self) -> set[str]:
        """Its files in the store."""
        return {self.curated, *self.rollups.values()} - {""}


@dataclass(slots=True)
class Manifest:
    """`hours`: by kind and hour. `late`: files that came when their hour was sealed."""

    hours: dict[str, dict[str, Hour]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def of(self, kind: str) -> dict[str, Hour]:
        """The hours of a kind."""
        return self.hours.setdefault(kind, {})

    def paths(self) -> set[str]:
        """All files of the store that are valid."""
        return {path for hours in self.hours.values() for entry in hours.values() for path in entry.paths}


def load(storage: Storage) -> Manifest:
    """The manifest of a store, an empty one for a new store. Raises AnalyticsError for one that can't be read."""
    if not storage.exists(MANIFEST):
        return Manifest()
    where = storage.full(MANIFEST)
    try:
        data = json.loads(storage.read_text(MANIFEST))
        if data["version"] != VERSION:
            raise AnalyticsError(f"{where} is of version {data['version']}, not {VERSION}: take another --out")
        hours = {
            kind: {hour: Hour(**{**entry, "short": tuple(entry["short"])}) for hour, entry in entries.items()}
            for kind, entries in data["hours"].items()
        }
        return Manifest(hours, list(data["late"]))
    except (KeyError, TypeError, ValueError) as error:
        raise AnalyticsError(f"{where} can't be read: {error}") from error


def save(storage: Storage, manifest: Manifest) -> None:
    """Commit: from now on what the manifest says is so."""
    hours = {
        kind: {hour: asdict(entry) for hour, entry in sorted(entries.items())}
        for kind, entries in sorted(manifest.hours.items())
    }
    data = {"version": VERSION, "hours": hours, "late": manifest.late}
    storage.write_text(MANIFEST, json.dumps(data, indent=0, separators=(",", ":")))
