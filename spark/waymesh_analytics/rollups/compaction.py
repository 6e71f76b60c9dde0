"""From lines to curated Parquet and rollups, some hours of one kind at a time; each time ends in a commit."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from waymesh_analytics.errors import AnalyticsError
from waymesh_analytics.spark.parallel import together
from waymesh_analytics.spark.session import little
from waymesh_analytics.store.catalog import Catalog
from waymesh_analytics.store.claim import Say
from waymesh_analytics.store.manifest import Hour, Manifest
from waymesh_analytics.store.raw_files import (
    Listing,
    RawFile,
    corrupt_text,
    file_path,
    fingerprint,
    hour_column,
    is_record,
    read_lines,
    whole_lines,
)
from waymesh_analytics.store.schemas import HOUR, curated_columns, curated_order, curated_schema
from waymesh_analytics.store.storage import Storage
from waymesh_schema.telemetry import KINDS

from .definitions import TABLES

BATCH_BYTES = 256 << 20
"""Compressed bytes of lines that are worked up before a commit: what a killed run has to do again."""
BATCH_HOURS = 240
AT_ONCE = 2
"""Kinds that are worked up side by side: the last step of each, one file an hour, is often one task."""
SMALL_BYTES = 4 << 20
"""Compressed bytes that one task works up sooner than several can be started."""
_PART = "part"

Files = Mapping[str, list[RawFile]]
"""Hour → files."""


@dataclass(frozen=True, slots=True)
class Store:
    """A store and what it holds. `little`: the same storage by a session for little data."""

    storage: Storage
    little: Storage
    catalog: Catalog

    @property
    def manifest(self) -> Manifest:
        """What is valid."""
        return self.catalog.manifest

    @classmethod
    def open(cls, spark: SparkSession, root: str, given: Container[str] = ()) -> Store:
        """The store in a folder, for reading; an empty one where there is none. Settings in `given` stay as they are.
        Raises AnalyticsError."""
        storage = Storage(spark, root)
        return cls(storage, Storage(little(spark, given), root), Catalog.read(storage))

    @classmethod
    @contextmanager
    def write(cls, spark: SparkSession, root: str, say: Say, given: Container[str] = ()) -> Iterator[Store]:
        """The same for writing, until the block ends. Raises AnalyticsError, StoreBusy."""
        storage = Storage(spark, root)
        with Catalog.write(storage, say) as catalog:
            yield cls(storage, Storage(little(spark, given), root), catalog)


def advance(store: Store, listing: Listing, say: Say) -> None:
    """Work up all hours of `listing` whose files are not those that were committed."""
    late = store.manifest.late
    pending = {kind: _pending(store.manifest, kind, listing.files.get(kind, {})) for kind in KINDS}

    def work(kind: str) -> None:
        for batch in _batches(pending[kind]):
            count = sum(len(files) for files in batch.values())
            say(f"{kind}: {min(batch)} to {max(batch)}, {count} files")
            commit_batch(store, kind, batch)

    together(work, sorted(pending, key=lambda kind: -_size(pending[kind])), AT_ONCE)
    if store.manifest.late != late:
        store.catalog.commit()
    store.catalog.sweep()


def commit_batch(store: Store, kind: str, batch: Files) -> None:
    """Curated files and rollups of some hours of a kind, then the commit. They are in folders of their own, so that
    nothing that another run has written, or has superseded, is written over."""
    run = uuid4().hex[:16]
    small = _size(batch) < SMALL_BYTES
    storage = store.little if small else store.storage
    counts = _curate(storage, kind, run, batch, small)
    curated = _written(storage, f"curated/{kind}/{run}")
    rollups = roll_up(storage, kind, run, curated, small)
    hours = {}
    for hour, files in batch.items():
        rows, corrupt, short = counts[hour]
        paths = {table: paths[hour] for table, paths in rollups.items() if hour in paths}
        made_from = fingerprint(files), len(files), _promised(files)
        hours[hour] = Hour(*made_from, rows, corrupt, short, curated.get(hour, ""), paths)
    store.catalog.record(kind, hours)


def read_curated(storage: Storage, kind: str, paths: list[str]) -> DataFrame:
    """The records of curated files."""
    return storage.spark.read.schema(curated_schema(kind)).parquet(*[storage.full(path) for path in paths])


# ---- what is to be done


def _size(batch: Files) -> int:
    return sum(file.size for files in batch.values() for file in files)


def _promised(files: list[RawFile]) -> int:
    return sum(file.name.count for file in files)


def _pending(manifest: Manifest, kind: str, listed: Files) -> dict[str, list[RawFile]]:
    """The hours to do: new ones, and those that got more files. Where some have gone, what was made of them stays."""
    pending = {}
    hours = manifest.of(kind)
    for hour, files in sorted(listed.items()):
        known = hours.get(hour)
        if known is None:
            pending[hour] = files
        elif known.fingerprint == fingerprint(files):
            continue
        elif known.sealed:
            manifest.late = sorted({*manifest.late, *(file.name.path for file in files)})
        elif _promised(files) >= known.promised:
            pending[hour] = files
    return pending


def _batches(pending: Files) -> Iterator[Files]:
    batch: dict[str, list[RawFile]] = {}
    size = 0
    for hour, files in pending.items():
        own = _size({hour: files})
        if batch and (size + own > BATCH_BYTES or len(batch) >= BATCH_HOURS):
            yield batch
            batch, size = {}, 0
        batch[hour] = files
        size += own
    if batch:
        yield batch


# ---- lines to Parquet


def _curate(
    storage: Storage, kind: str, run: str, batch: Files, small: bool
) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Write the curated files; returns for each hour: good rows, corrupt lines, names of files that are short."""
    files = [file for group in batch.values() for file in group]
    lines = read_lines(storage.spark, kind, files)
    seen = Observation()
    good = F.count_if(is_record()).alias("good")
    watched = lines.observe(seen, good, F.count_if(~is_record()).alias("bad")).where(is_record())
    # One projection: each more copies every row.
    rows = watched.select(*curated_columns(kind), hour_column().alias(HOUR), hour_column().alias(_PART))
    rows = rows.coalesce(1) if small else rows.repartition(_PART)
    _write_hours(storage, rows, f"curated/{kind}/{run}", curated_order(kind))
    totals = seen.get
    if totals["bad"] == 0 and totals["good"] == _promised(files):
        return {hour: (_promised(group), 0, ()) for hour, group in batch.items()}
    aside = lines.select(file_path().alias("file"), corrupt_text(kind).alias("line"))
    counts = _take_stock(storage, aside, f"quarantine/{kind}/{run}", batch)
    paths = list(_written(storage, f"curated/{kind}/{run}").values())
    written = read_curated(storage, kind, paths).count() if paths else 0
    if written != sum(rows for rows, *_ in counts.values()):
        raise AnalyticsError(f"files of {kind} could not be read to their ends at first: run it again")
    return counts


