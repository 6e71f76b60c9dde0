"""The record types of waymesh_schema.telemetry as Spark schemas, for exported lines and for curated files."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from waymesh_schema import telemetry

CORRUPT = "_corrupt"
"""The column with the text of a line that does not fit the schema; null otherwise."""
HOUR = "hour"
"""The column of curated files and rollups with the hour in the form of `hours`."""

_TYPES = {
    telemetry.SHORT: T.ShortType(),
    telemetry.INT: T.IntegerType(),
    telemetry.LONG: T.LongType(),
    telemetry.DOUBLE: T.DoubleType(),
    telemetry.TEXT: T.StringType(),
    telemetry.FLAG: T.BooleanType(),
    telemetry.TIME: T.TimestampType(),
    telemetry.TEXTS: T.ArrayType(T.StringType()),
    telemetry.PAIRS: T.MapType(T.StringType(), T.StringType()),
    telemetry.COUNTS: T.MapType(T.StringType(), T.LongType()),
}


def line_schema(kind: str) -> T.StructType:
    """The schema of a kind's lines, in which times are integers."""
    fields = [
        T.StructField(field.name, T.LongType() if field.type == telemetry.TIME else _TYPES[field.type])
        for field in telemetry.KINDS[kind].fields
    ]
    return T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])


def curated_schema(kind: str) -> T.StructType:
    """The schema of a kind's curated files."""
    fields = [T.StructField(field.name, _TYPES[field.type]) for field in telemetry.KINDS[kind].fields]
    return T.StructType([*fields, T.StructField(HOUR, T.StringType())])


def curated_columns(kind: str) -> list[Column]:
    """The fields of a kind's lines, converted to the curated types."""
    return [
        F.timestamp_micros(field.name).alias(field.name) if field.type == telemetry.TIME else F.col(field.name)
        for field in telemetry.KINDS[kind].fields
    ]


def curated_order(kind: str) -> list[str]:
    """The sort order of a kind's curated files: deterministic, and equal addresses next to each other."""
    named = [field.name for field in telemetry.KINDS[kind].fields if field.name == "address"]
    return [*named, "ts", "router", "boot", "seq"]
