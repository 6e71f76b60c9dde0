"""AMQP bytes in the frames of a WebSocket. Without sockets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from waymesh_router.runtime.http.web_socket import MAX_IDLE_FRAMES, WebSocketStream

pytestmark = pytest.mark.engine_independent

FRAGMENTS = st.lists(st.tuples(st.binary(max_size=300), st.booleans(), st.sampled_from(["", "ping", "pong"])))
"""Bytes of a frame, whether it ends a message, and a control frame behind it."""


def client() -> Connection:
    return Connection(ConnectionType.CLIENT)


def written(fragments: list[tuple[bytes, bool, str]]) -> bytes:
    """The bytes that a client sends for these events."""
    sender = client()
    data = b""
    for content, last, control in fragments:
        data += sender.send(BytesMessage(data=content, message_finished=last))
        data += {"ping": sender.send(Ping(payload=b"p")), "pong": sender.send(Pong(payload=b""))}.get(control, b"")
    return data


@given(FRAGMENTS, st.data())
def test_where_frames_and_reads_end_makes_no_difference(
    fragments: list[tuple[bytes, bool, str]], data: st.DataObject
) -> None:
    sent = written(fragments)
    stream = WebSocketStream()
    received = b""
    while sent:
        size = data.draw(st.integers(1, max(1, len(sent))))
        part, sent = sent[:size], sent[size:]
        found = stream.receive(part)
        assert len(found) <= len(part)
        received += found
    assert received == b"".join(content for content, _, _ in fragments)
    assert not stream.over()


@given(st.binary(min_size=1))
def test_any_bytes_are_taken_or_end_the_stream(data: bytes) -> None:
    stream = WebSocketStream()
    assert len(stream.receive(data)) <= len(data)
    assert stream.refused == (stream.over() and stream.ended != "closed by the peer")
    assert bool(stream.answers) or not stream.over()


@given(st.lists(st.binary(min_size=1, max_size=70000), max_size=3))
def test_what_is_sent_arrives(parts: list[bytes]) -> None:
    stream, receiver = WebSocketStream(), client()
    for part in parts:
        receiver.receive_data(stream.frame(part))
    events = list(receiver.events())
    assert all(isinstance(event, BytesMessage) for event in events)
    assert b"".join(bytes(event.data) for event in events if isinstance(event, BytesMessage)) == b"".join(parts)


def answer_to(stream: WebSocketStream) -> object:
    """The only event in the answers."""
    receiver = client()
    receiver.receive_data(stream.answers)
    (event,) = receiver.events()
    return event


UNMASKED = b"\x82\x01a"
COMPRESSED = b"\xc2\x81\0\0\0\0a"
UNKNOWN = b"\x83\x80\0\0\0\0"
CONTINUATION = b"\x80\x81\0\0\0\0a"
LONG_PING = b"\x89\xfe\0\x7e\0\0\0\0" + bytes(126)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (client().send(TextMessage(data="AMQP")), CloseReason.UNSUPPORTED_DATA),
        (client().send(TextMessage(data="", message_finished=False)), CloseReason.UNSUPPORTED_DATA),
        (UNMASKED, CloseReason.PROTOCOL_ERROR),
        (COMPRESSED, CloseReason.PROTOCOL_ERROR),
        (UNKNOWN, CloseReason.PROTOCOL_ERROR),
        (CONTINUATION, CloseReason.PROTOCOL_ERROR),
        (LONG_PING, CloseReason.PROTOCOL_ERROR),
        (client().send(Pong()) * (MAX_IDLE_FRAMES + 1), CloseReason.POLICY_VIOLATION),
        (client().send(BytesMessage(data=b"")) * (MAX_IDLE_FRAMES + 1), CloseReason.POLICY_VIOLATION),
    ],
    ids=["text", "empty text", "unmasked", "compressed", "unknown", "continuation", "long ping", "pongs", "empty"],
)
def test_what_ends_the_stream(sent: bytes, code: CloseReason) -> None:
    stream = WebSocketStream()
    assert stream.receive(client().send(BytesMessage(data=b"AMQP")) + sent) == b"AMQP"
    assert stream.refused
    answer = answer_to(stream)
    assert isinstance(answer, CloseConnection)
    assert answer.code == code
    assert stream.close() == b""


def test_a_close_is_answered() -> None:
    stream = WebSocketStream()
    peer = client()
    assert stream.receive(peer.send(BytesMessage(data=b"a")) + peer.send(CloseConnection(code=4000))) == b"a"
    assert (stream.ended, stream.refused) == ("closed by the peer", False)
    answer = answer_to(stream)
    assert isinstance(answer, CloseConnection)
    assert answer.code == 4000


def test_the_last_ping_is_answered() -> None:
    stream = WebSocketStream()
    peer = client()
    stream.receive(b"".join(peer.send(Ping(payload=b"%d" % number)) for number in range(3)))
    answer = answer_to(stream)
    assert isinstance(answer, Pong)
    assert answer.payload == b"2"


def test_the_router_ends_the_stream_once() -> None:
    stream, peer = WebSocketStream(), client()
    peer.receive_data(stream.close())
    (event,) = peer.events()
    assert isinstance(event, CloseConnection)
    assert event.code == CloseReason.NORMAL_CLOSURE
    assert stream.close() == b""
    assert stream.receive(peer.send(event.response())) == b""
    assert stream.ended == "closed by the peer"
