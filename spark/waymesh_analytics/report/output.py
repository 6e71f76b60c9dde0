"""The files of the report: each table as Parquet and JSON, a summary as JSON, and one HTML page."""

from __future__ import annotations

import json
from datetime import datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from waymesh_analytics.spark.parallel import run_parallel
from waymesh_analytics.store.storage import Storage

from .headline import title, totals
from .page import page
from .report import Report
from .tables.table import ColumnType, Table

TABLES = "tables"
PARALLEL_TABLES = 4
"""Tables that are written in parallel: writing a small one is mostly waiting."""
PAGE = "report.html"
SUMMARY = "summary.json"
_TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.COUNT: pa.int64(),
    ColumnType.NUMBER: pa.float64(),
    ColumnType.SHARE: pa.float64(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
}


def write_report(storage: Storage, report: Report) -> None:
    """Write the report to a folder, replacing an earlier one; the page is written last."""
    run_parallel(lambda table: _write_table(storage, table), report.tables.values(), PARALLEL_TABLES)
    storage.write_text(SUMMARY, _json(summary(report)))
    storage.write_text(PAGE, page(report))


def summary(report: Report) -> dict[str, Any]:
    """The content of `summary.json`."""
    return {
        "made": report.made,
        "headline": f"{title(report)}: {totals(report)}" if report.hours else None,
        "hours": {"first": report.hours[0], "last": report.hours[-1]} if report.hours else None,
        "findings": [
            {
                "kind": finding.kind.name,
                "severity": finding.kind.severity,
                "table": finding.kind.table,
                "text": finding.text,
                "action": finding.kind.action,
                "cases": finding.cases,
            }
            for finding in report.findings
        ],
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
    schema = pa.schema([(column.name, _TYPES[column.type]) for column in table.columns])
    content = BytesIO()
    pq.write_table(pa.Table.from_pylist(table.dicts(), schema), content, compression="zstd", store_schema=False)
    path = f"{TABLES}/{table.name}.parquet"
    if storage.is_folder(path):  # of an earlier version; a file is replaced when the new one is whole
        storage.delete(path)
    storage.write_bytes(path, content.getvalue())


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, default=_to_json) + "\n"


def _to_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
