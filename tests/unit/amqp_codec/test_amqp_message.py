"""Messages of format 0. Spec: 3.2"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.amqp_codec.codec_samples import VALUES, relaxed, same
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.types import Described, Symbol, UInt, ULong, encode

pytestmark = pytest.mark.engine_independent

FULL = Message(
    durable=True,
    priority=9,
    ttl=1000,
    first_acquirer=True,
    delivery_count=2,
    delivery_annotations={"x-opt-d": 1},
    message_annotations={"x-opt-m": "a", ULong(5): None},
    message_id=ULong(1),
    user_id=b"user",
    to="to",
    subject="subject",
    reply_to="reply",
    correlation_id=uuid.UUID(int=5),
    content_type="text/plain",
    content_encoding="gzip",
    absolute_expiry_time=1_700_000_000_000,
    creation_time=1_600_000_000_000,
    group_id="group",
    group_sequence=4294967295,
    reply_to_group_id="other",
    application_properties={"a": True, "b": UInt(1), "c": None},
    body={"any": ["value"]},
    footer={"sum": b"1"},
)

MESSAGES = {
    "full": FULL,
    "empty": Message(),
    "string": Message(body="text"),
    "data": Message(body=b"data", body_kind="data"),
    "data-empty": Message(body=b"", body_kind="data"),
    "data-large": Message(body=b"x" * 100_000, body_kind="data"),
    "sequence": Message(body=[1, "a", None], body_kind="sequence"),
    "binary-as-value": Message(body=b"data"),
    "described": Message(body=Described(Symbol("example:x"), [1])),
    "header-only": Message(ttl=0),
    "ids": Message(message_id="a", correlation_id=b"b"),
}
each = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())


def test_the_full_sample_is_full() -> None:
    for field in dataclasses.fields(FULL):
        assert getattr(FULL, field.name) != field.default or field.name == "body_kind", field.name


@each
def test_round_trip(message: Message) -> None:
    octets = encode_message(message)
    assert decode_message(octets) == message
    assert decode_message(memoryview(octets)) == message


@each
def test_no_truncation_raises_anything_else(message: Message) -> None:
    octets = encode_message(message)
    for length in range(min(len(octets), 1000)):
        with contextlib.suppress(DecodeError):  # at the end of a section the rest is a message too
            decode_message(octets[:length])


def test_nothing_is_encoded_for_what_is_absent() -> None:
    assert encode_message(Message(body="a")).hex() == "005377a10161"


def test_a_plain_int_is_a_ulong_as_message_id() -> None:
    again = decode_message(encode_message(Message(message_id=7, correlation_id=8)))
    assert same([again.message_id, again.correlation_id], [ULong(7), ULong(8)])


def test_keys_of_annotations_become_symbols() -> None:
    again = decode_message(encode_message(FULL))
    assert again.message_annotations is not None
    assert [type(key) for key in again.message_annotations] == [Symbol, ULong]


def test_several_sections_are_one_body() -> None:
    """Spec: 3.2.6, 3.2.7"""
    data = b"\x00\x53\x75" + encode(b"a") + b"\x00\x53\x75" + encode(b"b")
    assert decode_message(data) == Message(body=b"ab", body_kind="data")
    sequences = b"\x00\x53\x76" + encode([1]) + b"\x00\x53\x76" + encode([]) + b"\x00\x53\x76" + encode(["x"])
    assert decode_message(sequences) == Message(body=[1, "x"], body_kind="sequence")


@pytest.mark.parametrize(
    ("symbol", "value", "expected"),
    [
        ("amqp:header:list", [True], Message(durable=True)),
        ("amqp:delivery-annotations:map", {}, Message(delivery_annotations={})),
        ("amqp:message-annotations:map", {}, Message(message_annotations={})),
        ("amqp:properties:list", [None, None, "to"], Message(to="to")),
        ("amqp:application-properties:map", {"a": 1}, Message(application_properties={"a": 1})),
        ("amqp:data:binary", b"x", Message(body=b"x", body_kind="data")),
        ("amqp:amqp-sequence:list", [1], Message(body=[1], body_kind="sequence")),
        ("amqp:amqp-value:*", 1, Message(body=1)),
        ("amqp:footer:map", {}, Message(footer={})),
    ],
)
def test_symbolic_descriptors(symbol: str, value: Any, expected: Message) -> None:
    assert decode_message(encode(Described(Symbol(symbol), value))) == expected


def _section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


WRONG = {
    "3.2-order": (_section(0x73, []) + _section(0x70, []), "section header after properties"),
    "3.2-twice": (_section(0x70, []) * 2, "section header after header"),
    "3.2-value-twice": (_section(0x77, 1) * 2, "section value after value"),
    "3.2-body-behind-footer": (_section(0x78, {}) + _section(0x77, 1), "section value after footer"),
    "3.2-mixed-body": (_section(0x75, b"") + _section(0x77, 1), "body of both data and value"),
    "3.2-mixed-body-back": (_section(0x76, []) + _section(0x75, b""), "section data after sequence"),
    "3.2-unknown-section": (_section(0x79, 1), "unknown section"),
    "3.2-unknown-symbol": (encode(Described(Symbol("a"), 1)), "unknown section"),
    "3.2-not-described": (encode("text"), "not a described value"),
    "3.2.1-header-map": (_section(0x70, {}), "header: not a list"),
    "3.2.1-header-type": (_section(0x70, [1]), "header: field durable: expected boolean"),
    "3.2.1-header-long": (_section(0x70, [None] * 6), "header: 6 fields"),
    "3.2.2-annotations-list": (_section(0x71, []), "section delivery_annotations is not a map"),
    "3.2.4-to-symbol": (_section(0x73, [None, None, Symbol("a")]), "properties: field to: expected string"),
    "3.2.4-id-int": (_section(0x73, [1]), "properties: field message-id: expected message id"),
    "3.2.6-data-string": (_section(0x75, "x"), "section data is not of type bytes"),
    "3.2.7-sequence-map": (_section(0x76, {}), "section sequence is not of type list"),
}


@pytest.mark.parametrize(("octets", "reason"), WRONG.values(), ids=WRONG.keys())
def test_wrong_messages(octets: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_message(octets)


@relaxed
@given(VALUES, st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES, max_size=3))
def test_any_value_is_a_body(value: Any, properties: dict[str, Any]) -> None:
    octets = encode_message(Message(body=value, application_properties=properties))
    again = decode_message(octets)
    assert same([again.body, again.application_properties], [value, properties])


@relaxed
@given(st.binary(max_size=60))
def test_random_bytes(octets: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode_message(octets)
