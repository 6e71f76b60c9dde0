"""The files of the report: each table as Parquet and JSON, a summary as JSON, and one HTML page."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pyspark.sql import types as T

from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.storage import Storage

from .page import page
from .report import Report
from .tables.table import ColumnType, Table

TABLES = "tables"
PARALLEL_TABLES = 4
"""Tables that are written in parallel: writing a small one is mostly waiting."""
PAGE = "report.html"
SUMMARY = "summary.json"
_TYPES = {
    ColumnType.TEXT: T.StringType(),
    ColumnType.COUNT: T.LongType(),
    ColumnType.NUMBER: T.DoubleType(),
    ColumnType.SHARE: T.DoubleType(),
    ColumnType.TIME: T.TimestampType(),
}


def write_report(storage: Storage, report: Report) -> None:
    """Write the report to a folder, replacing an earlier one; the page is written last."""
    run_parallel(lambda table: _write_table(storage, table), report.tables.values(), PARALLEL_TABLES)
    storage.write_text(SUMMARY, _json(summary(report)))
    storage.write_text(PAGE, page(report))


def summary(report: Report) -> dict[str, Any]:
    """The content of `summary.json`."""
    return {
        "hours": {"first": report.hours[0], "last": report.hours[-1]} if report.hours else None,
        "findings": [asdict(finding) for finding in report.findings],
        "tables": {name: len(table.rows) for name, table in report.tables.items()},
    }


def _write_table(storage: Storage, table: Table[Any]) -> None:
    """Write a table unless it is unchanged. The JSON file is written last, so it proves that both are complete."""
    text, path = _json(table.dicts()), f"{TABLES}/{table.name}"
    exists = all(storage.exists(f"{path}.{suffix}") for suffix in ("json", "parquet"))
    if exists and storage.read_text(f"{path}.json") == text:
        return
    _write_parquet(storage, table)
    storage.write_text(f"{path}.json", text)


def _write_parquet(storage: Storage, table: Table[Any]) -> None:
    schema = T.StructType([T.StructField(column.name, _TYPES[column.type]) for column in table.columns])
    cells = [table.cells(row) for row in table.rows]
    rows = storage.spark.createDataFrame(cells, schema, verifySchema=False).coalesce(1)
    rows.write.mode("overwrite").parquet(storage.full(f"{TABLES}/{table.name}.parquet"))


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, default=_to_json) + "\n"


def _to_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
