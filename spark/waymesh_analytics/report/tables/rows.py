"""Rows as dictionaries: put together, and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from waymesh_analytics.rollups.reader import Row


def merged(rows: Iterable[Row], keys: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()) -> list[Row]:
    """One row for each set of keys: sums of some columns, the greatest value of others. None counts as no value."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple([row[name] for name in keys])
        into = found.get(key)
        if into is None:
            found[key] = {name: row[name] for name in (*keys, *sums, *most)}
            continue
        for name in sums:
            if row[name] is not None:
                into[name] = row[name] if into[name] is None else into[name] + row[name]
        for name in most:
            if row[name] is not None and (into[name] is None or row[name] > into[name]):
                into[name] = row[name]
    return list(found.values())


def up(value: Any) -> tuple[bool, Any]:
    """To sort by, ascending: None comes first."""
    return (value is not None, value)


def down(value: float | None) -> tuple[bool, float]:
    """To sort by, descending: None comes last. The last digits of sums do not count."""
    return (value is None, -round(value or 0, 3))


def ordered(rows: Iterable[Row], descending: Sequence[str], ascending: Sequence[str]) -> list[Row]:
    """Sorted by numbers, the greatest first, then by other columns."""
    return sorted(rows, key=lambda row: ([down(row[n]) for n in descending], [up(row[n]) for n in ascending]))
