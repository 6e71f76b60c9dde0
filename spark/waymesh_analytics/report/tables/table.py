"""A table of the report: what it is called, what its columns are, its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

TEXT, COUNT, NUMBER, SHARE, TIME = "text", "count", "number", "share", "time"
"""Types of columns: COUNT an integer, NUMBER a float, SHARE a float from 0 to 1, TIME a moment (UTC)."""
DIGITS = 6
"""Decimals that are kept of floats: the last ones of a sum depend on the order."""

Cell = str | int | float | datetime | None


@dataclass(frozen=True, slots=True)
class Column:
    """`name`: in the files, with its unit at the end; `type`: one of the above."""

    name: str
    type: str = TEXT


@dataclass(slots=True)
class Table:
    """`note`: what it shows and how it is reckoned."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]] = field(default_factory=list)

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row)) for row in self.rows]


def columns(**types: str) -> tuple[Column, ...]:
    """Columns by name and type."""
    return tuple(Column(name, kind) for name, kind in types.items())


def fill_from(table: Table, rows: Iterable[Mapping[str, Any]]) -> Table:
    """The table with these rows, given by names; they may have more columns."""
    names = [column.name for column in table.columns]
    return fill(table, ([row[name] for name in names] for row in rows))


def fill(table: Table, rows: Iterable[Sequence[Any]]) -> Table:
    """The table with these rows, in the types of its columns."""
    table.rows = [tuple(_cell(column, value) for column, value in zip(table.columns, row)) for row in rows]
    return table


def _cell(column: Column, value: Any) -> Cell:
    if value is None:
        return None
    if column.type == COUNT:
        return round(float(value))
    if column.type in (NUMBER, SHARE):
        return round(float(value), DIGITS)
    if column.type == TIME:
        moment: datetime = value
        return moment.astimezone(UTC)  # Spark's moments bear no zone and are of the machine's
    return str(value)
