"""The report as files: each table as Parquet and JSON, a summary as JSON, and one page of HTML."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pyspark.sql import types as T

from waymesh_analytics.report.tables.table import COUNT, NUMBER, SHARE, TEXT, TIME, Table
from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.storage import Storage

from .page import page
from .report import Report

TABLES = "tables"
AT_ONCE = 4
"""Tables that are written side by side: what a small one costs is waiting."""
PAGE = "report.html"
SUMMARY = "summary.json"
_TYPES = {
    TEXT: T.StringType(),
    COUNT: T.LongType(),
    NUMBER: T.DoubleType(),
    SHARE: T.DoubleType(),
    TIME: T.TimestampType(),
}


def write_report(storage: Storage, report: Report) -> None:
    """Write it into a folder, over a former one. The page comes last."""
    run_parallel(lambda table: _write_table(storage, table), report.tables.values(), AT_ONCE)
    storage.write_text(SUMMARY, _json(summary(report)))
    storage.write_text(PAGE, page(report))


def summary(report: Report) -> dict[str, Any]:
    """What a program wants to know first."""
    return {
        "hours": {"first": report.hours[0], "last": report.hours[-1]} if report.hours else None,
        "findings": [{"severity": f.severity, "table": f.table, "text": f.text} for f in report.findings],
        "tables": {name: len(table.rows) for name, table in report.tables.items()},
    }


def _write_table(storage: Storage, table: Table) -> None:
    """The JSON comes last: where it says the same already, nothing has to be written."""
    text, place = _json(table.dicts()), f"{TABLES}/{table.name}"
    there = all(storage.exists(f"{place}.{form}") for form in ("json", "parquet"))
    if there and storage.read_text(f"{place}.json") == text:
        return
    _write_parquet(storage, table)
    storage.write_text(f"{place}.json", text)


def _write_parquet(storage: Storage, table: Table) -> None:
    schema = T.StructType([T.StructField(column.name, _TYPES[column.type]) for column in table.columns])
    rows = storage.spark.createDataFrame(table.rows, schema, verifySchema=False).coalesce(1)
    rows.write.mode("overwrite").parquet(storage.full(f"{TABLES}/{table.name}.parquet"))


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, default=_plain) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
