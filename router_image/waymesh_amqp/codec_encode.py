"""Encoding of AMQP values, always in the smallest encoding. Spec: 1.6

Raises ValueError for a value outside the range of its type, and TypeError for a Python type without an AMQP type:
both are errors of the caller, not of the peer.
"""

from __future__ import annotations

import struct
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
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

Encoder: TypeAlias = Callable[[bytearray, Any], None]

_U32 = Struct(">BI")  # constructor and four bytes
_S32 = Struct(">Bi")
_U64 = Struct(">BQ")
_S64 = Struct(">Bq")
_COMPOUND8 = Struct(">BBB")
_COMPOUND32 = Struct(">BII")


def encode(value: Any) -> bytes:
    """Encode one value. Raises ValueError (out of range) or TypeError (no such AMQP type)."""
    out = bytearray()
    encode_into(out, value)
    return bytes(out)


def encode_into(out: bytearray, value: Any) -> None:
    """Append the encoding of one value to `out`."""
    encoder = ENCODERS.get(type(value))
    if encoder is None:
        encoder = _inherited(type(value))
    encoder(out, value)


def _inherited(kind: type) -> Encoder:
    for base in kind.__mro__[1:]:
        if base in ENCODERS:
            return ENCODERS[base]
    raise TypeError(f"no AMQP type for {kind.__name__}")


def pack_compound(out: bytearray, short_code: int, count: int, body: bytes | bytearray) -> None:
    """Append a list or map: `short_code` is the 8-bit constructor (0xC0, 0xC1), chosen if size and count allow."""
    if len(body) < 255 and count < 256:
        out += _COMPOUND8.pack(short_code, len(body) + 1, count)
    else:
        out += _COMPOUND32.pack(short_code + 0x10, len(body) + 4, count)
    out += body


def _pack(layout: Struct, name: str, *fields: Any) -> bytes:
    try:
        return layout.pack(*fields)
    except (struct.error, OverflowError):
        raise ValueError(f"{fields[-1]!r} is out of range for {name}") from None


def _fixed(code: int, layout: str, name: str) -> Encoder:
    packed = Struct(">B" + layout)

    def write(out: bytearray, value: Any) -> None:
        out += _pack(packed, name, code, value)

    return write


def _opaque(code: int, width: int, name: str) -> Encoder:
    def write(out: bytearray, value: Any) -> None:
        if len(value) != width:
            raise ValueError(f"{name} has {width} bytes, not {len(value)}")
        out.append(code)
        out += value

    return write


def _variable(out: bytearray, short_code: int, octets: bytes | bytearray | memoryview) -> None:
    size = len(octets)
    if size < 256:
        out.append(short_code)
        out.append(size)
    else:
        out += _pack(_U32, "a length", short_code + 0x10, size)
    out += octets


def _null(out: bytearray, value: Any) -> None:
    out.append(0x40)


def _boolean(out: bytearray, value: Any) -> None:
    out.append(0x41 if value else 0x42)


def _uint(out: bytearray, value: Any) -> None:
    if value == 0:
        out.append(0x43)
    elif 0 < value < 256:
        out.append(0x52)
        out.append(value)
    else:
        out += _pack(_U32, "uint", 0x70, value)


def _ulong(out: bytearray, value: Any) -> None:
    if value == 0:
        out.append(0x44)
    elif 0 < value < 256:
        out.append(0x53)
        out.append(value)
    else:
        out += _pack(_U64, "ulong", 0x80, value)


def _int(out: bytearray, value: Any) -> None:
    if -128 <= value < 128:
        out.append(0x54)
        out.append(value & 0xFF)
    else:
        out += _pack(_S32, "int", 0x71, value)


def _long(out: bytearray, value: Any) -> None:
    if -128 <= value < 128:
        out.append(0x55)
        out.append(value & 0xFF)
    else:
        out += _pack(_S64, "long", 0x81, value)


def _char(out: bytearray, value: Any) -> None:
    out.append(0x73)
    out += _char_body(value)


def _char_body(value: str) -> bytes:
    if len(value) != 1:
        raise ValueError(f"char of length {len(value)}")
    return value.encode("utf-32-be")


def _uuid(out: bytearray, value: Any) -> None:
    out.append(0x98)
    out += value.bytes


def _binary(out: bytearray, value: Any) -> None:
    _variable(out, 0xA0, value)


def _view(out: bytearray, value: memoryview) -> None:
    _variable(out, 0xA0, value.tobytes())


def _string(out: bytearray, value: Any) -> None:
    _variable(out, 0xA1, value.encode("utf-8"))


def _symbol(out: bytearray, value: Any) -> None:
    _variable(out, 0xA3, value.encode("ascii"))


def _list(out: bytearray, value: Any) -> None:
    if not value:
        out.append(0x45)
        return
    pack_compound(out, 0xC0, *_list_content(value))


def _map(out: bytearray, value: Any) -> None:
    pack_compound(out, 0xC1, *_map_content(value))


def _raw(out: bytearray, value: Any) -> None:
    out += value


def _described(out: bytearray, value: Described) -> None:
    out.append(0x00)
    encode_into(out, value.descriptor)
    encode_into(out, value.value)


def _array(out: bytearray, value: Array) -> None:
    pack_compound(out, 0xE0, *_array_content(value))


