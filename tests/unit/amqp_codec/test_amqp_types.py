"""Each encoding of each type, and all kinds of invalid bytes. Spec: 1"""

from __future__ import annotations

import contextlib
import enum
import tracemalloc
from typing import Any

import pytest

from tests.unit.amqp_codec.codec_samples import SAMPLES, Sample, same
from waymesh_amqp.types import (
    MAX_DEPTH,
    Array,
    Byte,
    Char,
    Decimal32,
    DecodeError,
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
    decode,
    encode,
    symbol_array,
)

pytestmark = pytest.mark.engine_independent

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.section}-{sample.name}")


@each_sample
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_decodes_every_encoding(sample: Sample, buffer: Any) -> None:
    value, after = decode(buffer(sample.octets))
    assert after == len(sample.octets)
    assert same(value, sample.value)


@each_sample
def test_decodes_in_the_middle_of_a_buffer(sample: Sample) -> None:
    value, after = decode(b"\xff\xff" + sample.octets + b"\xff", 2)
    assert after == 2 + len(sample.octets)
    assert same(value, sample.value)


@each_sample
def test_encodes_in_the_smallest_encoding(sample: Sample) -> None:
    octets = encode(sample.value)
    if sample.smallest:
        assert octets.hex() == sample.octets.hex()
    else:
        assert len(octets) <= len(sample.octets)
    assert same(decode(octets)[0], sample.value)


@each_sample
def test_every_truncation_is_a_decode_error(sample: Sample) -> None:
    for length in range(len(sample.octets)):
        with pytest.raises(DecodeError):
            decode(sample.octets[:length])
        with pytest.raises(DecodeError):
            decode(sample.octets, 0, length)


@each_sample
def test_any_other_byte_gives_a_value_or_a_decode_error(sample: Sample) -> None:
    for index in range(min(len(sample.octets), 24)):
        for octet in range(256):
            broken = sample.octets[:index] + bytes([octet]) + sample.octets[index + 1 :]
            with contextlib.suppress(DecodeError):
                assert decode(broken)[1] <= len(broken)


WRONG = {
    "1.2-descriptor-missing": ("00", "constructor"),
    "1.2-value-missing": ("00 5301", "constructor"),
    "1.3-invalid-constructor": ("57", "invalid constructor 0x57"),
    "1.3-constructor-ff": ("ff", "invalid constructor 0xff"),
    "1.6.2-boolean-2": ("56 02", "boolean"),
    "1.6.16-char-surrogate": ("73 0000d800", "not a Unicode character"),
    "1.6.16-char-too-large": ("73 00110000", "not a Unicode character"),
    "1.6.19-length-lies": ("a0 05 00", "binary"),
    "1.6.19-length32-lies": ("b0 ffffffff 00", "binary"),
    "1.6.20-not-utf8": ("a1 02 c328", "invalid string"),
    "1.6.20-utf8-surrogate": ("a1 03 eda080", "invalid string"),
    "1.6.20-str32-not-utf8": ("b1 00000001 ff", "invalid string"),
    "1.6.21-not-ascii": ("a3 01 80", "invalid symbol"),
    "1.6.22-size-0": ("c0 00 00", "size 0"),
    "1.6.22-size-too-large": ("c0 09 01 40", "size 9"),
    "1.6.22-size-too-small": ("c0 02 02 40 40", "count 2"),
    "1.6.22-elements-missing": ("c0 03 02 5501", "not enough"),
    "1.6.22-bytes-left": ("c0 03 01 40 40", "1 bytes too many"),
    "1.6.22-element-crosses-the-end": ("c0 02 01 55 01", "long"),
    "1.6.22-list32-size-3": ("d0 00000003 00000000", "size 3"),
    "1.6.22-huge-count": ("d0 00000005 ffffffff 40", "count"),
    "1.6.23-odd-count": ("c1 02 01 40", "no value"),
    "1.6.23-key-twice": ("c1 09 04 a10161 40 a10161 40", "duplicate key"),
    "1.6.23-key-is-a-list": ("c1 03 02 45 40", "map key"),
    "1.6.23-key-is-a-described-map": ("c1 08 02 00 5301 c10100 40", "map key"),
    "1.6.24-no-constructor": ("e0 01 00", "array's constructor"),
    "1.6.24-descriptor-without-constructor": ("e0 04 00 00 5301", "array's constructor"),
    "1.6.24-invalid-constructor": ("e0 02 00 57", "invalid constructor"),
    "1.6.24-count-lies": ("e0 03 02 50 01", "not enough"),
    "1.6.24-bytes-left": ("e0 04 01 50 0102", "1 bytes too many"),
    "1.6.24-huge-count": ("f0 00000006 ffffffff 50 01", "not enough"),
    "1.6.24-huge-count-of-nothing": ("f0 00000005 ffffffff 40", "zero bytes"),
    "1.6.24-huge-count-of-list0": ("f0 00000005 00010000 45", "zero bytes"),
}


