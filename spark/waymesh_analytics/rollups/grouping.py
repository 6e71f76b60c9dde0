"""Grouping of Arrow tables, as the rollups need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Measure = tuple[pa.ChunkedArray | pa.Array, str]
"""A column and its aggregate in a group: sum, min, max; last (in the order of the rows, may be null); last_valid (null
only if all values are)."""
COUNT = "count"
"""The measure of a group's rows."""

_OPERATIONS: dict[str, tuple[Any, ...]] = {
    "sum": ("sum",),
    "min": ("min",),
    "max": ("max",),
    "last": ("last", pc.ScalarAggregateOptions(skip_nulls=False)),
    "last_valid": ("last",),
}


def grouped(table: pa.Table, keys: Sequence[str], measures: Mapping[str, Measure | str]) -> pa.Table:
    """A row for each combination of keys, with the measures. Keys stay dictionary-encoded while they are grouped."""
    columns = {name: table[name] for name in keys}
    wanted: list[tuple[Any, ...]] = []
    for name, measure in measures.items():
        if isinstance(measure, str):
            wanted.append(([], "count_all"))
            continue
        column, operation = measure
        columns[name] = plain(column)
        wanted.append((name, *_OPERATIONS[operation]))
    found = pa.table(columns).group_by(list(keys), use_threads=False).aggregate(wanted)
    # Select the results by name: they follow the keys, or precede them in older versions of Arrow.
    names = [_result_of(name, measure) for name, measure in measures.items()]
    result = found.select([*keys, *names]).rename_columns([*keys, *measures])
    return pa.table({name: plain(result[name]) for name in result.column_names})


def _result_of(name: str, measure: Measure | str) -> str:
    """The name that Arrow gives the result of a measure."""
    return "count_all" if isinstance(measure, str) else f"{name}_{_OPERATIONS[measure[1]][0]}"


def plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Decode a dictionary-encoded column; other columns are returned unchanged."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def equal(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    """Whether the text is `value`; false where it is null."""
    return pc.fill_null(pc.equal(plain(column), value), False)


def number(flags: pa.ChunkedArray) -> pa.ChunkedArray:
    """1 for true, 0 for false and null: the sum is how many are true."""
    return pc.fill_null(flags, False).cast(pa.int64())
