"""Parquet files of one hour each, in folders named `part=HOUR`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from .storage import Storage

PART = "part"
"""The column that holds the hour and names the folders."""


def write_hours(storage: Storage, rows: DataFrame, folder: str, order: Sequence[str]) -> None:
    """Write one sorted file for each hour. All rows of an hour must be in one partition."""
    rows.sortWithinPartitions(PART, *order).write.mode("overwrite").partitionBy(PART).parquet(storage.full(folder))


def written_hours(storage: Storage, folder: str) -> dict[str, str]:
    """The files that `write_hours` wrote: hour → path."""
    return {
        name.partition("=")[2]: f"{folder}/{name}/{file}"
        for name in storage.names(folder)
        for file in storage.names(f"{folder}/{name}")
        if file.endswith(".parquet")
    }
