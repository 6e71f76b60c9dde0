"""From exported lines to curated Parquet files; lines that are not records go to the quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from waymesh_analytics.errors import AnalyticsError

from .hour_files import PART, write_hours, written_hours
from .raw_files import RawFile, corrupt_text, file_path, hour_column, is_record, read_lines, whole_lines
from .schemas import HOUR, curated_columns, curated_order
from .storage import Storage
from .store import read_curated

Batch = Mapping[str, list[RawFile]]
"""Exported files by hour."""


@dataclass(frozen=True, slots=True)
class HourCounts:
    """What was read of one hour."""

    records: int
    corrupt: int = 0
    # Paths of files that have fewer lines than their names say.
    short: tuple[str, ...] = ()


def expected_records(files: list[RawFile]) -> int:
    """How many records the names of files announce."""
    return sum(file.name.count for file in files)


def write_curated(storage: Storage, kind: str, run: str, batch: Batch, small: bool) -> dict[str, HourCounts]:
    """Write the curated files of a batch; returns the counts of each hour."""
    files = [file for group in batch.values() for file in group]
    lines = read_lines(storage.spark, kind, files)
    seen = Observation()
    good = F.count_if(is_record()).alias("good")
    observed = lines.observe(seen, good, F.count_if(~is_record()).alias("bad")).where(is_record())
    # A single projection: each further one copies every row.
    rows = observed.select(*curated_columns(kind), hour_column().alias(HOUR), hour_column().alias(PART))
    rows = rows.coalesce(1) if small else rows.repartition(PART)
    folder = f"curated/{kind}/{run}"
    write_hours(storage, rows, folder, curated_order(kind))
    totals = seen.get
    if totals["bad"] == 0 and totals["good"] == expected_records(files):
        return {hour: HourCounts(expected_records(group)) for hour, group in batch.items()}
    checked = lines.select(file_path().alias("file"), corrupt_text(kind).alias("line"))
    counts = _count_lines(storage, checked, f"quarantine/{kind}/{run}", batch)
    paths = list(written_hours(storage, folder).values())
    written = read_curated(storage, kind, paths).count() if paths else 0
    if written != sum(count.records for count in counts.values()):
        raise AnalyticsError(f"the files of {kind} changed or could not be read completely: run it again")
    return counts


def _count_lines(storage: Storage, lines: DataFrame, quarantine: str, batch: Batch) -> dict[str, HourCounts]:
    """Count the lines of each file, and write the corrupt ones to the quarantine.

    Raises AnalyticsError for a complete file that was not read to its end.
    """
    measures = F.count_if(F.col("line").isNull()).alias("good"), F.count("line").alias("bad")
    counted = lines.groupBy("file").agg(*measures).collect()
    found = {_file_name(unquote(row["file"])): row for row in counted}
    if any(row["bad"] for row in counted):
        corrupt = lines.where(F.col("line").isNotNull())
        corrupt.coalesce(1).write.mode("overwrite").json(storage.full(quarantine), compression="gzip")
    result = {}
    for hour, files in batch.items():
        good = bad = 0
        short = []
        for file in files:
            row = found.get(_file_name(file.path))
            records, corrupt_lines = (row["good"], row["bad"]) if row is not None else (0, 0)
            good, bad = good + records, bad + corrupt_lines
            if _is_short(storage, file, records + corrupt_lines):
                short.append(file.name.path)
        result[hour] = HourCounts(good, bad, tuple(short))
    return result


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_short(storage: Storage, file: RawFile, lines: int) -> bool:
    """Whether a file, of which `lines` lines were read, has fewer than its name says."""
    if lines >= file.name.count:
        return False
    if whole_lines(storage.spark, file) not in (None, lines):
        raise AnalyticsError(f"{file.path} could not be read to its end: run it again")
    return True
