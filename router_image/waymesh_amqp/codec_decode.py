"""Decoding of AMQP values: one function for each constructor byte. Spec: 1.6

Every function takes (buf, pos, end, depth), where `pos` is the position after the constructor byte, never reads at or
after `end`, and returns (value, next position). Invalid bytes always raise DecodeError, and nothing else.
Rules in addition to the specification:
- Nesting deeper than MAX_DEPTH is invalid.
- A map with two equal keys is invalid (Spec: 1.6.23); keys are compared in Python, so uint 1 equals boolean true.
- A list, map or array (described or not) is invalid as a map key.
- An array of more than MAX_EMPTY_ELEMENTS elements of zero bytes is invalid: few bytes would take much memory.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from waymesh_amqp.codec_values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from waymesh_amqp.errors import DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview
Decoder: TypeAlias = Callable[[Buffer, int, int, int], tuple[Any, int]]

MAX_DEPTH = 64
MAX_EMPTY_ELEMENTS = 32

_U32 = Struct(">I")
_PAIR8 = Struct(">BB")
_PAIR32 = Struct(">II")


def decode(buf: Buffer, pos: int = 0, end: int | None = None) -> tuple[Any, int]:
    """Decode the value whose constructor is at `pos`, without reading at or after `end`; return (value, next position).

    Raises DecodeError.
    """
    stop = len(buf) if end is None else end
    if pos < 0 or stop > len(buf):
        raise DecodeError("position outside of the buffer", pos)
    return decode_value(buf, pos, stop, 0)


def decode_value(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    """Decode the value whose constructor is at `pos`; for callers that have checked that `end` is inside `buf`."""
    if pos >= end:
        raise _short("a constructor", pos)
    return DECODERS[buf[pos]](buf, pos + 1, end, depth)


_WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 0xC: 2, 0xD: 8}
"""Octets after a constructor, by its first digit; for lists and maps: size and count. Spec: 1.2"""


def has_more_values(buf: Buffer, pos: int, end: int, limit: int) -> bool:
    """Whether `buf[pos:end]` has more than `limit` values: each element, key, map value and descriptor counts, and so
    does the constructor of a described value.

    For input that is decoded in one step. False for invalid bytes: `decode` reports the error.
    """
    found = 0
    while pos < end:
        kind = buf[pos] >> 4
        pos += 1
        found += 1
        if kind == 0:  # a descriptor and a value follow
            pass
        elif kind in _WIDTHS:
            pos += _WIDTHS[kind]
        else:  # variable width, or an array
            wide = bool(kind & 1)
            header = pos + (4 if wide else 1)
            if header >= end:
                return False
            after = header + (_U32.unpack_from(buf, pos)[0] if wide else buf[pos])
            if kind >= 0xE:
                content = header + (4 if wide else 1)
                if content >= end:
                    return False
                simple = 0x40 <= buf[content] < 0xC0
                # Elements that have elements or descriptors themselves can have as many as they have octets.
                found += int.from_bytes(buf[header:content], "big") if simple else after - content
            pos = after
        if found > limit:
            return True
    return False


def _short(what: str, pos: int) -> DecodeError:
    return DecodeError(f"not enough bytes for {what}", pos)


def _invalid(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    raise DecodeError(f"invalid constructor 0x{buf[pos - 1]:02x}", pos - 1)


def _constant(value: Any) -> Decoder:
    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        return value, pos

    return read


def _number(layout: str, name: str) -> Decoder:
    """Reader of a fixed-width number that becomes an int or float."""
    packed = Struct(layout)
    width, unpack = packed.size, packed.unpack_from

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        after = pos + width
        if after > end:
            raise _short(name, pos)
        return unpack(buf, pos)[0], after

    return read


def _fixed(layout: str, convert: Callable[[Any], Any], name: str) -> Decoder:
    """Reader of a fixed-width number that becomes one of the classes in codec_values.py."""
    packed = Struct(layout)
    width, unpack = packed.size, packed.unpack_from

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        after = pos + width
        if after > end:
            raise _short(name, pos)
        return convert(unpack(buf, pos)[0]), after

    return read


def _opaque(width: int, convert: Callable[[bytes], Any], name: str) -> Decoder:
    """Reader of fixed-width bytes."""

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        after = pos + width
        if after > end:
            raise _short(name, pos)
        return convert(bytes(buf[pos:after])), after

    return read


def _uuid(octets: bytes) -> UUID:
    return UUID(bytes=octets)


def _boolean(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    """boolean with a value octet, 0x56. Spec: 1.6.2"""
    if pos >= end:
        raise _short("boolean", pos)
    octet = buf[pos]
    if octet > 1:
        raise DecodeError(f"boolean of value 0x{octet:02x}", pos)
    return octet == 1, pos + 1


def _char(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    """char, UTF-32BE. Spec: 1.6.16"""
    after = pos + 4
    if after > end:
        raise _short("char", pos)
    (point,) = _U32.unpack_from(buf, pos)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeError(f"char 0x{point:x} is not a Unicode character", pos)
    return Char(chr(point)), after


def _variable8(convert: Callable[[Any], Any], name: str) -> Decoder:
    """Reader of up to 255 bytes after a length of one byte."""

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        if pos >= end:
            raise _short(name, pos)
        start = pos + 1
        after = start + buf[pos]
        if after > end:
            raise _short(name, pos)
        try:
            return convert(buf[start:after]), after
        except UnicodeDecodeError as error:
            raise DecodeError(f"invalid {name}: {error.reason}", start + error.start) from None

    return read


def _variable32(convert: Callable[[Any], Any], name: str) -> Decoder:
    """Reader of bytes after a length of four bytes."""

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        start = pos + 4
        if start > end:
            raise _short(name, pos)
        after: int = start + _U32.unpack_from(buf, pos)[0]
        if after > end:
            raise _short(name, pos)
        try:
            return convert(buf[start:after]), after
        except UnicodeDecodeError as error:
            raise DecodeError(f"invalid {name}: {error.reason}", start + error.start) from None

    return read


def _string(octets: Buffer) -> str:
    return str(octets, "utf-8")


def _symbol(octets: Buffer) -> Symbol:
    return Symbol(octets, "ascii")


def compound_header(buf: Buffer, pos: int, end: int, wide: bool) -> tuple[int, int, int]:
    """Read size and count after the constructor of a list, map or array: (count, start of content, end of content)."""
    layout = _PAIR32 if wide else _PAIR8
    start = pos + layout.size
    if start > end:
        raise _short("size and count", pos)
    size, count = layout.unpack_from(buf, pos)
    half = layout.size >> 1
    after: int = pos + half + size  # the size does not include its own field. Spec: 1.6.22
    if after > end or size < half:
        raise DecodeError(f"size {size} exceeds the available bytes", pos)
    return count, start, after


def _list(wide: bool) -> Decoder:
    """list8, list32; the elements must fill the list's size exactly. Spec: 1.6.22

    Reads its header itself: with a call of `compound_header`, lists within lists cost half as much again, and clients
    can send many of them.
    """

    layout = _PAIR32 if wide else _PAIR8
    width, half, unpack = layout.size, layout.size >> 1, layout.unpack_from

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        start = pos + width
        if start > end:
            raise _short("size and count", pos)
        size, count = unpack(buf, pos)
        after = pos + half + size
        if after > end or size < half:
            raise DecodeError(f"size {size} exceeds the available bytes", pos)
        if count > after - start:  # each element has a constructor of at least one byte
            raise DecodeError(f"count {count} is too large for the size", pos)
        if depth >= MAX_DEPTH:
            raise DecodeError(f"nested deeper than {MAX_DEPTH}", pos)
        depth += 1
        decoders = DECODERS
        values: list[Any] = []
        for _ in range(count):
            if start >= after:
                raise _short("an element", start)
            value, start = decoders[buf[start]](buf, start + 1, after, depth)
            values.append(value)
        if start != after:
            raise DecodeError(f"{after - start} bytes too many for count {count}", start)
        return values, after

    return read


def _list0(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    return [], pos


def _map(wide: bool) -> Decoder:
    """map8, map32: keys and values are encoded as those of a list. Spec: 1.6.23"""
    read_list = _list(wide)

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        items, after = read_list(buf, pos, end, depth)
        if len(items) % 2:
            raise DecodeError("map with a key but no value", pos)
        try:
            result = dict(zip(items[::2], items[1::2], strict=True))
        except TypeError:
            raise DecodeError("map key is a list, map or array", pos) from None
        if len(result) * 2 != len(items):
            raise DecodeError("map has a duplicate key", pos)
        return result, after

    return read


def _array(wide: bool) -> Decoder:
    """array8, array32; one constructor serves all elements. Spec: 1.6.24"""

    def read(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
        count, start, after = compound_header(buf, pos, end, wide)
        if depth >= MAX_DEPTH:
            raise DecodeError(f"nested deeper than {MAX_DEPTH}", pos)
        descriptors, start = _descriptors(buf, start, after, depth)
        code = buf[start]
        start += 1
        if count > MAX_EMPTY_ELEMENTS and 0x40 <= code < 0x50:
            raise DecodeError(f"array of {count} elements of zero bytes", pos)
        decoder = DECODERS[code]
        if decoder is _invalid:
            raise DecodeError(f"invalid constructor 0x{code:02x}", start - 1)
        values: list[Any] = []
        for _ in range(count):
            value, start = decoder(buf, start, after, depth + 1)
            values.append(value)
        if start != after:
            raise DecodeError(f"{after - start} bytes too many for count {count}", start)
        return Array(code, values, descriptors), after

    return read


def _descriptors(buf: Buffer, pos: int, end: int, depth: int) -> tuple[tuple[Any, ...], int]:
    """Read the descriptors of an array's elements; the position returned is that of the bare constructor."""
    found: list[Any] = []
    while pos < end and buf[pos] == 0:
        if depth + len(found) >= MAX_DEPTH:
            raise DecodeError(f"nested deeper than {MAX_DEPTH}", pos)
        descriptor, pos = decode_value(buf, pos + 1, end, depth + 1)
        found.append(descriptor)
    if pos >= end:
        raise _short("an array's constructor", pos)
    return tuple(found), pos


