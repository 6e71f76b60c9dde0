"""What is missing: lost records, and files that are damaged, duplicate or late."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from waymesh_analytics.report.statistics import lost_between
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.store.manifest import Manifest
from waymesh_analytics.store.raw_files import Listing

from .rows import sort_rows
from .table import Count, Table, Text, Time, make_table

CLOCK_JUMP_MS = 1000
"""A wall clock that moved by more than this against the monotonic clock was set."""


@dataclass(frozen=True, slots=True)
class KindRecords:
    """The records of one kind of one boot of a router."""

    kind: Text
    router: Text
    boot: Count
    records: Count
    lost: Count
    dropped: Count
    clock_ms: Count | None = None
    first: Time | None = None
    last: Time | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of missing record numbers."""

    kind: Text
    router: Text
    boot: Count
    first: Count
    last: Count
    lost: Count


@dataclass(frozen=True, slots=True)
class KindFiles:
    """What was read of one kind."""

    kind: Text
    hours: Count
    files: Count
    records: Count
    corrupt: Count
    short: Count


@dataclass(frozen=True, slots=True)
class OddFile:
    """A file with a problem."""

    what: Text
    path: Text


@dataclass(frozen=True, slots=True)
class _LastReport:
    """The last record of kind `router` of a boot."""

    router: str
    boot: int
    # By kind: the number of the last record, and how many records were dropped.
    records: dict[str, int]
    dropped: dict[str, int]


def records(rollups: Rollups) -> Table[KindRecords]:
    """Gaps in the numbers of records: each missing number is a lost record."""
    started = rollups.started
    audited = {(row["kind"], row["router"], row["boot"]): row for row in rollups.audit}
    reported: dict[tuple[str, str, int], int] = {}
    dropped: dict[tuple[str, str, int], int] = {}
    rows = []
    for report in _last_reports(rollups):
        for kind, last in report.records.items():
            key = (kind, report.router, report.boot)
            reported[key], dropped[key] = last, report.dropped.get(kind, 0)
            if key not in audited and last and (report.router, report.boot) in started:
                rows.append(KindRecords(*key, records=0, lost=last, dropped=dropped[key]))
    for key, row in audited.items():
        last = max(row["seq_hi"], reported.get(key, 0))
        rows.append(
            KindRecords(
                *key,
                records=row["records"],
                lost=lost_between(row["seq_lo"], last, row["records"], key[1:] in started),
                dropped=dropped.get(key, 0),
                clock_ms=None if row["offset_lo"] is None else (row["offset_hi"] - row["offset_lo"]) // 1000,
                first=row["first_ts"],
                last=row["last_ts"],
            )
        )
    return make_table(
        "completeness",
        "Completeness of records",
        "Records of each kind, router and boot. lost: missing record numbers; dropped: those of them that the router "
        "itself reports as dropped; clock_ms: how far its wall clock moved against its monotonic clock.",
        KindRecords,
        sorted(rows, key=lambda row: (-row.lost, row.kind, row.router, row.boot)),
    )


def _last_reports(rollups: Rollups) -> list[_LastReport]:
    rows = sort_rows(rollups.routers, (), ("router", "boot"))
    return [
        _LastReport(row["router"], row["boot"], json.loads(row["records"] or "{}"), json.loads(row["dropped"] or "{}"))
        for row in rows
    ]


def gaps(found: Table[KindRecords], manifest: Manifest, listing: Listing, rollups: Rollups) -> Table[Gap]:
    """The record numbers that no file contains; `found` (the table of `records`) has their numbers."""
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for hours in listing.files.values():
        for file in (file for hour, group in hours.items() if hour in rollups.window for file in group):
            name = file.name
            spans[name.kind, name.router, name.boot].append((name.first, name.first + name.count - 1))
    started = rollups.started
    rows = []
    for row in found.rows:
        key = (row.kind, row.router, row.boot)
        present = sorted(spans[key])
        removed = any(entry.sealed for entry in manifest.of(row.kind).values())
        if key[1:] in started and not removed:
            present = [(0, 0), *present, (row.records + row.lost + 1, 0)]
        for (_, before), (after, _) in pairwise(present):
            if after > before + 1:
                rows.append(Gap(*key, first=before + 1, last=after - 1, lost=after - before - 1))
    return make_table(
        "gaps",
        "Missing records",
        "Ranges of record numbers that no file of these hours contains: they were never written, or their file is "
        "missing. Records that are missing within a file, and those of removed files, are not listed.",
        Gap,
        sorted(rows, key=lambda gap: (gap.kind, gap.router, gap.boot, gap.first)),
    )


def files(manifest: Manifest, rollups: Rollups) -> Table[KindFiles]:
    """What was read, and how much of it was damaged."""
    rows = []
    for kind, hours in sorted(manifest.hours.items()):
        inside = [entry for hour, entry in hours.items() if hour in rollups.window]
        if inside:
            row = KindFiles(
                kind,
                hours=len(inside),
                files=sum(entry.files for entry in inside),
                records=sum(entry.rows for entry in inside),
                corrupt=sum(entry.corrupt for entry in inside),
                short=sum(len(entry.short) for entry in inside),
            )
            rows.append(row)
    return make_table(
        "files",
        "Files",
        "Hours, files and records that were read of each kind. corrupt: lines that are not records, kept in the "
        "store's quarantine; short: files with fewer lines than their names say.",
        KindFiles,
        rows,
    )


def odd_files(manifest: Manifest, listing: Listing, rollups: Rollups) -> Table[OddFile]:
    """The files with a problem, one by one."""
    short = [
        path
        for hours in manifest.hours.values()
        for hour, entry in hours.items()
        if hour in rollups.window
        for path in entry.short
    ]
    found = {
        "duplicate": listing.duplicates,
        "late": manifest.late,
        "short": short,
        "unrecognized": listing.unrecognized,
    }
    return make_table(
        "odd_files",
        "Odd files",
        "short: fewer lines than its name says; duplicate: a copy or a part of another file; late: it arrived after "
        "its hour was sealed; unrecognized: its name cannot be parsed.",
        OddFile,
        [OddFile(what, path) for what, paths in found.items() for path in sorted(paths)],
    )
