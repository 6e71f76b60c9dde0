"""The table of records (waymesh_schema.telemetry) as Spark's schemas: of the lines, and of the curated files."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from waymesh_schema import telemetry

CORRUPT = "_corrupt"
"""The column that holds the text of a line that does not fit the schema; null for a good one."""
HOUR = "hour"
"""The column of curated files and rollups that says the hour, see `hours`."""

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
    """Of the lines of a kind: moments are integers there."""
    fields = [
        T.StructField(field.name, T.LongType() if field.type == telemetry.TIME else _TYPES[field.type])
        for field in telemetry.KINDS[kind].fields
    ]
    return T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])


def curated_schema(kind: str) -> T.StructType:
    """Of the curated files of a kind."""
    fields = [T.StructField(field.name, _TYPES[field.type]) for field in telemetry.KINDS[kind].fields]
    return T.StructType([*fields, T.StructField(HOUR, T.StringType())])


def curated_columns(kind: str) -> list[Column]:
    """The fields of a kind from its lines, in the curated types."""
    return [
        F.timestamp_micros(field.name).alias(field.name) if field.type == telemetry.TIME else F.col(field.name)
        for field in telemetry.KINDS[kind].fields
    ]


def curated_order(kind: str) -> list[str]:
    """What the curated files of a kind are sorted by: equal values together, and the same each time."""
    named = [field.name for field in telemetry.KINDS[kind].fields if field.name == "address"]
    return [*named, "ts", "router", "boot", "seq"]
