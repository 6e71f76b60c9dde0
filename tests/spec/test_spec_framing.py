"""Protocol headers, frames, and the limits on both. Spec: 2.2, 2.3, 2.8.19"""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, EMPTY, SASL, TLS, raw_frame
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.performatives import Begin, Close, Open, encode_performative
from waymesh_amqp.settings import ConnectionSettings

FRAMING = "amqp:connection:framing-error"


def closing(peer: Peer) -> str:
    """The condition of the close that the engine wrote last."""
    last = peer.take()[-1]
    assert isinstance(last, Close)
    assert last.error is not None
    return last.error.condition


def test_2_2_header_is_answered_with_the_same(fresh: Peer) -> None:
    assert fresh.send(AMQP) == [AMQP]
    assert not fresh.conn.done


def test_2_2_header_and_open_may_be_pipelined(fresh: Peer) -> None:
    answers = fresh.send(AMQP + frames.open_() + frames.begin())
    assert [type(a) for a in answers] == [bytes, Open, Begin]


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x00", b"AMQP\x00\x02\x00\x00", b"AMQP\x00\x01\x00\x01", TLS, SASL],
    ids=["0-9-1", "id 1", "2.0.0", "1.0.1", "tls", "sasl not offered"],
)
def test_2_2_other_version_is_answered_with_ours_and_the_transport_closed(fresh: Peer, header: bytes) -> None:
    assert fresh.send(header) == [AMQP]
    assert fresh.conn.done


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"AMQX", b"\x00" * 8])
def test_2_2_what_is_no_amqp_is_turned_away_at_the_first_octets(fresh: Peer, start: bytes) -> None:
    assert fresh.send(start) == [AMQP]
    assert fresh.conn.done


def test_2_2_client_closes_when_the_server_answers_another_version(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("c", client=True))
    peer.send(b"AMQP\x00\x00\x09\x01")
    assert peer.conn.done
    assert peer.conn.error.condition == "amqp:not-allowed"
    assert peer.handler.named("close") == [("amqp:not-allowed",)]


