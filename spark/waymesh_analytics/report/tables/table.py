"""A table of the report. Its rows are dataclasses, and the annotations of their fields are the columns' types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

MOST_COUNT = (1 << 63) - 1
"""A larger one has no place in a Parquet file."""
DIGITS = 6
"""Decimals that are kept of floats: the last ones of a sum depend on the order of its terms."""


class ColumnType(StrEnum):
    """The type of a column: how it is written and shown."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    SHARE = "share"
    TIME = "time"


Text = Annotated[str, ColumnType.TEXT]
Count = Annotated[int, ColumnType.COUNT]
Number = Annotated[float, ColumnType.NUMBER]
Share = Annotated[float, ColumnType.SHARE]
"""A number from 0 to 1."""
Time = Annotated[datetime, ColumnType.TIME]
"""A time in UTC."""
Cell = str | int | float | datetime | None


@dataclass(frozen=True, slots=True)
class Column:
    """The name of a column ends with its unit, if it has one."""

    name: str
    type: ColumnType


RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT]):
    """Create one with `make_table`."""

    name: str
    title: str
    # What the table shows and how it is computed, for the reader of the report.
    note: str
    columns: tuple[Column, ...]
    rows: list[RowT]
    # The report's text if there are no rows; without it, an empty table is left out.
    empty: str = ""

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column."""
        return [asdict(row) for row in self.rows]  # type: ignore[call-overload]

    def cells(self, row: RowT) -> tuple[Cell, ...]:
        """The values of a row in the order of the columns."""
        return tuple([getattr(row, column.name) for column in self.columns])


def make_table(
    name: str, title: str, note: str, row_type: type[RowT], rows: Iterable[RowT], empty: str = ""
) -> Table[RowT]:
    """A table whose cells are normalised: counts are integers, floats are rounded, times are in UTC."""
    columns = columns_of(row_type)
    normal = [
        row_type(**{column.name: _normal(column.type, getattr(row, column.name)) for column in columns}) for row in rows
    ]
    return Table(name, title, note, columns, normal, empty)


def columns_of(row_type: type[Any]) -> tuple[Column, ...]:
    """The columns that the fields of a dataclass define."""
    hints = get_type_hints(row_type, include_extras=True)
    return tuple([Column(field.name, _column_type(hints[field.name])) for field in fields(row_type)])


def _column_type(hint: Any) -> ColumnType:
    """The type in the annotation of a field: `Text`, or `Text | None`."""
    for part in (hint, *get_args(hint)):
        for extra in getattr(part, "__metadata__", ()):
            if isinstance(extra, ColumnType):
                return extra
    raise TypeError(f"not the type of a column: {hint}")


def _normal(kind: ColumnType, value: Any) -> Cell:
    if value is None:
        return None
    if kind is ColumnType.COUNT:
        return max(-MOST_COUNT, min(MOST_COUNT, round(float(value))))
    if kind in (ColumnType.NUMBER, ColumnType.SHARE):
        return round(float(value), DIGITS)
    if kind is ColumnType.TIME:
        time: datetime = value
        return time.astimezone(UTC)  # Spark returns local times without a zone
    return str(value)
