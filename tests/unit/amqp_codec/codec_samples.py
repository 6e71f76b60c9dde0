"""Encodings of every AMQP type, strategies for values of every type, and a type-aware comparison."""

from __future__ import annotations

import math
import struct
import uuid
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from waymesh_amqp.types import (
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

relaxed = settings(deadline=None)
"""For property tests: a busy machine is no failure."""


class Sample(NamedTuple):
    """One encoding of one value; `smallest` says whether it is the one we choose ourselves."""

    section: str
    name: str
    octets: bytes
    value: Any
    smallest: bool = True


def _sample(section: str, name: str, octets: str, value: Any, smallest: bool = True) -> Sample:
    return Sample(section, name, bytes.fromhex(octets), value, smallest)


_UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
_LONG = "x" * 256

SAMPLES = [
    _sample("1.6.1", "null", "40", None),
    _sample("1.6.2", "true", "41", True),
    _sample("1.6.2", "false", "42", False),
    _sample("1.6.2", "boolean-true", "56 01", True, False),
    _sample("1.6.2", "boolean-false", "56 00", False, False),
    _sample("1.6.3", "ubyte", "50 ff", UByte(255)),
    _sample("1.6.4", "ushort", "60 ffff", UShort(65535)),
    _sample("1.6.5", "uint0", "43", UInt(0)),
    _sample("1.6.5", "smalluint", "52 ff", UInt(255)),
    _sample("1.6.5", "smalluint-zero", "52 00", UInt(0), False),
    _sample("1.6.5", "uint", "70 00000100", UInt(256)),
    _sample("1.6.5", "uint-max", "70 ffffffff", UInt(0xFFFFFFFF)),
    _sample("1.6.6", "ulong0", "44", ULong(0)),
    _sample("1.6.6", "smallulong", "53 ff", ULong(255)),
    _sample("1.6.6", "ulong", "80 0000000000000100", ULong(256)),
    _sample("1.6.6", "ulong-max", "80 ffffffffffffffff", ULong(2**64 - 1)),
    _sample("1.6.7", "byte", "51 80", Byte(-128)),
    _sample("1.6.8", "short", "61 8000", Short(-32768)),
    _sample("1.6.9", "smallint", "54 80", Int(-128)),
    _sample("1.6.9", "int", "71 00000080", Int(128)),
    _sample("1.6.9", "int-min", "71 80000000", Int(-(2**31))),
    _sample("1.6.10", "smalllong", "55 7f", 127),
    _sample("1.6.10", "long", "81 ffffffffffffff7f", -129),
    _sample("1.6.10", "long-wide-small", "81 0000000000000001", 1, False),
    _sample("1.6.11", "float", "72 3fc00000", Float32(1.5)),
    _sample("1.6.12", "double", "82 3ff8000000000000", 1.5),
    _sample("1.6.12", "double-infinity", "82 7ff0000000000000", math.inf),
    _sample("1.6.13", "decimal32", "74 22500001", Decimal32(bytes.fromhex("22500001"))),
    _sample("1.6.14", "decimal64", "84 2238000000000001", Decimal64(bytes.fromhex("2238000000000001"))),
    _sample("1.6.15", "decimal128", "94" + "22" * 16, Decimal128(b"\x22" * 16)),
    _sample("1.6.16", "char", "73 0001f600", Char("\U0001f600")),
    _sample("1.6.17", "timestamp", "83 0000000000000001", Timestamp(1)),
    _sample("1.6.17", "timestamp-before-1970", "83 ffffffffffffffff", Timestamp(-1)),
    _sample("1.6.18", "uuid", "98" + _UUID.hex, _UUID),
    _sample("1.6.19", "vbin8", "a0 02 00ff", b"\x00\xff"),
    _sample("1.6.19", "vbin8-empty", "a0 00", b""),
    _sample("1.6.19", "vbin32", "b0 00000100" + "78" * 256, _LONG.encode()),
    _sample("1.6.19", "vbin32-short", "b0 00000001 61", b"a", False),
    _sample("1.6.20", "str8-utf8", "a1 02 c3a9", "é"),
    _sample("1.6.20", "str8-utf8-empty", "a1 00", ""),
    _sample("1.6.20", "str32-utf8", "b1 00000100" + "78" * 256, _LONG),
    _sample("1.6.21", "sym8", "a3 01 61", Symbol("a")),
    _sample("1.6.21", "sym32", "b3 00000100" + "78" * 256, Symbol(_LONG)),
    _sample("1.6.22", "list0", "45", []),
    _sample("1.6.22", "list8", "c0 04 02 40 5501", [None, 1]),
    _sample("1.6.22", "list8-empty", "c0 01 00", [], False),
    _sample("1.6.22", "list32", "d0 00000104 00000100" + "40" * 256, [None] * 256),
    _sample("1.6.22", "list32-short", "d0 00000005 00000001 40", [None], False),
    _sample("1.6.22", "list-nested", "c0 06 02 c0 02 01 41 45", [[True], []]),
    _sample("1.6.23", "map8", "c1 06 02 a10161 5501", {"a": 1}),
    _sample("1.6.23", "map8-empty", "c1 01 00", {}),
    _sample("1.6.23", "map32", "d1 0000010c 00000002 a10161 b000000100" + "78" * 256, {"a": _LONG.encode()}),
    _sample("1.6.24", "array8-symbol", "e0 06 02 a3 0161 0162", Array(0xA3, [Symbol("a"), Symbol("b")])),
    _sample("1.6.24", "array8-empty", "e0 02 00 a3", Array(0xA3, [])),
    _sample("1.6.24", "array8-uint", "e0 0a 02 70 00000001 00000002", Array(0x70, [UInt(1), UInt(2)])),
    _sample("1.6.24", "array8-boolean", "e0 04 02 56 0100", Array(0x56, [True, False])),
    _sample("1.6.24", "array8-null", "e0 02 03 40", Array(0x40, [None] * 3)),
    _sample("1.6.24", "array8-char", "e0 06 01 73 00000061", Array(0x73, [Char("a")])),
    _sample("1.6.24", "array8-uuid", "e0 12 01 98" + _UUID.hex, Array(0x98, [_UUID])),
    _sample("1.6.24", "array8-decimal64", "e0 0a 01 84" + "22" * 8, Array(0x84, [Decimal64(b"\x22" * 8)])),
    _sample("1.6.24", "array8-list", "e0 07 02 c0 020140 0100", Array(0xC0, [[None], []])),
    _sample("1.6.24", "array8-map8", "e0 06 01 c1 0302 4142", Array(0xC1, [{True: False}])),
    _sample(
        "1.6.24",
        "array8-array",
        "e0 0a 02 e0 03 01 50 07 03 01 55 ff",
        Array(0xE0, [Array(0x50, [UByte(7)]), Array(0x55, [-1])]),
    ),
    _sample(
        "1.6.24",
        "array8-list32",
        "e0 0b 01 d0 00000005 00000001 41",
        Array(0xD0, [[True]]),
    ),
    _sample(
        "1.6.24",
        "array8-described",
        "e0 09 01 00 a30178 a1 02 6869",
        Array(0xA1, ["hi"], (Symbol("x"),)),
    ),
    _sample(
        "1.6.24",
        "array8-twice-described",
        "e0 09 02 00 5301 00 44 50 0102",
        Array(0x50, [UByte(1), UByte(2)], (ULong(1), ULong(0))),
    ),
    _sample("1.6.24", "array32", "f0 00000105 00000100 50" + "07" * 256, Array(0x50, [UByte(7)] * 256)),
    _sample("1.2", "described-ulong", "00 5324 45", Described(ULong(0x24), [])),
    _sample("1.2", "described-symbol", "00 a30178 a10179", Described(Symbol("x"), "y")),
    _sample("1.2", "described-wide-descriptor", "00 80 0000468c00000004 40", Described(ULong(0x468C00000004), None)),
    _sample("1.2", "described-twice", "00 5301 00 5302 40", Described(ULong(1), Described(ULong(2), None))),
    _sample("1.2", "descriptor-of-any-type", "00 c001 00 41", Described([], True), False),
]


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal and of the same types all the way down; NaN is the same as NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, Described):
        return same(left.descriptor, right.descriptor) and same(left.value, right.value)
    if isinstance(left, Array):
        return left.code == right.code and same(left.values, right.values) and same(left.descriptors, right.descriptors)
    return bool(left == right)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_ascii = st.text(st.characters(max_codepoint=127), max_size=40)
