"""Frames and messages as log lines."""

from __future__ import annotations

import pytest

from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import (
    Flow,
    SaslInit,
    SaslResponse,
    Transfer,
    decode_performative,
    encode_frame,
    encode_performative,
)
from waymesh_amqp.types import Timestamp
from waymesh_router.runtime.log.frame_stream import HEAD_BYTES, FrameStream
from waymesh_router.runtime.log.frame_text import header_text, message_text, performative_text, value_text
from waymesh_schema.components import MESSAGE_COMPONENTS, parse_components
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

HEADER = b"AMQP\x00\x01\x00\x00"
EMPTY = bytes((0, 0, 0, 8, 2, 0, 0, 0))
ALL = frozenset(MESSAGE_COMPONENTS)


@pytest.mark.parametrize("step", [1, 3, 8, 4096, 1 << 20])
def test_bytes_are_split_into_headers_and_frames_whatever_comes_at_once(step: int) -> None:
    frames = [
        HEADER,
        EMPTY,
        encode_frame(1, Transfer(handle=0, delivery_id=1, delivery_tag=b"1"), bytes(10_000)),
        encode_frame(0, Transfer(handle=0, delivery_id=2, delivery_tag=b"2"), b"x"),
        EMPTY,
    ]
    seen: list[tuple[bytes, int]] = []
    stream = FrameStream(lambda head, size: seen.append((head, size)))
    data = b"".join(frames)
    for start in range(0, len(data), step):
        stream.feed(memoryview(data)[start : start + step])
    assert seen == [(frame[:HEAD_BYTES], len(frame)) for frame in frames]


def test_nothing_is_reported_behind_bytes_that_are_no_frame() -> None:
    seen: list[bytes] = []
    stream = FrameStream(lambda head, size: seen.append(head))
    stream.feed(EMPTY + bytes(8) + EMPTY)
    stream.feed(EMPTY)
    assert stream.lost
    assert seen == [EMPTY]


def test_fields_that_are_set_are_written() -> None:
    flow = Flow(incoming_window=10, next_outgoing_id=1, outgoing_window=2, handle=3, link_credit=250)
    text = performative_text(flow, 0x13)
    assert text.startswith("@flow(19) [")
    assert "handle=3" in text
    assert "link-credit=250" in text
    assert "delivery-count" not in text
    assert header_text(b"AMQP\x03\x01\x00\x00") == "SASL 1.0.0"


@pytest.mark.parametrize(
    "frame", [SaslInit("PLAIN", b"\0user\0secret", "host"), SaslResponse(b"\0user\0secret")], ids=["init", "response"]
)
def test_passwords_are_not_written(frame: SaslInit | SaslResponse) -> None:
    performative, _ = decode_performative(encode_performative(frame), 0, len(encode_performative(frame)))
    text = performative_text(performative, 0x41)
    assert "secret" not in text
    assert "user" not in text
    assert "response=(12 bytes)" in text


def test_long_values_are_cut() -> None:
    assert value_text("x" * 1000) == '"' + "x" * 256 + '"…'
    assert value_text(bytes(range(3))) == 'b"\x00\x01\x02"'  # the log escapes what cannot be printed


def test_the_chosen_parts_of_a_message_are_written() -> None:
    data = encode_message(
        Message(message_id="m1", to="orders", subject="s", application_properties={"a": 1}, body="secret")
    )
    assert message_text(data, 0, ALL) == 'Message{message-id="m1", to="orders", subject="s", app-properties={"a"=1}}'
    assert message_text(data, 0, parse_components("to, subject")) == 'Message{to="orders", subject="s"}'
    assert message_text(b"", 0, ALL) == "Message{}"


@pytest.mark.parametrize("end", range(60))
def test_a_message_that_is_cut_off_anywhere_is_written_as_far_as_it_goes(end: int) -> None:
    data = encode_message(Message(message_id="m1", to="orders", application_properties={"a": 1}, body="x"))[:end]
    assert message_text(data, 0, ALL).startswith("Message{")


@pytest.mark.parametrize(("text", "parts"), [("none", 0), ("", 0), ("ALL", 14), ("to,message-id", 2)])
def test_the_parts_that_an_expression_names(text: str, parts: int) -> None:
    assert len(parse_components(text)) == parts


@pytest.mark.parametrize("kind", ["listener", "connector"])
def test_an_unknown_part_is_refused(kind: str) -> None:
    with pytest.raises(SchemaError, match="'body' is not a part"):
        validate_create(entity_type(kind), {"port": "5672", "messageLoggingComponents": "to,body"})


def test_compat_35_times_are_dates() -> None:
    """Those that no calendar has are numbers."""
    data = encode_message(Message(creation_time=Timestamp(1487758997883)))
    assert message_text(data, 0, ALL) == 'Message{creation-time="2017-02-22 10:23:17.883"}'
    data = encode_message(Message(creation_time=Timestamp(2**62)))
    assert message_text(data, 0, ALL) == f"Message{{creation-time={2**62}}}"
