"""Parses the bytes of an exported file to a table of its records.

A file that has only valid lines is parsed by pyarrow, in about 3 microseconds a line. Files with other lines, and kinds
with maps, which pyarrow cannot read from JSON, are parsed line by line.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from isal import isal_zlib
from isal.igzip_lib import IsalError

from waymesh_schema import telemetry
from waymesh_schema.telemetry import KINDS, Field

from .schemas import HOUR, curated_schema, line_schema

IDENTITY = ("router", "boot", "seq", "ts")
"""The fields without which a line is not a record."""
BLOCK_BYTES = 8 << 20
"""pyarrow parses this many bytes at a time."""
LINE_BYTES = 1 << 20
"""A longer line is not a record."""
DEPTH = 400
"""Brackets of a line up to which Python parses it, however they are nested: its limit is 1,000 less its calls."""
UNPACKED_BYTES = 256 << 20
"""What follows in a file is not read, as if the file were truncated: routers close a file after a quarter of this."""
MOST_LINES = 1 << 19
"""The same for lines: a router's have more than 128 bytes."""
PIECE_LINES = 10_000
"""So many lines at a time become Python objects, which take far more memory than the line or the table."""
KEPT_LINES, KEPT_BYTES = 10_000, 16 << 20
"""Of the lines of a file that are not records, the first ones are kept, up to these limits; all are counted."""
PACKED_PIECE = 16 << 10
"""What follows a gzip member is copied: with small pieces, a file of very many members costs no more than others."""
END_OF_TIME_S = 253_402_128_000
"""The last day but one of the year 9999, in seconds since 1970: every time has a date in every time zone."""
EXACT = 1 << 53
"""Limit of numbers: doubles are exact up to it, and sums over a year of records stay within 64 bits."""
MOST_DIGITS = 20
"""An integer with more is in no range of a field."""
GZIP = 31
"""The `wbits` of zlib for data with a gzip header."""
_TIMES = {"ts": END_OF_TIME_S * 1_000_000, "boot": END_OF_TIME_S * 1000}
"""The ends of the ranges of the fields that are shown as times."""
_LIMITS = {telemetry.SHORT: 1 << 15, telemetry.INT: 1 << 31, telemetry.LONG: EXACT}
_FIELD_RANGES = {**{name: (0, end) for name, end in _TIMES.items()}, "sid": (0, 1 << 63), "seq": (1, EXACT)}
"""The ranges [begin, end) of fields that are narrower or wider than those of their types; `sid` is random."""
_LEAST_WEIGHT = 1.0
"""A sample stands for itself at least: totals of samples are divided by the sum of their weights."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of a file."""

    # In the types of curated files.
    records: pa.Table
    # How many lines are not records.
    corrupt: int = 0
    # Those of them that are kept.
    kept: tuple[str, ...] = ()

    @property
    def lines(self) -> int:
        """The lines that are not empty."""
        return len(self.records) + self.corrupt


def parse_file(kind: str, hour: str, packed: bytes) -> Parsed:
    """The records of a compressed file; a truncated file yields those before its end."""
    data, broken = unpack(packed)
    if broken:
        data = data[: data.rfind(b"\n") + 1]
    if data.count(b"\n") > MOST_LINES:
        data = data[: _end_of_line(data, MOST_LINES)]
    table = _whole(kind, data)
    found = _by_line(kind, data) if table is None else Parsed(table)
    return replace(found, records=_curated(found.records, kind, hour))


def _end_of_line(data: bytes, number: int) -> int:
    """Where the line with this number (from 1) ends."""
    end = 0
    for _ in range(number):
        end = data.index(b"\n", end) + 1
    return end


def unpack(packed: bytes, limit: int = UNPACKED_BYTES) -> tuple[bytes, bool]:
    """The uncompressed bytes up to the first error, and whether there was one: truncated, too large, or not gzip."""
    parts = []
    left = limit
    reader = isal_zlib.decompressobj(GZIP)
    complete = False
    for rest in _pieces(packed, PACKED_PIECE):
        while rest:
            try:
                part = reader.decompress(rest, left + 1)
            except IsalError:  # type: ignore[misc]  # its stub does not say that it is an exception
                return _until_error(packed, limit), True
            parts.append(part[:left])
            left -= len(part)
            if left < 0:
                return b"".join(parts), True
            complete = reader.eof
            rest = reader.unused_data
            if complete:
                reader = isal_zlib.decompressobj(GZIP)
    return b"".join(parts), not complete


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    view = memoryview(data)
    return (bytes(view[at : at + size]) for at in range(0, len(data), size))


