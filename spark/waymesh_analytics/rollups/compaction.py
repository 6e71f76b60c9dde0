"""Brings the store up to date: exported lines → curated files → rollups, and a commit after each batch of hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import uuid4

from pyspark.sql import functions as F

from waymesh_analytics.log import Log
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.curation import Batch, expected_records, write_curated
from waymesh_analytics.store.hour_files import PART, write_hours, written_hours
from waymesh_analytics.store.manifest import Hour, Manifest
from waymesh_analytics.store.raw_files import Listing, RawFile, fingerprint
from waymesh_analytics.store.schemas import HOUR
from waymesh_analytics.store.storage import Storage
from waymesh_analytics.store.store import Store, read_curated
from waymesh_schema.telemetry import KINDS

from .definitions import ROLLUPS

BATCH_BYTES = 256 << 20
"""Compressed bytes of lines between two commits: the most that the run after a killed one has to repeat."""
BATCH_HOURS = 240
PARALLEL_KINDS = 2
"""Kinds that are processed in parallel: the last step of each, one file an hour, is often a single task."""
SMALL_BYTES = 4 << 20
"""Up to this many compressed bytes, one task is faster than starting several."""


def compact(store: Store, listing: Listing, log: Log) -> None:
    """Process all hours of `listing` that are not committed, or were committed from other files."""
    late = store.manifest.late
    pending = {kind: _pending(store.manifest, kind, listing.files.get(kind, {})) for kind in KINDS}

    def compact_kind(kind: str) -> None:
        for batch in _batches(pending[kind]):
            count = sum(len(files) for files in batch.values())
            log(f"{kind}: {min(batch)} to {max(batch)}, {count} files")
            compact_batch(store, kind, batch)

    run_parallel(compact_kind, sorted(pending, key=lambda kind: -_size(pending[kind])), PARALLEL_KINDS)
    if store.manifest.late != late:
        store.catalog.commit()
    store.catalog.remove_orphans()


def compact_batch(store: Store, kind: str, batch: Batch) -> None:
    """Write curated files and rollups of some hours of a kind, then commit.

    They go to folders with a name of their own, so that no file of another run is overwritten.
    """
    run = uuid4().hex[:16]
    small = _size(batch) < SMALL_BYTES
    storage = store.small if small else store.storage
    counts = write_curated(storage, kind, run, batch, small)
    curated = written_hours(storage, f"curated/{kind}/{run}")
    rollups = write_rollups(storage, kind, run, curated, small)
    hours = {}
    for hour, files in batch.items():
        count = counts[hour]
        hours[hour] = Hour(
            fingerprint=fingerprint(files),
            files=len(files),
            promised=expected_records(files),
            rows=count.records,
            corrupt=count.corrupt,
            short=count.short,
            curated=curated.get(hour, ""),
            rollups={name: paths[hour] for name, paths in rollups.items() if hour in paths},
        )
    store.catalog.commit_hours(kind, hours)


def write_rollups(
    storage: Storage, kind: str, run: str, curated: Mapping[str, str], small: bool
) -> dict[str, dict[str, str]]:
    """Write the rollups of some hours from their curated files; returns rollup → hour → path."""
    if not curated:
        return {}
    written = {}
    for rollup in ROLLUPS:
        if rollup.kinds and kind not in rollup.kinds:
            continue
        records = read_curated(storage, kind, sorted(curated.values())).withColumn("kind", F.lit(kind))
        rows = (rollup.build(records.coalesce(1)) if small else rollup.build(records)).withColumn(PART, F.col(HOUR))
        folder = f"rollups/{rollup.name}/{kind}-{run}"
        write_hours(storage, rows if small else rows.repartition(PART), folder, rollup.keys)
        written[rollup.name] = written_hours(storage, folder)
    return written


def _size(batch: Batch) -> int:
    return sum(file.size for files in batch.values() for file in files)


def _pending(manifest: Manifest, kind: str, listed: Batch) -> dict[str, list[RawFile]]:
    """The hours to process: new ones, and those with more files than before.

    An hour that has lost files keeps what was made of them.
    """
    pending = {}
    committed = manifest.of(kind)
    for hour, files in sorted(listed.items()):
        known = committed.get(hour)
        if known is None:
            pending[hour] = files
        elif known.fingerprint == fingerprint(files):
            continue
        elif known.sealed:
            manifest.late = sorted({*manifest.late, *(file.name.path for file in files)})
        elif expected_records(files) >= known.promised:
            pending[hour] = files
    return pending


def _batches(pending: Batch) -> Iterator[Batch]:
    batch: dict[str, list[RawFile]] = {}
    size = 0
    for hour, files in pending.items():
        hour_size = _size({hour: files})
        if batch and (size + hour_size > BATCH_BYTES or len(batch) >= BATCH_HOURS):
            yield batch
            batch, size = {}, 0
        batch[hour] = files
        size += hour_size
    if batch:
        yield batch