_symbols = _ascii.map(Symbol)

# By constructor byte: the values that an array of it can hold.
ELEMENTS: dict[int, st.SearchStrategy[Any]] = {
    0x40: st.none(),
    0x41: st.just(True),
    0x42: st.just(False),
    0x43: st.just(UInt(0)),
    0x44: st.just(ULong(0)),
    0x45: st.builds(list),
    0x50: _unsigned(8).map(UByte),
    0x51: _signed(8).map(Byte),
    0x52: _unsigned(8).map(UInt),
    0x53: _unsigned(8).map(ULong),
    0x54: _signed(8).map(Int),
    0x55: _signed(8),
    0x56: st.booleans(),
    0x60: _unsigned(16).map(UShort),
    0x61: _signed(16).map(Short),
    0x70: _unsigned(32).map(UInt),
    0x71: _signed(32).map(Int),
    0x72: st.floats(width=32, allow_nan=False).map(Float32),
    0x73: st.characters(exclude_categories=["Cs"]).map(Char),
    0x74: st.binary(min_size=4, max_size=4).map(Decimal32),
    0x80: _unsigned(64).map(ULong),
    0x81: _signed(64),
    0x82: st.floats(allow_nan=False),
    0x83: _signed(64).map(Timestamp),
    0x84: st.binary(min_size=8, max_size=8).map(Decimal64),
    0x94: st.binary(min_size=16, max_size=16).map(Decimal128),
    0x98: st.uuids(),
    0xA0: st.binary(max_size=255),
    0xA1: _text,
    0xA3: _symbols,
    0xB0: st.binary(max_size=300),
    0xB1: _text,
    0xB3: _symbols,
}
_scalars = st.one_of(*(ELEMENTS[code] for code in ELEMENTS if code != 0x45))
_descriptors = st.one_of(_symbols, ELEMENTS[0x80])


@st.composite
def _arrays(draw: st.DrawFn, children: st.SearchStrategy[Any]) -> Array:
    compound = {0xD0: st.lists(children, max_size=3), 0xD1: st.dictionaries(_text, children, max_size=3)}
    code = draw(st.sampled_from([*ELEMENTS, *compound]))
    values = draw(st.lists((ELEMENTS | compound)[code], max_size=4))
    return Array(code, values, tuple(draw(st.lists(_descriptors, max_size=2))))


def _deeper(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=5),
        st.dictionaries(st.one_of(_text, _symbols), children, max_size=4),
        st.builds(Described, _descriptors, children),
        _arrays(children),
        st.lists(_arrays(children), max_size=3).map(lambda arrays: Array(0xF0, arrays)),
    )


VALUES: st.SearchStrategy[Any] = st.recursive(_scalars, _deeper, max_leaves=20)
