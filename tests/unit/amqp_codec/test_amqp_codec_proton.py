"""This codec against python-qpid-proton's, in both directions."""

from __future__ import annotations

import uuid
from typing import Any

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Data

from tests.unit.amqp_codec.codec_samples import SAMPLES, Sample, relaxed, same
from waymesh_amqp.message import Message, decode_message, encode_message
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
    decode,
    encode,
)

pytestmark = pytest.mark.engine_independent

_PUT: dict[type, str] = {
    bool: "bool",
    UByte: "ubyte",
    UShort: "ushort",
    UInt: "uint",
    ULong: "ulong",
    Byte: "byte",
    Short: "short",
    Int: "int",
    int: "long",
    Float32: "float",
    float: "double",
    Decimal32: "decimal32",
    Decimal64: "decimal64",
    Decimal128: "decimal128",
    Char: "char",
    Timestamp: "timestamp",
    uuid.UUID: "uuid",
    bytes: "binary",
    str: "string",
    Symbol: "symbol",
}
_ARRAY_TYPES = {
    0x40: Data.NULL,
    0x50: Data.UBYTE,
    0x55: Data.LONG,
    0x56: Data.BOOL,
    0x70: Data.UINT,
    0x73: Data.CHAR,
    0x84: Data.DECIMAL64,
    0x98: Data.UUID,
    0xA1: Data.STRING,
    0xA3: Data.SYMBOL,
    0xB3: Data.SYMBOL,
    0xC0: Data.LIST,
    0xC1: Data.MAP,
    0xD0: Data.LIST,
    0xE0: Data.ARRAY,
}


def put(data: Data, value: Any) -> None:
    """Put a value of ours into proton's tree."""
    if isinstance(value, list | dict):
        data.put_list() if isinstance(value, list) else data.put_map()
        data.enter()
        for item in value if isinstance(value, list) else [part for pair in value.items() for part in pair]:
            put(data, item)
        data.exit()
    elif isinstance(value, Described):
        data.put_described()
        data.enter()
        put(data, value.descriptor)
        put(data, value.value)
        data.exit()
    elif isinstance(value, Array):
        data.put_array(bool(value.descriptors), _ARRAY_TYPES[value.code])
        data.enter()
        for item in (*value.descriptors, *value.values):
            put(data, item)
        data.exit()
    elif value is None:
        data.put_null()
    elif isinstance(value, Decimal32 | Decimal64):
        getattr(data, "put_" + _PUT[type(value)])(int.from_bytes(value, "big"))
    else:
        getattr(data, "put_" + _PUT[type(value)])(value)


def proton_reads(octets: bytes) -> bytes:
    """Let proton decode and encode again, in encodings of its own choice."""
    data = Data()
    assert data.decode(octets) == len(octets)
    return bytes(data.encode())


# proton has no arrays of doubly described values and wants a ulong or symbol as descriptor
_COMMON = [s for s in SAMPLES if s.name not in ("array8-twice-described", "descriptor-of-any-type")]
each_sample = pytest.mark.parametrize("sample", _COMMON, ids=lambda sample: f"{sample.section}-{sample.name}")


def comparable(value: Any) -> Any:
    """Forget which encoding of its type an array has: proton chooses its own."""
    widest = {0x52: 0x70, 0x53: 0x80, 0x54: 0x71, 0x55: 0x81, 0xA0: 0xB0, 0xA1: 0xB1, 0xA3: 0xB3}
    widest |= {0x45: 0xD0, 0xC0: 0xD0, 0xC1: 0xD1, 0xE0: 0xF0, 0x41: 0x56, 0x42: 0x56, 0x43: 0x70, 0x44: 0x80}
    if isinstance(value, Array):
        code = widest.get(value.code, value.code)
        return Array(code, [comparable(item) for item in value.values], value.descriptors)
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, Described):
        return Described(value.descriptor, comparable(value.value))
    return value


@each_sample
def test_proton_reads_what_we_read(sample: Sample) -> None:
    again = decode(proton_reads(sample.octets))[0]
    assert same(comparable(again), comparable(sample.value))


