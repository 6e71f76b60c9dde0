"""Messages between an edge router and its interior router."""

from __future__ import annotations

import pytest

from waymesh_amqp.codec_values import Int, Symbol, UInt
from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.edge import messages as m

pytestmark = pytest.mark.engine_independent

REQUEST = m.LookupRequest("amqp:/_edge/E/temp.1", "client-0123", "queue.a", True)


def test_address_tracking_is_a_list_of_key_and_boolean_with_the_routers_annotations() -> None:
    encoded = m.encode_tracking("M0orders", True, "R1")
    decoded = decode_message(encoded)
    assert decoded.body == ["M0orders", True]
    assert decoded.message_annotations == {"x-opt-qd.ingress": "0/R1", "x-opt-qd.trace": ["0/R1"]}
    assert m.decode_tracking(encoded) == ("M0orders", True)
    assert m.decode_tracking(m.encode_tracking("MFa", False, None)) == ("MFa", False)
    assert decode_message(m.encode_tracking("MFa", False, None)).message_annotations is None


def test_a_lookup_and_its_reply_arrive_as_they_were_sent() -> None:
    encoded = m.encode_lookup(REQUEST, "E")
    assert m.decode_lookup(encoded) == REQUEST
    assert decode_message(encoded).application_properties == {"version": 1, "opcode": 1}
    for reply in (
        m.LookupReply("client-0123", m.OK, True, True),
        m.LookupReply("client-0123", m.OK, True, False),
        m.LookupReply("client-0123", m.NOT_FOUND, False, False),
    ):
        encoded = m.encode_lookup_reply(REQUEST.reply_to, reply, "R1")
        assert decode_message(encoded).to == REQUEST.reply_to
        assert m.decode_lookup_reply(encoded) == reply


def test_a_reply_with_an_error_finds_nothing() -> None:
    encoded = m.encode_lookup_reply("x", m.LookupReply("c", m.INVALID, True, True), None)
    assert m.decode_lookup_reply(encoded) == m.LookupReply("c", m.INVALID, False, False)


def test_heartbeats_are_numbered_from_zero_and_wrap_around() -> None:
    for number, sent in ((0, 0), (17, 17), (0x80000001, 1)):
        assert m.decode_heartbeat(m.encode_heartbeat(number, "E")) == sent
    assert type(decode_message(m.encode_heartbeat(3, "E")).body) is Int


@pytest.mark.parametrize(
    "message",
    [
        Message(body=None),
        Message(body=["M0a"]),
        Message(body=["M0a", 1]),
        Message(body=[Symbol("M0a"), True]),
        Message(body=[1, True]),
    ],
)
def test_bad_tracking_is_refused(message: Message) -> None:
    with pytest.raises(DecodeError):
        m.decode_tracking(encode_message(message))


@pytest.mark.parametrize(
    "change",
    [
        {"reply_to": None},
        {"correlation_id": None},
        {"correlation_id": 7},
        {"body": ["a"]},
        {"body": ["a", None]},
        {"application_properties": None},
        {"application_properties": {"version": UInt(2), "opcode": UInt(1)}},
        {"application_properties": {"version": UInt(1), "opcode": UInt(2)}},
        {"application_properties": {"version": True, "opcode": UInt(1)}},
    ],
)
def test_bad_lookups_are_refused(change: dict[str, object]) -> None:
    message = decode_message(m.encode_lookup(REQUEST, None))
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(DecodeError):
        m.decode_lookup(encode_message(message))


@pytest.mark.parametrize("change", [{"body": [True]}, {"correlation_id": None}, {"application_properties": {}}])
def test_bad_lookup_replies_are_refused(change: dict[str, object]) -> None:
    reply = m.LookupReply("c", m.OK, True, True)
    message = decode_message(m.encode_lookup_reply("x", reply, None))
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(DecodeError):
        m.decode_lookup_reply(encode_message(message))


@pytest.mark.parametrize("body", [None, True, "1"])
def test_bad_heartbeats_are_refused(body: object) -> None:
    with pytest.raises(DecodeError):
        m.decode_heartbeat(encode_message(Message(body=body)))