def _take_stock(
    storage: Storage, lines: DataFrame, quarantine: str, batch: Files
) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Something is not as it should be: count for each file, and set the bad lines aside. Raises AnalyticsError for a
    file that was not read to its end, though it is whole."""
    measures = F.count_if(F.col("line").isNull()).alias("good"), F.count("line").alias("bad")
    counted = lines.groupBy("file").agg(*measures).collect()
    found = {unquote(row["file"]).rpartition("/")[2]: (row["good"], row["bad"]) for row in counted}
    if any(row["bad"] for row in counted):
        aside = lines.where(F.col("line").isNotNull())
        aside.coalesce(1).write.mode("overwrite").json(storage.full(quarantine), compression="gzip")
    result = {}
    for hour, files in batch.items():
        pairs = [(file, *found.get(unquote(file.path.rpartition("/")[2]), (0, 0))) for file in files]
        short = tuple(file.name.path for file, rows, bad in pairs if _is_short(storage, file, rows + bad))
        result[hour] = (sum(rows for _, rows, _ in pairs), sum(bad for *_, bad in pairs), short)
    return result


def _is_short(storage: Storage, file: RawFile, read: int) -> bool:
    """Whether a file of which so many lines were read has fewer than its name says."""
    if read >= file.name.count:
        return False
    if whole_lines(storage.spark, file) not in (None, read):
        raise AnalyticsError(f"{file.path} could not be read to its end: run it again")
    return True


def _write_hours(storage: Storage, rows: DataFrame, folder: str, order: Sequence[str]) -> None:
    """One file an hour (_PART), sorted; the rows of an hour are in one partition."""
    rows.sortWithinPartitions(_PART, *order).write.mode("overwrite").partitionBy(_PART).parquet(storage.full(folder))


def _written(storage: Storage, folder: str) -> dict[str, str]:
    """The files that `_write_hours` made: hour → path."""
    return {
        name.partition("=")[2]: f"{folder}/{name}/{file}"
        for name in storage.names(folder)
        for file in storage.names(f"{folder}/{name}")
        if file.endswith(".parquet")
    }


def roll_up(
    storage: Storage, kind: str, run: str, curated: Mapping[str, str], small: bool
) -> dict[str, dict[str, str]]:
    """Write the rollups of some hours; returns table → hour → path."""
    if not curated:
        return {}
    made = {}
    for table in TABLES:
        if table.kinds and kind not in table.kinds:
            continue
        records = read_curated(storage, kind, sorted(curated.values())).withColumn("kind", F.lit(kind))
        rolled = (table.make(records.coalesce(1)) if small else table.make(records)).withColumn(_PART, F.col(HOUR))
        folder = f"rollups/{table.name}/{kind}-{run}"
        _write_hours(storage, rolled if small else rolled.repartition(_PART), folder, table.keys)
        made[table.name] = _written(storage, folder)
    return made