def _until_error(packed: bytes, limit: int) -> bytes:
    """Return the readable part of a damaged file. It is read in pieces, because an error loses the piece that contains
    it."""
    parts = []
    reader = zlib.decompressobj(GZIP)
    left = limit
    try:
        for rest in _pieces(packed, 1 << 12):
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
    if _is_wide(data) or _may_be_deep(data) or not _is_utf8(data):
        return None
    if not data.strip():
        return line_schema(kind).empty_table()
    options = pj.ParseOptions(explicit_schema=line_schema(kind), unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(BytesIO(data), pj.ReadOptions(use_threads=False, block_size=BLOCK_BYTES), options)
        table.validate(full=True)  # pyarrow takes texts that are not UTF-8
    except pa.ArrowInvalid:
        return None
    return table if _has_one_a_line(data, len(table)) and _in_range(kind, table) else None


def _has_one_a_line(data: bytes, rows: int) -> bool:
    """Whether each of the objects that pyarrow found is one line: pyarrow also takes two objects in a line, and one
    that takes two lines. Within an object, no closing bracket is followed by a line feed and an opening one."""
    return data.count(b"}\n{") == rows - 1 and data.count(b"\n") == rows - 1 + data.endswith(b"\n")


def _is_wide(data: bytes) -> bool:
    """Whether a line has more than LINE_BYTES."""
    at = 0
    while len(data) - at > LINE_BYTES:
        end = data.rfind(b"\n", at, at + LINE_BYTES + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def _may_be_deep(data: bytes) -> bool:
    """Whether a line has so many brackets that Python may refuse its depth. pyarrow takes any depth, and whether a line
    is a record must not depend on the other lines of its file."""
    beside = data.count(b"{") + data.count(b"[") - data.count(b"\n{")  # more than any line has, but for its first one
    return beside > DEPTH and any(line.count(b"{") + line.count(b"[") > DEPTH for line in BytesIO(data))


def _is_utf8(data: bytes) -> bool:
    """Whether it is text. pyarrow looks at the fields that it knows only. Nothing is copied."""
    ends = pa.py_buffer(struct.pack("=ii", 0, len(data)))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _in_range(kind: str, table: pa.Table) -> bool:
    """Whether all rows have the fields of a record, and numbers within their ranges."""
    if any(table[name].null_count for name in IDENTITY):
        return False
    return all(_fits(field, table[field.name]) for field in KINDS[kind].fields)


def _fits(field: Field, column: pa.ChunkedArray) -> bool:
    """Whether all values are in the range of a field; other kinds of values than numbers always are."""
    if field.type == telemetry.DOUBLE and not pc.all(pc.is_finite(column.drop_null())).as_py() and len(column):
        return bool(column.null_count == len(column))
    if not pa.types.is_integer(column.type) and field.type != telemetry.DOUBLE:
        return True
    ends = pc.min_max(column)
    begin, end = _range_of(field)
    return ends["min"].as_py() is None or bool(ends["min"].as_py() >= begin and ends["max"].as_py() < end)


def _range_of(field: Field) -> tuple[float, float]:
    """The numbers [begin, end) that a field may have."""
    if field.type == telemetry.DOUBLE:
        return _LEAST_WEIGHT if field.name == "weight" else -EXACT, EXACT
    limit = _LIMITS.get(field.type, EXACT)
    return _FIELD_RANGES.get(field.name, (-limit, limit))


def _by_line(kind: str, data: bytes) -> Parsed:
    """The records, and the lines that are not records; the records in the types of lines."""
    fields = {field.name: _check(field) for field in KINDS[kind].fields}
    schema = line_schema(kind)
    tables, rows, kept = [], [], []
    count = room = 0
    stream = BytesIO(data)
    for line in stream:
        if not line.strip():
            continue
        row = _row(line.removesuffix(b"\n"), fields)
        if row is not None:
            rows.append(row)
            if len(rows) == PIECE_LINES:
                tables.append(pa.Table.from_pylist(rows, schema))
                rows.clear()
            continue
        count += 1
        if count <= KEPT_LINES and room < KEPT_BYTES:
            kept.append(line[:LINE_BYTES].removesuffix(b"\n").decode(errors="replace"))
            room += len(kept[-1])
    records = pa.concat_tables([*tables, pa.Table.from_pylist(rows, schema)])
    return Parsed(records, count, tuple(kept))


def _row(line: bytes, fields: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any] | None:
    """The values of a record; None if the line is not one."""
    row: Any = None
    if len(line) <= LINE_BYTES:
        with suppress(ValueError, RecursionError):  # also a UnicodeDecodeError
            text = line.decode()
            try:
                row = json.loads(text)
            except ValueError:  # perhaps of a number with thousands of digits in a field that is not known
                row = json.loads(text, parse_int=_short_integer)
    return {name: row.get(name) for name in fields} if _is_record(row, fields) else None


def _short_integer(digits: str) -> float:
    """The number; infinity if no field has one so long."""
    return int(digits) if len(digits) <= MOST_DIGITS else math.inf


def _is_record(row: Any, fields: Mapping[str, Callable[[Any], bool]]) -> bool:
    return (
        isinstance(row, dict)
        and all(row.get(name) is not None for name in IDENTITY)
        and all(value is None or name not in fields or fields[name](value) for name, value in row.items())
    )


def _integer(begin: float, end: float) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and begin <= value < end


def _number(begin: float, end: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and begin <= value < end  # not NaN either


def _text(value: Any) -> bool:
    return type(value) is str and _encodable(value)


def _encodable(text: str) -> bool:
    """False for a lone surrogate, which JSON can escape and UTF-8 cannot hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _map_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(_text(key) and fits(each) for key, each in value.items())


_CHECKS: dict[str, Callable[[Any], bool]] = {
    telemetry.TEXT: _text,
    telemetry.FLAG: lambda value: type(value) is bool,
    telemetry.TEXTS: lambda value: isinstance(value, list) and all(each is None or _text(each) for each in value),
    telemetry.PAIRS: _map_of(lambda value: value is None or _text(value)),
    telemetry.COUNTS: _map_of(_integer(0, EXACT)),
}


def _check(field: Field) -> Callable[[Any], bool]:
    """Whether a value fits a field."""
    return _CHECKS.get(field.type) or (_number if field.type == telemetry.DOUBLE else _integer)(*_range_of(field))


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
