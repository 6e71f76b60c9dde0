"""Parses the bytes of an exported file to a table of its records.

A file that has only valid lines is parsed by pyarrow, in about 3 microseconds a line. Files with other lines, and kinds
with maps, which pyarrow cannot read from JSON, are parsed line by line.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from isal import isal_zlib
from isal.igzip_lib import IsalError

from waymesh_schema import telemetry
from waymesh_schema.telemetry import KINDS

from .schemas import HOUR, curated_schema, line_schema

IDENTITY = ("router", "boot", "seq", "ts")
"""The fields without which a line is not a record."""
BLOCK_BYTES = 8 << 20
"""pyarrow parses this many bytes at a time."""
LINE_BYTES = 1 << 20
"""A longer line is not a record."""
UNPACKED_BYTES = 256 << 20
"""What follows in a file is not read, as if the file were truncated: routers close a file after a quarter of this."""
END_OF_TIME_S = 253_402_300_800
"""The end of the year 9999, in seconds since 1970."""
GZIP = 31
"""The `wbits` of zlib for data with a gzip header."""
_TIMES = {"ts": END_OF_TIME_S * 1_000_000, "boot": END_OF_TIME_S * 1000}
"""The ends of the ranges of the fields that are shown as times."""
_RANGES = {telemetry.SHORT: 1 << 15, telemetry.INT: 1 << 31, telemetry.LONG: 1 << 63}


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of a file."""

    # In the types of curated files.
    records: pa.Table
    # Lines that are not records.
    corrupt: tuple[str, ...] = ()

    @property
    def lines(self) -> int:
        """The lines that are not empty."""
        return len(self.records) + len(self.corrupt)


def parse_file(kind: str, hour: str, packed: bytes) -> Parsed:
    """The records of a compressed file; a truncated file yields those before its end."""
    data, broken = unpack(packed)
    if broken:
        data = data[: data.rfind(b"\n") + 1]
    table = _whole(kind, data)
    corrupt: tuple[str, ...] = ()
    if table is None:
        rows, corrupt = _by_line(kind, data)
        table = pa.Table.from_pylist(rows, line_schema(kind))
    return Parsed(_curated(table, kind, hour), corrupt)


def unpack(packed: bytes, limit: int = UNPACKED_BYTES) -> tuple[bytes, bool]:
    """The uncompressed bytes up to the first error, and whether there was one: truncated, too large, or not gzip."""
    parts = []
    rest = packed
    left = limit
    while rest:
        reader = isal_zlib.decompressobj(GZIP)
        try:
            part = reader.decompress(rest, left + 1)
        except IsalError:  # type: ignore[misc]  # its stub does not say that it is an exception
            return _until_error(packed, limit), True
        parts.append(part[:left])
        left -= len(part)
        if not reader.eof or left < 0:
            return b"".join(parts), True
        rest = reader.unused_data
    return b"".join(parts), not packed


def _until_error(packed: bytes, limit: int) -> bytes:
    """Return the readable part of a damaged file. It is read in pieces, because an error loses the piece that contains
    it."""
    parts = []
    reader = zlib.decompressobj(GZIP)
    view = memoryview(packed)
    left = limit
    try:
        for at in range(0, len(packed), 1 << 12):
            rest = bytes(view[at : at + (1 << 12)])
            while rest and left > 0:
                parts.append(reader.decompress(rest, left))
                left -= len(parts[-1])
                rest = reader.unused_data
                if reader.eof:
                    reader = zlib.decompressobj(GZIP)
    except zlib.error:
        pass
    return b"".join(parts)


