"""Brings the store up to date: exported lines → curated files → rollups, and a commit after each batch of hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import uuid4
from zlib import crc32

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.log import Log
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.manifest import Hour, Manifest
from waymesh_analytics.store.places import SETTINGS
from waymesh_analytics.store.raw_files import Listing, RawFile, fingerprint
from waymesh_analytics.store.storage import Storage, hadoop_settings
from waymesh_analytics.store.store import Store
from waymesh_schema.telemetry import KINDS

from .tasks import Shard, TaskResult, work

Batch = Mapping[str, list[RawFile]]
"""Exported files by hour."""
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
    """Write curated files and rollups of some hours of a kind, then commit. Raises AnalyticsError.

    They are written to folders with unique names, so that files of other runs are never overwritten.
    """
    results: dict[str, list[TaskResult]] = {hour: [] for hour in batch}
    for each in _run(store.storage, _shards(store.storage, kind, batch), _size(batch) < SMALL_BYTES):
        if each.error:
            raise AnalyticsError(each.error)
        results[each.hour].append(each)
    store.catalog.commit_hours(kind, {hour: _entry(files, results[hour]) for hour, files in batch.items()})


def recreate_rollups(storage: Storage, kind: str, curated: Mapping[str, tuple[str, ...]], run: str) -> list[TaskResult]:
    """Recreate the rollups of some hours from their curated files; they are not committed."""
    conf = hadoop_settings(storage.spark, SETTINGS)
    shards = [Shard(kind, hour, run, storage.root, (), conf, path) for hour, paths in curated.items() for path in paths]
    return _run(storage, shards, small=False)


def _shards(storage: Storage, kind: str, batch: Batch) -> list[Shard]:
    """The tasks of a batch: the files of a router, and so of an object of a mesh, are in the same one of an hour."""
    run, conf = uuid4().hex[:16], hadoop_settings(storage.spark, SETTINGS)
    shards = []
    for hour, files in batch.items():
        count = -(-_size({hour: files}) // SHARD_BYTES) or 1
        parts: list[list[RawFile]] = [[] for _ in range(count)]
        for file in files:
            parts[crc32(file.name.router.encode()) % count].append(file)
        for part in parts:
            if part:
                named = tuple((file.path, file.size, file.name.count) for file in part)
                shards.append(Shard(kind, hour, run, storage.root, named, conf))
    return shards


def _run(storage: Storage, shards: list[Shard], small: bool) -> list[TaskResult]:
    """Run the tasks. Little data is processed in this process: starting a Spark worker costs more."""
    if small or not shards:
        return [work(shard) for shard in shards]
    tasks = storage.spark.sparkContext.parallelize(shards, len(shards))
    return list(tasks.map(work).collect())


def _entry(files: list[RawFile], results: list[TaskResult]) -> Hour:
    names = {file.path: file.name.path for file in files}
    rollups: dict[str, tuple[str, ...]] = {}
    for each in results:
        for name, path in each.rollups.items():
            rollups[name] = (*rollups.get(name, ()), path)
    return Hour(
        fingerprint=fingerprint(files),
        files=len(files),
        promised=expected_records(files),
        rows=sum(each.records for each in results),
        corrupt=sum(each.corrupt for each in results),
        short=tuple(names[path] for each in results for path in each.short),
        curated=tuple(each.curated for each in results if each.curated),
        rollups=rollups,
    )


def expected_records(files: list[RawFile]) -> int:
    """How many records the names of files announce."""
    return sum(file.name.count for file in files)


def _size(batch: Batch) -> int:
    return sum(file.size for files in batch.values() for file in files)


def _pending(manifest: Manifest, kind: str, listed: Batch) -> dict[str, list[RawFile]]:
    """The hours to process: new ones, and those with more files than before.

    An hour whose files were removed keeps the results made from them.
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