def test_2_3_1_extended_header_is_skipped(opened: Peer) -> None:
    body = encode_performative(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    (answer,) = opened.send(raw_frame(body, doff=11, extended=b"\x00\x53\x18\x45 what is here is ignored"))
    assert isinstance(answer, Begin)


def test_2_3_1_data_offset_of_hot_frames_is_honoured(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    body = frames.transfer(0, b"payload")[8:]
    mapped.send(raw_frame(body, doff=3, extended=b"\x00\x53\x14\xc0"))
    assert mapped.handler.named("transfer") == [(0, True, False, False, b"payload")]


def test_2_3_1_data_offset_255_with_nothing_behind(opened: Peer) -> None:
    assert opened.send(raw_frame(b"", doff=255)) == []
    assert not opened.conn.done


@pytest.mark.parametrize(
    "header",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x10\x01\x00\x00\x00" + b"\x00" * 8,
        b"\x00\x00\x00\x10\x00\x00\x00\x00" + b"\x00" * 8,
        b"\x00\x00\x00\x0c\x04\x00\x00\x00" + b"\x00" * 4,
        b"\x00\x00\x00\x08\xff\x00\x00\x00",
        b"\xff\xff\xff\xff\x02\x00\x00\x00",
    ],
    ids=["size 7", "size 0", "doff 1", "doff 0", "doff behind the end", "doff 255 of 8", "size 4 GiB"],
)
def test_2_3_1_impossible_frame_header_is_a_framing_error(opened: Peer, header: bytes) -> None:
    opened.end.feed(header)
    assert closing(opened) == FRAMING
    assert opened.conn.done


def test_2_3_1_unknown_frame_type_is_a_framing_error(opened: Peer) -> None:
    opened.end.feed(raw_frame(b"", kind=2))
    assert closing(opened) == FRAMING


def test_2_3_2_sasl_frame_on_an_open_connection_is_a_framing_error(opened: Peer) -> None:
    opened.end.feed(raw_frame(b"\x00\x53\x44\xc0\x03\x01\x50\x00", kind=1))
    assert closing(opened) == FRAMING


def test_2_3_empty_frames_change_nothing(mapped: Peer) -> None:
    assert mapped.send(EMPTY * 3) == []
    assert not mapped.conn.done


def test_2_3_empty_frame_on_any_channel(opened: Peer) -> None:
    assert opened.send(raw_frame(b"", channel=77)) == []
    assert not opened.conn.done


def test_2_7_1_frame_of_exactly_our_max_frame_size(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", max_frame_size=600)).open().begin()
    peer.send(frames.attach_sender())
    header = len(frames.transfer(0, b""))
    peer.send(frames.transfer(0, b"x" * (600 - header)))
    assert len(peer.handler.named("transfer")) == 1
    assert not peer.conn.done


def test_2_7_1_frame_over_our_max_frame_size_is_a_framing_error(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", max_frame_size=600)).open().begin()
    peer.send(frames.attach_sender())
    header = len(frames.transfer(0, b""))
    peer.end.feed(frames.transfer(0, b"x" * (601 - header)))
    assert closing(peer) == FRAMING
    assert peer.handler.named("transfer") == []


def test_2_7_1_oversized_frame_is_refused_before_it_has_arrived(opened: Peer) -> None:
    opened.end.feed((1 << 30).to_bytes(4, "big") + b"\x02\x00\x00\x00")
    assert closing(opened) == FRAMING


def forwarded(core: Hub, max_frame_size: int | None, size: int) -> list[frames.Seen]:
    """The transfers that a receiver with this max-frame-size gets of one message."""
    consumer = core.peer().open(max_frame_size=max_frame_size).begin()
    consumer.send(frames.attach_receiver(), frames.credit(5))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    producer.send(frames.transfer(0, frames.message(bytes(i & 255 for i in range(size)))))
    seen = [f for f in consumer.frames() if isinstance(f, frames.Seen)]
    assert b"".join(f.payload for f in seen) == frames.message(bytes(i & 255 for i in range(size)))
    return seen


@pytest.mark.parametrize("size", [0, 1, 450, 467, 468, 469, 900, 5000])
def test_2_7_1_no_frame_is_longer_than_the_peers_max_frame_size(core: Hub, size: int) -> None:
    seen = forwarded(core, 512, size)
    assert max(f.size for f in seen) <= 512
    assert [f.performative.more for f in seen] == [True] * (len(seen) - 1) + [False]  # type: ignore[union-attr]


def test_2_7_1_absent_max_frame_size_is_no_limit(core: Hub) -> None:
    assert len(forwarded(core, None, 15000)) == 1


def test_2_8_19_smaller_max_frame_size_counts_as_512(core: Hub) -> None:
    assert max(f.size for f in forwarded(core, 100, 5000)) == 512


def test_2_3_undecodable_performative_is_a_decode_error(opened: Peer) -> None:
    opened.end.feed(raw_frame(b"\x00\x53\x11\xc0\xff\x04\x40"))
    assert closing(opened) == "amqp:decode-error"


@pytest.mark.parametrize(
    "body", [b"\x00\x53\x99\x45", b"\x45", b"\x00", b"\x00\xa3\x01x\x45", b"\x00\x80" + b"\xff" * 8]
)
def test_2_3_unknown_performative_is_a_decode_error(opened: Peer, body: bytes) -> None:
    opened.end.feed(raw_frame(body))
    assert closing(opened) == "amqp:decode-error"


def test_bytes_behind_an_incomplete_frame_are_kept_by_the_transport(fresh: Peer) -> None:
    whole = AMQP + frames.open_()
    used = fresh.conn.receive(memoryview(whole), len(whole) - 1)
    assert used == 8