def _described(buf: Buffer, pos: int, end: int, depth: int) -> tuple[Any, int]:
    """0x00 descriptor value. Spec: 1.2"""
    if depth >= MAX_DEPTH:
        raise DecodeError(f"nested deeper than {MAX_DEPTH}", pos)
    descriptor, pos = decode_value(buf, pos, end, depth + 1)
    value, pos = decode_value(buf, pos, end, depth + 1)
    return Described(descriptor, value), pos


_KNOWN: dict[int, Decoder] = {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(UInt(0)),
    0x44: _constant(ULong(0)),
    0x45: _list0,
    0x50: _fixed(">B", UByte, "ubyte"),
    0x51: _fixed(">b", Byte, "byte"),
    0x52: _fixed(">B", UInt, "uint"),
    0x53: _fixed(">B", ULong, "ulong"),
    0x54: _fixed(">b", Int, "int"),
    0x55: _number(">b", "long"),
    0x56: _boolean,
    0x60: _fixed(">H", UShort, "ushort"),
    0x61: _fixed(">h", Short, "short"),
    0x70: _fixed(">I", UInt, "uint"),
    0x71: _fixed(">i", Int, "int"),
    0x72: _fixed(">f", Float32, "float"),
    0x73: _char,
    0x74: _opaque(4, Decimal32, "decimal32"),
    0x80: _fixed(">Q", ULong, "ulong"),
    0x81: _number(">q", "long"),
    0x82: _number(">d", "double"),
    0x83: _fixed(">q", Timestamp, "timestamp"),
    0x84: _opaque(8, Decimal64, "decimal64"),
    0x94: _opaque(16, Decimal128, "decimal128"),
    0x98: _opaque(16, _uuid, "uuid"),
    0xA0: _variable8(bytes, "binary"),
    0xA1: _variable8(_string, "string"),
    0xA3: _variable8(_symbol, "symbol"),
    0xB0: _variable32(bytes, "binary"),
    0xB1: _variable32(_string, "string"),
    0xB3: _variable32(_symbol, "symbol"),
    0xC0: _list(False),
    0xC1: _map(False),
    0xD0: _list(True),
    0xD1: _map(True),
    0xE0: _array(False),
    0xF0: _array(True),
}

DECODERS: list[Decoder] = [_KNOWN.get(code, _invalid) for code in range(256)]
