"""Results as a text table, CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from waymesh_schema.text import one_line

FORMATS = ("table", "csv", "json", "parquet")
SHOWN_ROWS = 1000
"""Maximum number of rows of a text table."""


def format_of(given: str, out: str) -> str:
    """The format: the given one, or that of the file's extension, or a table."""
    ending = Path(out).suffix.removeprefix(".")
    return given or (ending if ending in FORMATS else "table")


def to_bytes(result: pa.Table, form: str) -> bytes:
    """A result in a format other than `table`. Maps and lists are JSON in CSV; times are ISO 8601."""
    if form == "parquet":
        content = io.BytesIO()
        pq.write_table(result, content, compression="zstd")
        return content.getvalue()
    if form == "json":
        return (json.dumps(_dicts(result), indent=1, ensure_ascii=False, default=_plain) + "\n").encode()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.column_names)
    writer.writerows([[_cell(value) for value in row] for row in _rows(result)])
    return text.getvalue().encode()


def show(result: pa.Table, console: Console) -> None:
    """Print a result as a table."""
    grid = Grid(box=None, header_style="bold", pad_edge=False)
    for name, kind in zip(result.column_names, result.schema.types, strict=True):
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        grid.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in _rows(result.slice(0, SHOWN_ROWS)):
        grid.add_row(*[escape(_shown(value)) for value in row])
    console.print(grid)
    more = f", the first {SHOWN_ROWS:,} shown: --format csv prints all" if len(result) > SHOWN_ROWS else ""
    console.print(f"[dim]{len(result):,} row{'' if len(result) == 1 else 's'}{more}[/]")


def replace_file(path: str, content: bytes) -> None:
    """Write a file; a reader sees the old or the new one. Raises OSError."""
    partial = f"{path}.{uuid4().hex[:8]}.tmp"
    try:
        Path(partial).write_bytes(content)
        os.replace(partial, path)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def _rows(result: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows by position, because two columns may have the same name."""
    columns = [column.to_pylist() for column in result.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _dicts(result: pa.Table) -> list[dict[str, Any]]:
    return [dict(zip(result.column_names, row, strict=True)) for row in _rows(result)]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) and abs(value) < 1e6 else one_line(str(_cell(value)))


def _cell(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=_plain)
    return _plain(value) if isinstance(value, (date, bytes)) else value


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if not isinstance(value, Decimal) else float(value)