@each_sample
def test_we_read_what_proton_writes(sample: Sample) -> None:
    data = Data()
    put(data, sample.value)
    octets = bytes(data.encode())
    value, after = decode(octets)
    assert after == len(octets)
    assert same(comparable(value), comparable(sample.value))


_UNDESCRIBED: Any = proton.UNDESCRIBED
_SYMBOLS = proton.Array(_UNDESCRIBED, Data.SYMBOL, proton.symbol("a"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (UInt(5), proton.uint(5)),
        (ULong(5), proton.ulong(5)),
        (UByte(5), proton.ubyte(5)),
        (UShort(5), proton.ushort(5)),
        (Byte(-5), proton.byte(-5)),
        (Short(-5), proton.short(-5)),
        (Int(-5), proton.int32(-5)),
        (-5, -5),
        (Float32(0.5), proton.float32(0.5)),
        (0.1, 0.1),
        (Char("é"), proton.char("é")),
        (Timestamp(12345), proton.timestamp(12345)),
        (Symbol("s"), proton.symbol("s")),
        ("é", "é"),
        (b"b", memoryview(b"b")),
        (True, True),
        (None, None),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        ({"a": [UInt(1), {}]}, {"a": [proton.uint(1), {}]}),
        (Described(Symbol("d"), "v"), proton.Described(proton.symbol("d"), "v")),
        (Array(0xA3, [Symbol("a")]), _SYMBOLS),
    ],
)
def test_proton_sees_the_same_values(value: Any, expected: Any) -> None:
    data = Data()
    data.decode(encode(value))
    data.rewind()
    data.next()
    seen = data.get_object()
    assert seen == expected
    assert type(seen) is type(expected)


_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
_plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), _text, st.binary()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_text, inner, max_size=4)),
    max_leaves=12,
)


@relaxed
@given(_plain)
def test_any_body_reaches_proton_and_comes_back(body: Any) -> None:
    message = proton.Message()
    message.decode(encode_message(Message(body=body)))
    assert message.body == body
    assert same(decode_message(bytes(message.encode())).body, body)


def test_every_property_reaches_proton() -> None:
    theirs: Any = proton.Message()
    ours = Message(
        durable=True,
        priority=7,
        ttl=5000,
        first_acquirer=True,
        delivery_count=3,
        delivery_annotations={"d": 1},
        message_annotations={"m": "x"},
        message_id="id",
        user_id=b"user",
        to="to",
        subject="subject",
        reply_to="reply",
        correlation_id=ULong(9),
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=8000,
        creation_time=9000,
        group_id="group",
        group_sequence=4,
        reply_to_group_id="other",
        application_properties={"a": 1, "b": True, "c": "d"},
        body="body",
    )
    theirs.decode(encode_message(ours))
    assert (theirs.durable, theirs.priority, theirs.ttl, theirs.first_acquirer) == (True, 7, 5.0, True)
    assert theirs.delivery_count == 3
    assert theirs.instructions == {"d": 1}
    assert theirs.annotations == {"m": "x"}
    assert (theirs.id, theirs.user_id, theirs.address, theirs.subject) == ("id", b"user", "to", "subject")
    assert (theirs.reply_to, theirs.correlation_id) == ("reply", 9)
    assert (theirs.content_type, theirs.content_encoding) == ("text/plain", "gzip")
    assert (theirs.expiry_time, theirs.creation_time) == (8.0, 9.0)
    assert (theirs.group_id, theirs.group_sequence, theirs.reply_to_group_id) == ("group", 4, "other")
    assert theirs.properties == {"a": 1, "b": True, "c": "d"}
    assert theirs.body == "body"
    assert decode_message(bytes(theirs.encode())) == ours


@pytest.mark.parametrize(
    ("body", "kind"), [(b"data", "data"), ([1, "two", None], "sequence"), ("text", "value"), (b"data", "value")]
)
def test_kinds_of_body(body: Any, kind: Any) -> None:
    theirs = proton.Message(body=body, inferred=kind != "value")
    assert decode_message(bytes(theirs.encode())) == Message(body=body, body_kind=kind)
    theirs.decode(encode_message(Message(body=body, body_kind=kind)))
    assert theirs.body == body
