"""The record types of waymesh_schema.telemetry as Arrow schemas, for exported lines and for curated files."""

from __future__ import annotations

import pyarrow as pa

from waymesh_schema import telemetry

HOUR = "hour"
"""The column of curated files and rollups with the hour in the form of `hours`."""

TEXT = pa.dictionary(pa.int32(), pa.string())
"""Type of text columns: texts recur, so a column has a list of distinct texts and an index for each row."""
_TYPES = {
    telemetry.SHORT: pa.int16(),
    telemetry.INT: pa.int32(),
    telemetry.LONG: pa.int64(),
    telemetry.DOUBLE: pa.float64(),
    telemetry.TEXT: pa.string(),
    telemetry.FLAG: pa.bool_(),
    telemetry.TIME: pa.int64(),
    telemetry.TEXTS: pa.list_(pa.string()),
    telemetry.PAIRS: pa.map_(pa.string(), pa.string()),
    telemetry.COUNTS: pa.map_(pa.string(), pa.int64()),
}
_CURATED_TYPES = {**_TYPES, telemetry.TEXT: TEXT, telemetry.TIME: pa.timestamp("us", tz="UTC")}


def line_schema(kind: str) -> pa.Schema:
    """The schema of a kind's lines, in which times are integers."""
    return pa.schema([(field.name, _TYPES[field.type]) for field in telemetry.KINDS[kind].fields])


def curated_schema(kind: str) -> pa.Schema:
    """The schema of a kind's curated files, when they are read."""
    fields = [(field.name, _CURATED_TYPES[field.type]) for field in telemetry.KINDS[kind].fields]
    return pa.schema([*fields, (HOUR, TEXT)])


def curated_order(kind: str) -> list[str]:
    """The sort order of a kind's curated files: deterministic, and equal addresses next to each other."""
    named = [field.name for field in telemetry.KINDS[kind].fields if field.name == "address"]
    return [*named, "ts", "router", "boot", "seq"]
