"""The manifest: for each kind and hour, which curated file and rollups are valid, and what they were made from.

Only the manifest makes a file valid: files that it does not name were left by killed runs. This module has the content
and its text form; `catalog` decides which of the written manifests is valid.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from waymesh_analytics.errors import AnalyticsError

VERSION = 5
ONE_FILE_VERSION = 4
"""The version in which an hour had one curated file and one file of each rollup."""
SINGLE_VERSION = 3
"""The version that had a single file, `manifest.json`, replaced at each commit."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One committed hour of one kind."""

    # A hash of the names and sizes of the exported files.
    fingerprint: str
    # How many exported files there were.
    files: int
    # How many records the names of the files announce.
    promised: int
    # How many valid records were read.
    rows: int
    # How many lines were not records.
    corrupt: int
    # Paths of files with fewer lines than their names say.
    short: tuple[str, ...] = ()
    # Paths of the curated files in the store; none if expired or empty.
    curated: tuple[str, ...] = ()
    # Paths of the files of each rollup in the store by name; empty if expired.
    rollups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # The exported files are removed or about to be: the hour cannot be processed again.
    sealed: bool = False
    # The `origins` of the exported files that the hour was made of; empty in manifests of earlier versions.
    origins: str = ""

    @property
    def paths(self) -> set[str]:
        """The paths of the hour's files in the store."""
        return {*self.curated, *(path for paths in self.rollups.values() for path in paths)}


@dataclass(slots=True)
class Manifest:
    """The content of a store."""

    # Hours by kind and hour.
    hours: dict[str, dict[str, Hour]] = field(default_factory=dict)
    # Exported files that arrived after their hour was sealed.
    late: list[str] = field(default_factory=list)
    # Folders that are no longer valid, or never were, and may be removed.
    superseded: list[str] = field(default_factory=list)
    # Manifests that were skipped; as long as they exist, nothing is removed that they may name.
    unreadable: list[str] = field(default_factory=list)

    def of(self, kind: str) -> dict[str, Hour]:
        """The hours of a kind."""
        return self.hours.setdefault(kind, {})

    def paths(self) -> set[str]:
        """The paths of all valid files."""
        return {path for hours in self.hours.values() for entry in hours.values() for path in entry.paths}


def to_text(manifest: Manifest) -> str:
    """The text of a manifest; its last line is a checksum, so that a truncated file is recognised."""
    hours = {
        kind: {hour: asdict(entry) for hour, entry in sorted(entries.items())}
        for kind, entries in sorted(manifest.hours.items())
    }
    lists = {"late": manifest.late, "superseded": manifest.superseded, "unreadable": manifest.unreadable}
    body = json.dumps({"version": VERSION, "hours": hours, **lists}, indent=0, separators=(",", ":"))
    return f"{body}\n{_checksum(body)}\n"


def from_text(text: str) -> Manifest:
    """Parse what `to_text` wrote. Raises ValueError for an incomplete text, AnalyticsError for another version."""
    body, _, last = text.removesuffix("\n").rpartition("\n")
    if not text.endswith("\n") or last != _checksum(body):
        raise ValueError("wrong checksum")
    data = json.loads(body)
    if data["version"] not in (VERSION, ONE_FILE_VERSION):
        raise AnalyticsError(f"version {data['version']}, not {VERSION}: use another --out")
    return Manifest(_hours(data), data["late"], data["superseded"], data["unreadable"])


def from_single(text: str) -> Manifest:
    """Parse a manifest of the previous version. Raises ValueError, KeyError or TypeError."""
    data = json.loads(text)
    if data["version"] != SINGLE_VERSION:
        raise ValueError(f"version {data['version']}, not {SINGLE_VERSION}")
    return Manifest(_hours(data), list(data["late"]))


def _hours(data: dict[str, Any]) -> dict[str, dict[str, Hour]]:
    return {
        kind: {hour: _hour(entry) for hour, entry in entries.items()} for kind, entries in data["hours"].items()
    }


def _hour(entry: dict[str, Any]) -> Hour:
    rollups = {name: _paths(found) for name, found in entry["rollups"].items()}
    return Hour(**{**entry, "short": tuple(entry["short"]), "curated": _paths(entry["curated"]), "rollups": rollups})


def _paths(found: str | list[str]) -> tuple[str, ...]:
    """A text in earlier versions; an empty one means none."""
    return ((found,) if found else ()) if isinstance(found, str) else tuple(found)


def _checksum(body: str) -> str:
    return f"sha256 {hashlib.sha256(body.encode()).hexdigest()}"
