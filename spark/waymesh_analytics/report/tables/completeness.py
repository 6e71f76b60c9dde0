"""What is missing: the rest of the report is worth as much as this says."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from pyspark.sql import functions as F

from waymesh_analytics.report.statistics import lost_between
from waymesh_analytics.rollups.reader import Rollups
from waymesh_analytics.store.manifest import Hour, Manifest
from waymesh_analytics.store.raw_files import Listing

from .rows import ordered
from .table import COUNT, TEXT, TIME, Table, columns, fill

CLOCK_JUMP_MS = 1000
"""A wall clock that moved so far against the other one was set."""


def records(rollups: Rollups) -> Table:
    """Gaps in the numbers of records, which are lost ones."""
    table = Table(
        "completeness",
        "Completeness of records",
        "Records of each kind, router and start of it. lost: numbers that are missing; dropped: those among them "
        "that the router itself says it dropped; clock_ms: how far its wall clock moved against its steady clock.",
        columns(
            kind=TEXT,
            router=TEXT,
            boot=COUNT,
            records=COUNT,
            lost=COUNT,
            dropped=COUNT,
            clock_ms=COUNT,
            first=TIME,
            last=TIME,
        ),
    )
    started = rollups.started
    audited = {(row["kind"], row["router"], row["boot"]): {**row} for row in rollups.audit}
    rows = []
    for router, boot, told, dropped in _told(rollups):
        for kind, last in told.items():
            row = audited.get((kind, router, boot))
            if row is not None:
                row["told"], row["dropped"] = last, dropped.get(kind, 0)
            elif last and (router, boot) in started:
                rows.append((kind, router, boot, 0, last, dropped.get(kind, 0), None, None, None))
    for (kind, router, boot), row in audited.items():
        last = max(row["seq_hi"], row.get("told", 0))
        lost = lost_between(row["seq_lo"], last, row["records"], (router, boot) in started)
        moved = (row["offset_hi"] - row["offset_lo"]) // 1000
        dropped_here = row.get("dropped", 0)
        rows.append((kind, router, boot, row["records"], lost, dropped_here, moved, row["first_ts"], row["last_ts"]))
    return fill(table, sorted(rows, key=lambda row: (-row[4], row[0], row[1], row[2])))


def _told(rollups: Rollups) -> list[tuple[str, int, dict[str, int], dict[str, int]]]:
    """What each router said last: the number of its last record of each kind, and how many it dropped."""
    latest = [F.max_by(name, "last_seq").alias(name) for name in ("records", "dropped")]
    rows = ordered(rollups.rows("routers", ("router", "boot"), *latest), (), ("router", "boot"))
    return [
        (row["router"], row["boot"], json.loads(row["records"] or "{}"), json.loads(row["dropped"] or "{}"))
        for row in rows
    ]


def gaps(found: Table, manifest: Manifest, listing: Listing, rollups: Rollups) -> Table:
    """Which numbers no file has; `found`: the table of `records`, which says how far they went."""
    table = Table(
        "gaps",
        "Missing records",
        "first to last: numbers of records that are in no file of these hours; they were never written, or their file "
        "is missing. What is missing inside of files, and what was before files that were removed, is not here.",
        columns(kind=TEXT, router=TEXT, boot=COUNT, first=COUNT, last=COUNT, lost=COUNT),
    )
    spans: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for hours in listing.files.values():
        for file in (file for hour, group in hours.items() if hour in rollups.window for file in group):
            name = file.name
            spans[name.kind, name.router, name.boot].append((name.first, name.first + name.count - 1))
    started = rollups.started
    rows = []
    for row in found.dicts():
        key = (row["kind"], row["router"], row["boot"])
        here = sorted(spans[key])
        removed = any(entry.sealed for entry in manifest.of(row["kind"]).values())
        if key[1:] in started and not removed:
            here = [(0, 0), *here, (row["records"] + row["lost"] + 1, 0)]
        for (_, before), (after, _) in pairwise(here):
            if after > before + 1:
                rows.append((*key, before + 1, after - 1, after - before - 1))
    return fill(table, sorted(rows))


def files(manifest: Manifest, rollups: Rollups) -> Table:
    """What was wrong with files."""
    table = Table(
        "files",
        "Files",
        "For each kind: hours, files and records that were read; corrupt: lines set aside in the store's "
        "quarantine; short: files with fewer lines than their names say.",
        columns(kind=TEXT, hours=COUNT, files=COUNT, records=COUNT, corrupt=COUNT, short=COUNT),
    )
    rows = []
    for kind, hours in sorted(manifest.hours.items()):
        inside = [entry for hour, entry in hours.items() if hour in rollups.window]
        if inside:
            rows.append((kind, len(inside), *_sums(inside)))
    return fill(table, rows)


def _sums(entries: Iterable[Hour]) -> tuple[int, int, int, int]:
    totals: dict[str, int] = defaultdict(int)
    for entry in entries:
        totals["files"] += entry.files
        totals["rows"] += entry.rows
        totals["corrupt"] += entry.corrupt
        totals["short"] += len(entry.short)
    return totals["files"], totals["rows"], totals["corrupt"], totals["short"]


def odd_files(manifest: Manifest, listing: Listing, rollups: Rollups) -> Table:
    """The single files that something is wrong with."""
    table = Table(
        "odd_files",
        "Odd files",
        "short: it holds fewer lines than its name says; duplicate: there under two paths or as a part of another; "
        "late: it came when its hour could not be done again; strange: its name is none of ours.",
        columns(what=TEXT, path=TEXT),
    )
    short = [
        ("short", path)
        for hours in manifest.hours.values()
        for hour, entry in hours.items()
        if hour in rollups.window
        for path in entry.short
    ]
    rows = [*short, *(("duplicate", path) for path in listing.duplicates), *(("late", path) for path in manifest.late)]
    return fill(table, sorted([*rows, *(("strange", path) for path in listing.unrecognized)]))
