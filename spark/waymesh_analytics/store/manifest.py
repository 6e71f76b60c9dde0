"""What the store holds: for each kind and hour which curated file and which rollups are valid, and what they come from.

The manifest alone decides: a file that it does not name is what a killed run left behind. Here is what it says and how
it is written as text; which of the written ones counts is a matter of `catalog`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from waymesh_analytics.errors import AnalyticsError

VERSION = 4
SINGLE_VERSION = 3
"""Of the time when there was one file, `manifest.json`, that was replaced at each commit."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One committed hour of one kind. `fingerprint`: of the names and sizes of its files. `files`, and the records that
    their names `promised`; `rows`: good records that were read, `corrupt`: lines that were not; `short`: files with
    fewer lines than promised. `curated`, `rollups` (by table): paths in the store, "" and empty when expired.
    `sealed`: the raw files are gone or about to go, so that it can't be done again."""

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
    """`hours`: by kind and hour. `late`: files that came when their hour was sealed. `superseded`: folders of the store
    that were valid before this manifest, or never, and that may be removed. `unreadable`: manifests that were passed
    over; while they are there, nothing that they may name is removed."""

    hours: dict[str, dict[str, Hour]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def of(self, kind: str) -> dict[str, Hour]:
        """The hours of a kind."""
        return self.hours.setdefault(kind, {})

    def paths(self) -> set[str]:
        """All files of the store that are valid."""
        return {path for hours in self.hours.values() for entry in hours.values() for path in entry.paths}


def to_text(manifest: Manifest) -> str:
    """Its text; the last line is a checksum of the others, so that a part is not taken for the whole."""
    hours = {
        kind: {hour: asdict(entry) for hour, entry in sorted(entries.items())}
        for kind, entries in sorted(manifest.hours.items())
    }
    lists = {"late": manifest.late, "superseded": manifest.superseded, "unreadable": manifest.unreadable}
    body = json.dumps({"version": VERSION, "hours": hours, **lists}, indent=0, separators=(",", ":"))
    return f"{body}\n{_checksum(body)}\n"


def from_text(text: str) -> Manifest:
    """The manifest that `to_text` wrote. Raises ValueError for a text that is not whole, AnalyticsError for one of
    another version."""
    body, _, last = text.removesuffix("\n").rpartition("\n")
    if not text.endswith("\n") or last != _checksum(body):
        raise ValueError("its checksum is wrong")
    data = json.loads(body)
    if data["version"] != VERSION:
        raise AnalyticsError(f"version {data['version']}, not {VERSION}: take another --out")
    return Manifest(_hours(data), data["late"], data["superseded"], data["unreadable"])


def from_single(text: str) -> Manifest:
    """The manifest of a store of the former version. Raises ValueError, KeyError or TypeError for what is none."""
    data = json.loads(text)
    if data["version"] != SINGLE_VERSION:
        raise ValueError(f"version {data['version']}, not {SINGLE_VERSION}")
    return Manifest(_hours(data), list(data["late"]))


def _hours(data: dict[str, Any]) -> dict[str, dict[str, Hour]]:
    return {
        kind: {hour: Hour(**{**entry, "short": tuple(entry["short"])}) for hour, entry in entries.items()}
        for kind, entries in data["hours"].items()
    }


def _checksum(body: str) -> str:
    return f"sha256 {hashlib.sha256(body.encode()).hexdigest()}"
