"""The work of a Spark task: turns the files of one shard into curated files and rollups.

A shard has files of one kind and hour; an hour with many bytes has several shards, also of one router. Nothing is
valid before the driver commits it, so a task may be killed, or run twice: the second one writes files with other names.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from waymesh_analytics.store.parsing import joined, parse_file
from waymesh_analytics.store.places import open_place
from waymesh_analytics.store.schemas import curated_order
from waymesh_analytics.store.sorting import sorted_by

from .definitions import ROLLUPS

ROW_GROUP = 1 << 20
"""Rows of a row group of curated files."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The work of a task."""

    kind: str
    hour: str
    # Id of this run: part of the paths of written files.
    run: str
    # The address of the store.
    root: str
    # Addresses of exported files, their bytes when they were listed, and how many records their names promise.
    files: tuple[tuple[str, int, int], ...]
    # Settings of s3a.
    conf: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The results of a task. Paths are relative to the store."""

    hour: str
    records: int = 0
    corrupt: int = 0
    # Addresses of files with fewer lines than their names say.
    short: tuple[str, ...] = ()
    curated: str = ""
    rollups: Mapping[str, str] = field(default_factory=dict)
    # Why a file could not be read or written; empty: success.
    error: str = ""


def work(shard: Shard) -> TaskResult:
    """Read the files of a shard, write its curated file, its rollups, and its lines that are not records."""
    try:
        return _curate(shard)
    except OSError as error:
        return TaskResult(shard.hour, error=" ".join(str(error).split()))


def _curate(shard: Shard) -> TaskResult:
    tables: list[pa.Table] = []
    corrupt = 0
    aside: list[dict[str, str]] = []
    short: list[str] = []
    for address, size, promised in shard.files:
        packed = _read(address, size, shard.conf)
        if len(packed) < size:  # otherwise a file that was briefly incomplete would count as short
            raise OSError(f"{address} changed or could not be read completely: run it again")
        parsed = parse_file(shard.kind, shard.hour, packed)
        tables.append(parsed.records)
        corrupt += parsed.corrupt
        aside += ({"file": address, "line": line} for line in parsed.kept)
        if parsed.lines < promised:
            short.append(address)
    records = sorted_by(joined(shard.kind, tables), curated_order(shard.kind))
    name = uuid4().hex[:12]
    if aside:
        _set_aside(shard, f"quarantine/{shard.kind}/{shard.run}/{name}.json.gz", aside)
    if not len(records):
        return TaskResult(shard.hour, 0, corrupt, tuple(short))
    curated = f"curated/{shard.kind}/{shard.run}/part={shard.hour}/{name}.parquet"
    _write(shard, curated, records)
    rollups = _roll_up(shard, records, name)
    return TaskResult(shard.hour, len(records), corrupt, tuple(short), curated, rollups)


def _roll_up(shard: Shard, records: pa.Table, name: str) -> dict[str, str]:
    rows = records.append_column("kind", pa.repeat(pa.scalar(shard.kind), len(records)).dictionary_encode())
    written = {}
    for rollup in ROLLUPS:
        if not rollup.kinds or shard.kind in rollup.kinds:
            path = f"rollups/{rollup.name}/{shard.kind}-{shard.run}/part={shard.hour}/{name}.parquet"
            _write(shard, path, rollup.build(rows))
            written[rollup.name] = path
    return written


def _read(address: str, size: int, conf: Mapping[str, str]) -> bytes:
    """The first `size` bytes of a file. What was appended since it was listed is left to the next run, which finds
    another size and processes the hour again."""
    system, path = open_place(address, conf)
    try:
        with system.open_input_stream(path, compression=None) as stream:
            return bytes(stream.read(size))
    except OSError as error:
        raise OSError(f"{address}: {error}") from error


def _write(shard: Shard, path: str, table: pa.Table) -> None:
    with _new_file(shard, path) as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            row_group_size=ROW_GROUP,
            use_dictionary=_recurring(table),
            store_schema=False,
        )


def _set_aside(shard: Shard, path: str, lines: list[dict[str, str]]) -> None:
    """Keep lines that are not records."""
    with _new_file(shard, path) as file:
        file.write(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0))


@contextmanager
def _new_file(shard: Shard, path: str) -> Iterator[pa.NativeFile]:
    system, root = open_place(shard.root, shard.conf)
    full = f"{root}/{path}"
    try:
        if isinstance(system, fs.LocalFileSystem):
            system.create_dir(full.rpartition("/")[0])
        with system.open_output_stream(full, compression=None) as file:
            yield file
    except OSError as error:
        raise OSError(f"{shard.root}/{path}: {error}") from error


def _recurring(table: pa.Table) -> list[str]:
    """Return the columns of recurring values: only they benefit from a dictionary."""
    kinds = (pa.types.is_dictionary, pa.types.is_string)
    return [column.name for column in table.schema if any(kind(column.type) for kind in kinds)]