@pytest.mark.parametrize(("octets", "reason"), WRONG.values(), ids=WRONG.keys())
def test_wrong_bytes(octets: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        decode(bytes.fromhex(octets))
    assert caught.value.condition == "amqp:decode-error"
    assert caught.value.position is not None


@pytest.mark.parametrize("start", [-1, 2, 5])
def test_position_outside_of_the_buffer(start: int) -> None:
    with pytest.raises(DecodeError):
        decode(b"\x40\x40", start)


def test_end_outside_of_the_buffer() -> None:
    with pytest.raises(DecodeError):
        decode(b"\x40", 0, 2)


def _nested(kind: str, depth: int) -> bytes:
    value: Any = None
    for _ in range(depth):
        value = {"list": [value], "map": {"k": value}, "described": Described(ULong(1), value)}[kind]
    return encode(value)


@pytest.mark.parametrize("kind", ["list", "map", "described"])
def test_nesting_is_limited(kind: str) -> None:
    decode(_nested(kind, MAX_DEPTH))
    with pytest.raises(DecodeError, match="nested deeper"):
        decode(_nested(kind, MAX_DEPTH + 1))


def test_nested_arrays_are_limited() -> None:
    value = Array(0x40, [None])
    for _ in range(MAX_DEPTH - 1):
        value = Array(0xF0, [value])
    decode(encode(value))
    with pytest.raises(DecodeError, match="nested deeper"):
        decode(encode(Array(0xF0, [value])))


@pytest.mark.parametrize(
    "octets", [b"\x00" * 100_000, b"\xe0\xff\x00" + b"\x00" * 252, b"\x00\x53\x01" * 50_000, b"\xd0\xff\xff" * 40_000]
)
def test_deep_or_endless_bytes_are_no_recursion_error(octets: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(octets)


def test_lies_about_counts_cost_no_memory() -> None:
    lies = [bytes.fromhex(octets) for name, (octets, _) in WRONG.items() if "huge" in name]
    tracemalloc.start()
    try:
        for octets in lies:
            with pytest.raises(DecodeError):
                decode(octets)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


RANGE = [
    UByte(256),
    UByte(-1),
    UShort(65536),
    UInt(-1),
    UInt(2**32),
    ULong(-1),
    ULong(2**64),
    Byte(128),
    Short(-32769),
    Int(2**31),
    2**63,
    -(2**63) - 1,
    Timestamp(2**63),
    Float32(1e300),
    Char(""),
    Char("ab"),
    Decimal32(b"123"),
    Symbol("é"),
    "\ud800",
    Array(0x50, [256]),
    Array(0x41, [False]),
    Array(0x57, []),
    Array(0xA0, [b"x" * 256]),
    Array(0xC0, [[None] * 256]),
    Array(0xC0, [[b"x" * 253]]),
    Array(0x98, [b"short"]),
]


@pytest.mark.parametrize("value", RANGE, ids=lambda value: f"{type(value).__name__}-{str(value)[:20]!a}")
def test_values_out_of_range_are_not_encoded(value: Any) -> None:
    with pytest.raises(ValueError):
        encode(value)


def test_python_types_without_an_amqp_type_are_not_encoded() -> None:
    with pytest.raises(TypeError, match="complex"):
        encode([1j])


class _Colour(enum.IntEnum):
    RED = 3


class _Name(str):
    __slots__ = ()


def test_subclasses_are_encoded_as_their_base() -> None:
    assert encode(_Colour.RED) == encode(3)
    assert encode(_Name("x")) == encode("x")


@pytest.mark.parametrize("value", [bytearray(b"ab"), memoryview(b"ab"), memoryview(b"xaxbx")[1::2]])
def test_other_buffers_are_binary(value: Any) -> None:
    assert encode(value) == encode(b"ab")


def test_tuples_are_lists() -> None:
    assert encode((1, ())) == encode([1, []])


def test_raw_passes_verbatim() -> None:
    assert encode([Raw(b"\x52\x01"), Raw(encode({"a": None}))]) == bytes.fromhex("c00a025201") + encode({"a": None})


def test_symbol_array_takes_the_wide_encoding_when_it_must() -> None:
    assert symbol_array(["a", "b"]).code == 0xA3
    wide = symbol_array(["a", "b" * 256])
    assert wide.code == 0xB3
    assert same(decode(encode(wide))[0], wide)
