"""Parses the bytes of an exported file to a table of its records.

A file that has only valid lines is parsed by pyarrow, in about 3 microseconds a line. Files with other lines, and kinds
with maps, which pyarrow cannot read from JSON, are parsed line by line.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
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
"""pyarrow parses this many bytes at a time; a longer line has its file parsed line by line."""
GZIP = 31
"""The `wbits` of zlib for data with a gzip header."""
_RANGES = {telemetry.SHORT: 1 << 15, telemetry.INT: 1 << 31, telemetry.LONG: 1 << 63, telemetry.TIME: 1 << 63}


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


def unpack(packed: bytes) -> tuple[bytes, bool]:
    """The uncompressed bytes up to the first error, and whether there was one: truncated, or not gzip."""
    parts = []
    rest = packed
    while rest:
        reader = isal_zlib.decompressobj(GZIP)
        try:
            parts.append(reader.decompress(rest))
        except IsalError:  # type: ignore[misc]  # its stub does not say that it is an exception
            return _until_error(packed), True
        if not reader.eof:
            return b"".join(parts), True
        rest = reader.unused_data
    return b"".join(parts), not packed


def _until_error(packed: bytes) -> bytes:
    """Return the readable part of a damaged file. It is read in pieces, because an error loses the piece that contains
    it."""
    parts = []
    reader = zlib.decompressobj(GZIP)
    view = memoryview(packed)
    try:
        for at in range(0, len(packed), 1 << 12):
            rest = bytes(view[at : at + (1 << 12)])
            while rest:
                parts.append(reader.decompress(rest))
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
    if not data.strip():
        return line_schema(kind).empty_table()
    options = pj.ParseOptions(explicit_schema=line_schema(kind), unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(BytesIO(data), pj.ReadOptions(use_threads=False, block_size=BLOCK_BYTES), options)
    except pa.ArrowInvalid:
        return None
    return None if any(table[name].null_count for name in IDENTITY) else table


def _by_line(kind: str, data: bytes) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The records, and the lines that are not records."""
    fields = {field.name: _CHECKS[field.type] for field in KINDS[kind].fields}
    rows, corrupt = [], []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:  # also a UnicodeDecodeError
            row = None
        if _is_record(row, fields):
            rows.append({name: row.get(name) for name in fields})
        else:
            corrupt.append(line.decode(errors="replace"))
    return rows, tuple(corrupt)


def _is_record(row: Any, fields: Mapping[str, Callable[[Any], bool]]) -> bool:
    return (
        isinstance(row, dict)
        and all(row.get(name) is not None for name in IDENTITY)
        and all(value is None or name not in fields or fields[name](value) for name, value in row.items())
    )


def _integer(limit: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and -limit <= value < limit


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
    telemetry.DOUBLE: lambda value: type(value) in (int, float),
    telemetry.TEXT: _text,
    telemetry.FLAG: lambda value: type(value) is bool,
    telemetry.TEXTS: lambda value: isinstance(value, list) and all(each is None or _text(each) for each in value),
    telemetry.PAIRS: _map_of(_text),
    telemetry.COUNTS: _map_of(_integer(_RANGES[telemetry.LONG])),
}


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