def _whole(kind: str, data: bytes) -> pa.Table | None:
    """All lines at once; None if pyarrow cannot parse them, or one of them is not a record."""
    if any(field.type in (telemetry.PAIRS, telemetry.COUNTS) for field in KINDS[kind].fields):
        return None
    if _is_wide(data):
        return None
    if not data.strip():
        return line_schema(kind).empty_table()
    options = pj.ParseOptions(explicit_schema=line_schema(kind), unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(BytesIO(data), pj.ReadOptions(use_threads=False, block_size=BLOCK_BYTES), options)
    except pa.ArrowInvalid:
        return None
    return table if _in_range(table) else None


def _is_wide(data: bytes) -> bool:
    """Whether a line has more than LINE_BYTES."""
    at = 0
    while len(data) - at > LINE_BYTES:
        end = data.rfind(b"\n", at, at + LINE_BYTES + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def _in_range(table: pa.Table) -> bool:
    """Whether all rows have the fields of a record, times within the calendar and finite numbers."""
    if any(table[name].null_count for name in IDENTITY):
        return False
    for name, end in _TIMES.items():
        ends = pc.min_max(table[name])
        if len(table) and not (ends["min"].as_py() >= 0 and ends["max"].as_py() < end):
            return False
    numbers = (column for column in table.columns if pa.types.is_floating(column.type))
    return all(pc.all(pc.is_finite(column.drop_null())).as_py() is not False for column in numbers)


def _by_line(kind: str, data: bytes) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The records, and the lines that are not records."""
    fields = {field.name: _CHECKS[field.type] for field in KINDS[kind].fields} | _TIME_CHECKS
    rows, corrupt = [], []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        row: Any = None
        if len(line) <= LINE_BYTES:
            with suppress(ValueError, RecursionError):  # also a UnicodeDecodeError
                row = json.loads(line)
        if _is_record(row, fields):
            rows.append({name: row.get(name) for name in fields})
        else:
            corrupt.append(line[:LINE_BYTES].decode(errors="replace"))
    return rows, tuple(corrupt)


def _is_record(row: Any, fields: Mapping[str, Callable[[Any], bool]]) -> bool:
    return (
        isinstance(row, dict)
        and all(row.get(name) is not None for name in IDENTITY)
        and all(value is None or name not in fields or fields[name](value) for name, value in row.items())
    )


def _integer(limit: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and -limit <= value < limit


def _time(end: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 0 <= value < end


def _number(value: Any) -> bool:
    return type(value) in (int, float) and -sys.float_info.max <= value <= sys.float_info.max  # not NaN either


def _text(value: Any) -> bool:
    return type(value) is str and _encodable(value)


def _encodable(text: str) -> bool:
    """False for a lone surrogate, which JSON can escape and UTF-8 cannot hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _map_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return all(_text(key) and (each is None or fits(each)) for key, each in value.items())

    return check


_CHECKS: dict[str, Callable[[Any], bool]] = {
    **{name: _integer(limit) for name, limit in _RANGES.items()},
    telemetry.DOUBLE: _number,
    telemetry.TIME: _time(_TIMES["ts"]),
    telemetry.TEXT: _text,
    telemetry.FLAG: lambda value: type(value) is bool,
    telemetry.TEXTS: lambda value: isinstance(value, list) and all(each is None or _text(each) for each in value),
    telemetry.PAIRS: _map_of(_text),
    telemetry.COUNTS: _map_of(_integer(_RANGES[telemetry.LONG])),
}


_TIME_CHECKS = {name: _time(end) for name, end in _TIMES.items()}


def _curated(table: pa.Table, kind: str, hour: str) -> pa.Table:
    """The table with texts as numbers into a list of the different ones: rows are sorted and grouped by the numbers."""
    schema = curated_schema(kind)
    columns = []
    for field in schema:
        if field.name == HOUR:
            column = pa.repeat(pa.scalar(hour, pa.string()), len(table)).dictionary_encode()
        else:
            column = table[field.name]
            column = pc.dictionary_encode(column) if pa.types.is_dictionary(field.type) else column.cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def joined(kind: str, tables: Iterable[pa.Table]) -> pa.Table:
    """One table, whose columns have one list of texts each."""
    return pa.concat_tables([curated_schema(kind).empty_table(), *tables]).unify_dictionaries().combine_chunks()
