"""Rows of queries: merged, sorted, and turned into rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from waymesh_analytics.rollups.definitions import OTHERS
from waymesh_analytics.rollups.reader import MOST_ROWS, Row

from .table import columns_of

RowT = TypeVar("RowT")


def merge(rows: Iterable[Row], keys: Sequence[str], sums: Sequence[str], maxima: Sequence[str] = ()) -> list[Row]:
    """One row for each combination of keys, with sums of some columns and maxima of others; None is ignored."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple([row[name] for name in keys])
        into = found.get(key)
        if into is None:
            found[key] = {name: row[name] for name in (*keys, *sums, *maxima)}
            continue
        for name in sums:
            if row[name] is not None:
                into[name] = row[name] if into[name] is None else into[name] + row[name]
        for name in maxima:
            if row[name] is not None and (into[name] is None or row[name] > into[name]):
                into[name] = row[name]
    return list(found.values())


def with_others(
    rows: list[Row], totals: Callable[[], Iterable[Row]], keys: Sequence[str], sums: Sequence[str]
) -> list[Row]:
    """`rows` of containers, and what `totals()` (by `keys`) have beyond them as rows of the container OTHERS.

    Needed if the rows are not all that there are: see MOST_ROWS.
    """
    if len(rows) < MOST_ROWS:
        return rows
    left = {tuple([row[name] for name in keys]): {name: row[name] or 0 for name in sums} for row in totals()}
    for row in rows:
        rest = left[tuple([row[name] for name in keys])]
        for name in sums if row["container"] != OTHERS else ():
            rest[name] -= row[name] or 0
    named = [row for row in rows if row["container"] != OTHERS]
    empty = dict.fromkeys(rows[0])
    others = [
        {**empty, **dict(zip(keys, key, strict=True)), **rest, "container": OTHERS}
        for key, rest in left.items()
        if any(round(value) > 0 for value in rest.values())
    ]
    return named + others


def sort_rows(rows: Iterable[Row], descending: Sequence[str], ascending: Sequence[str]) -> list[Row]:
    """Rows sorted by numbers in descending order, then by other columns in ascending order."""
    return sorted(
        rows, key=lambda row: ([_descending(row[n]) for n in descending], [_ascending(row[n]) for n in ascending])
    )


def convert(row_type: type[RowT], rows: Iterable[Row]) -> list[RowT]:
    """Rows of a table from rows of a query, which may have more columns."""
    names = [column.name for column in columns_of(row_type)]
    return [row_type(**{name: row[name] for name in names}) for row in rows]


def _ascending(value: Any) -> tuple[bool, Any]:
    """None comes first."""
    return (value is not None, value)


def _descending(value: float | None) -> tuple[bool, float]:
    """None comes last. The last digits of sums are ignored."""
    return (value is None, -round(value or 0, 3))
