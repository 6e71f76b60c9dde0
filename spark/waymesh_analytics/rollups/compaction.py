"""Brings the store up to date: exported lines → curated files → rollups, and a commit after each batch of hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import uuid4

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.log import Log
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.manifest import Hour, Manifest
from waymesh_analytics.store.places import SETTINGS
from waymesh_analytics.store.raw_files import Listing, RawFile, fingerprint, origin, origins, split_origins
from waymesh_analytics.store.storage import Storage, hadoop_settings
from waymesh_analytics.store.store import Store
from waymesh_schema.telemetry import KINDS

from .tasks import Shard, TaskResult, work

Batch = Mapping[str, list[RawFile]]
"""Exported files by hour."""
@dataclass(frozen=True, slots=True)
class Addition:
    """A committed hour to which files are added, and all of its files that exist now."""

    before: Hour
    listed: list[RawFile]


Kept = Mapping[str, Addition]
"""Additions by hour."""
BATCH_BYTES = 256 << 20
"""Compressed bytes of lines between two commits: at most so much is lost, and processed again, if a run is killed."""
BATCH_HOURS = 240
PARALLEL_KINDS = 2
"""Kinds that are processed in parallel: the last step of each, one file an hour, is often a single task."""
SHARD_BYTES = 8 << 20
"""Compressed bytes of the files of a task: about 200,000 deliveries, for which it needs about 300 MiB."""
SMALL_BYTES = 4 << 20
"""Up to this many compressed bytes, this process is faster than tasks of Spark."""


def compact(store: Store, listing: Listing, log: Log) -> None:
    """Process all hours of `listing` that are not committed, or were committed from other files."""
    late = store.manifest.late
    kept: dict[str, dict[str, Addition]] = {kind: {} for kind in KINDS}
    pending = {kind: _pending(store.manifest, kind, listing.files.get(kind, {}), kept[kind]) for kind in KINDS}

    def compact_kind(kind: str) -> None:
        for batch in _batches(pending[kind]):
            count = sum(len(files) for files in batch.values())
            log(f"{kind}: {min(batch)} to {max(batch)}, {count} files")
            compact_batch(store, kind, batch, kept[kind])

    run_parallel(compact_kind, sorted(pending, key=lambda kind: -_size(pending[kind])), PARALLEL_KINDS)
    if store.manifest.late != late:
        store.catalog.commit()
    store.catalog.remove_orphans()


def compact_batch(store: Store, kind: str, batch: Batch, kept: Kept = MappingProxyType({})) -> None:
    """Write curated files and rollups of some hours of a kind, then commit. Raises AnalyticsError.

    What is made of the files of an hour in `kept` is added to what this has.

    They are written to folders with unique names, so that files of other runs are never overwritten.
    """
    results: dict[str, list[TaskResult]] = {hour: [] for hour in batch}
    for each in _run(store.storage, _shards(store.storage, kind, batch), _size(batch) < SMALL_BYTES):
        if each.error:
            raise AnalyticsError(each.error)
        results[each.hour].append(each)
    entries = {hour: _entry(files, results[hour], kept.get(hour)) for hour, files in batch.items()}
    store.catalog.commit_hours(kind, entries)


def _shards(storage: Storage, kind: str, batch: Batch) -> list[Shard]:
    """The tasks of a batch. An hour of one router may have several: readers of rollups merge rows with equal keys."""
    run, conf = uuid4().hex[:16], hadoop_settings(storage.spark, SETTINGS)
    shards = []
    for hour, files in batch.items():
        for part in _parts(files):
            named = tuple((file.path, file.size, file.name.count) for file in part)
            shards.append(Shard(kind, hour, run, storage.root, named, conf))
    return shards


def _parts(files: list[RawFile]) -> Iterator[list[RawFile]]:
    """Files in parts of at most SHARD_BYTES, unless one file alone has more. Those of a router follow each other."""
    part: list[RawFile] = []
    size = 0
    for file in sorted(files, key=lambda file: (file.name.router, file.name.boot, file.name.first)):
        if part and size + file.size > SHARD_BYTES:
            yield part
            part, size = [], 0
        part.append(file)
        size += file.size
    if part:
        yield part


def _run(storage: Storage, shards: list[Shard], small: bool) -> list[TaskResult]:
    """Run the tasks. Little data is processed in this process: starting a Spark worker costs more."""
    if small or not shards:
        return [work(shard) for shard in shards]
    tasks = storage.spark.sparkContext.parallelize(shards, len(shards))
    return list(tasks.map(work).collect())


def _entry(files: list[RawFile], results: list[TaskResult], kept: Addition | None) -> Hour:
    names = {file.path: file.name.path for file in files}
    before = kept.before if kept else Hour("", 0, 0, 0, 0)
    rollups = dict(before.rollups)
    for each in results:
        for name, path in each.rollups.items():
            rollups[name] = (*rollups.get(name, ()), path)
    return Hour(
        fingerprint=fingerprint(kept.listed if kept else files),
        files=before.files + len(files),
        promised=before.promised + expected_records(files),
        rows=before.rows + sum(each.records for each in results),
        corrupt=before.corrupt + sum(each.corrupt for each in results),
        short=(*before.short, *(names[path] for each in results for path in each.short)),
        origins=before.origins + origins(files),
        curated=(*before.curated, *(each.curated for each in results if each.curated)),
        rollups=rollups,
    )


def expected_records(files: list[RawFile]) -> int:
    """How many records the names of files announce."""
    return sum(file.name.count for file in files)


def _size(batch: Batch) -> int:
    return sum(file.size for files in batch.values() for file in files)


def _pending(manifest: Manifest, kind: str, listed: Batch, kept: dict[str, Addition]) -> dict[str, list[RawFile]]:
    """The files to process: of new hours, and of those with more files than before.

    An hour whose files were removed keeps the results made from them. If files come to it later, they alone are
    processed and added to what it has (`kept`). After its curated records have expired, they are listed as late.
    """
    pending: dict[str, list[RawFile]] = {}
    committed = manifest.of(kind)
    for hour, files in sorted(listed.items()):
        known = committed.get(hour)
        if known is None:
            pending[hour] = files
        elif known.fingerprint == fingerprint(files):
            continue
        elif known.sealed:
            manifest.late = sorted({*manifest.late, *(file.name.path for file in files)})
        elif new := _beside_removed(known, files):
            if known.curated or not known.rows:
                pending[hour], kept[hour] = new, Addition(known, files)
            else:
                manifest.late = sorted({*manifest.late, *(file.name.path for file in new)})
        elif expected_records(files) >= known.promised:
            pending[hour] = files
    return pending


def _beside_removed(known: Hour, files: list[RawFile]) -> list[RawFile]:
    """The files of which an hour was not made, if others of which it was made do not exist any more."""
    former = split_origins(known.origins)
    new = [file for file in files if origin(file) not in former]
    return new if len(files) - len(new) < len(former) else []


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