def _array_elements(value: Array) -> bytearray:
    """The constructor of an array's elements and the elements."""
    body = bytearray()
    for descriptor in value.descriptors:
        body.append(0x00)
        encode_into(body, descriptor)
    element = ELEMENTS.get(value.code)
    if element is None:
        raise ValueError(f"0x{value.code:02x} is not the constructor of an AMQP type")
    body.append(value.code)
    for item in value.values:
        element(body, item)
    return body


def _element_constant(*allowed: Any) -> Encoder:
    def write(out: bytearray, value: Any) -> None:
        if value not in allowed:
            raise ValueError(f"{value!r} in an array of {allowed[0]!r}")

    return write


def _element_fixed(layout: str) -> Encoder:
    packed = Struct(">" + layout)

    def write(out: bytearray, value: Any) -> None:
        out += _pack(packed, "its array", value)

    return write


def _element_opaque(width: int) -> Encoder:
    def write(out: bytearray, value: Any) -> None:
        octets = value.bytes if isinstance(value, UUID) else value
        if len(octets) != width:
            raise ValueError(f"element of {len(octets)} bytes in an array of {width} bytes each")
        out += octets

    return write


def _element_char(out: bytearray, value: Any) -> None:
    out += _char_body(value)


def _element_variable(layout: str, encoding: str | None) -> Encoder:
    length = Struct(">" + layout)

    def write(out: bytearray, value: Any) -> None:
        octets = value.encode(encoding) if encoding else value
        out += _pack(length, "a length in its array", len(octets))
        out += octets

    return write


def _element_compound(layout: str, content: Callable[[Any], tuple[int, bytearray]]) -> Encoder:
    """Elements that are lists, maps or arrays: size, count, content."""
    header = Struct(">" + layout)
    half = header.size >> 1

    def write(out: bytearray, value: Any) -> None:
        count, body = content(value)
        if len(body) + half >= 1 << (8 * half):
            raise ValueError(f"element of {len(body)} bytes in an array of 8-bit sizes")
        out += _pack(header, "a size in its array", len(body) + half, count)
        out += body

    return write


def _list_content(value: Any) -> tuple[int, bytearray]:
    body = bytearray()
    encoders = ENCODERS
    for item in value:
        (encoders.get(type(item)) or _inherited(type(item)))(body, item)
    return len(value), body


def _map_content(value: Any) -> tuple[int, bytearray]:
    body = bytearray()
    for key, item in value.items():
        encode_into(body, key)
        encode_into(body, item)
    return 2 * len(value), body


def _array_content(value: Array) -> tuple[int, bytearray]:
    return len(value.values), _array_elements(value)


ENCODERS: dict[type, Encoder] = {
    type(None): _null,
    bool: _boolean,
    UByte: _fixed(0x50, "B", "ubyte"),
    UShort: _fixed(0x60, "H", "ushort"),
    UInt: _uint,
    ULong: _ulong,
    Byte: _fixed(0x51, "b", "byte"),
    Short: _fixed(0x61, "h", "short"),
    Int: _int,
    int: _long,
    Float32: _fixed(0x72, "f", "float"),
    float: _fixed(0x82, "d", "double"),
    Decimal32: _opaque(0x74, 4, "decimal32"),
    Decimal64: _opaque(0x84, 8, "decimal64"),
    Decimal128: _opaque(0x94, 16, "decimal128"),
    Char: _char,
    Timestamp: _fixed(0x83, "q", "timestamp"),
    UUID: _uuid,
    bytes: _binary,
    bytearray: _binary,
    memoryview: _view,
    str: _string,
    Symbol: _symbol,
    list: _list,
    tuple: _list,
    dict: _map,
    Raw: _raw,
    Described: _described,
    Array: _array,
}

ELEMENTS: dict[int, Encoder] = {
    0x40: _element_constant(None),
    0x41: _element_constant(True),
    0x42: _element_constant(False),
    0x43: _element_constant(0),
    0x44: _element_constant(0),
    0x45: _element_constant([]),
    0x50: _element_fixed("B"),
    0x51: _element_fixed("b"),
    0x52: _element_fixed("B"),
    0x53: _element_fixed("B"),
    0x54: _element_fixed("b"),
    0x55: _element_fixed("b"),
    0x56: _element_fixed("?"),
    0x60: _element_fixed("H"),
    0x61: _element_fixed("h"),
    0x70: _element_fixed("I"),
    0x71: _element_fixed("i"),
    0x72: _element_fixed("f"),
    0x73: _element_char,
    0x74: _element_opaque(4),
    0x80: _element_fixed("Q"),
    0x81: _element_fixed("q"),
    0x82: _element_fixed("d"),
    0x83: _element_fixed("q"),
    0x84: _element_opaque(8),
    0x94: _element_opaque(16),
    0x98: _element_opaque(16),
    0xA0: _element_variable("B", None),
    0xA1: _element_variable("B", "utf-8"),
    0xA3: _element_variable("B", "ascii"),
    0xB0: _element_variable("I", None),
    0xB1: _element_variable("I", "utf-8"),
    0xB3: _element_variable("I", "ascii"),
    0xC0: _element_compound("BB", _list_content),
    0xC1: _element_compound("BB", _map_content),
    0xD0: _element_compound("II", _list_content),
    0xD1: _element_compound("II", _map_content),
    0xE0: _element_compound("BB", _array_content),
    0xF0: _element_compound("II", _array_content),
}
