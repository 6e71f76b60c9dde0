"""Frames of one session overtake everything that waits for the transport, at a frame boundary."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, EMPTY, Seen, read_frames
from tests.kit.pump import Hub
from tests.kit.recorder import Recorder
from waymesh_amqp.connection import Connection
from waymesh_amqp.outgoing import send_first
from waymesh_amqp.settings import ConnectionSettings

URGENT, DATA = 1, 0


class Line:
    """A connection with a receiver of the peer's on a session for data and on an urgent one. Nothing is written yet."""

    def __init__(self) -> None:
        self.hub = Hub(Recorder())
        peer = self.hub.peer(ConnectionSettings("engine"))
        peer.open(max_frame_size=4096)
        for channel in (DATA, URGENT):
            peer.begin(channel)
            peer.send(frames.attach_receiver(f"link {channel}", channel=channel))
            peer.send(frames.credit(10_000, channel=channel))
        self.peer = peer
        self.conn: Connection = peer.conn
        self.conn.express = peer.session(URGENT).channel
        self.taken = b""

    def put(self, channel: int, size: int, fill: bytes = b"x") -> None:
        data = frames.message(fill * size)
        link = self.peer.session(channel).links[0]
        assert link.ready()
        send_first(link, True, False, data, 0, 0, b"", 0, len(data), 0)
        if channel == URGENT:
            self.conn.express_pending = True

    def take(self, count: int) -> None:
        """The transport takes so many bytes."""
        self.taken += bytes(self.conn.pending()[:count])
        self.conn.sent(count)

    def rest(self) -> list[Any]:
        """All frames that were written, from the first byte on."""
        self.conn.flush()
        self.take(len(self.conn.pending()))
        found, left = read_frames(self.taken)
        assert left == b""
        return found


def channels(found: list[Any]) -> list[int]:
    return [seen.channel for seen in found if isinstance(seen, Seen)]


@pytest.mark.parametrize("sent", [0, 1, 36, 500, 546, 547, 548, 1000])
def test_urgent_frames_overtake_at_the_next_border(sent: int) -> None:
    line = Line()
    for _ in range(4):
        line.put(DATA, 502)  # 547 octets
    line.take(sent)
    line.put(URGENT, 10)
    found = line.rest()
    began = -(-sent // 547)
    assert {seen.size for seen in found if seen.channel == DATA} == {547}
    assert channels(found) == [DATA] * began + [URGENT] + [DATA] * (4 - began)


def test_urgent_frames_keep_their_own_order() -> None:
    line = Line()
    line.put(DATA, 3000)
    line.put(DATA, 3000)
    line.take(10)
    for fill in (b"1", b"2"):
        line.put(URGENT, 10, fill)
        line.conn.flush()
    line.put(DATA, 20)
    line.put(URGENT, 9000, b"3")  # three frames
    found = line.rest()
    assert channels(found) == [DATA] + [URGENT] * 5 + [DATA] * 2
    assert [seen.payload[-1:] for seen in found[1:6]] == [b"1", b"2", b"3", b"3", b"3"]
    assert found[2].performative.delivery_id < found[3].performative.delivery_id


def test_credit_of_the_urgent_session_is_urgent() -> None:
    line = Line()
    line.put(DATA, 3000)
    line.put(DATA, 3000)
    line.take(10)
    line.peer.end.feed(frames.flow(channel=URGENT, echo=True))
    assert channels(line.rest()) == [DATA, URGENT, DATA]


def test_frames_of_no_session_stay_where_they_are() -> None:
    """Open, close and heartbeats are on channel 0, and so may be the urgent session."""
    line = Line()
    line.conn.express = line.peer.session(DATA).channel
    line.put(URGENT, 100)
    line.conn.put(EMPTY)
    line.put(DATA, 100)
    line.conn.express_pending = True
    line.conn.close()
    found = line.rest()
    assert [type(seen.performative).__name__ for seen in found] == ["Transfer", "Transfer", "NoneType", "Close"]
    assert [seen.channel for seen in found] == [0, 1, 0, 0]


def test_what_the_transport_was_offered_stays_in_front() -> None:
    """TLS has encrypted what it could not write yet, and must be given the same bytes again."""
    line = Line()
    for _ in range(4):
        line.put(DATA, 502)
    line.conn.offered(600)
    line.put(URGENT, 10)
    assert channels(line.rest()) == [DATA, DATA, URGENT, DATA, DATA]


def test_urgent_frames_go_out_when_the_connection_is_too_full_for_others() -> None:
    line = Line()
    while line.peer.session(DATA).links[0].ready():
        line.put(DATA, 3900)
    line.put(URGENT, 10)
    line.take(100)
    assert channels(line.rest())[:3] == [DATA, URGENT, DATA]


def test_a_buffer_that_moved_still_knows_its_borders() -> None:
    line = Line()
    for size in range(1, 400):
        line.put(DATA, size)
        line.take(min(20, len(line.conn.pending())))
    line.put(URGENT, 10)
    found = line.rest()
    assert sorted(seen.size for seen in found if seen.channel == DATA) == [45 + size for size in range(1, 400)]
    assert channels(found).count(URGENT) == 1
    assert channels(found)[-1] == DATA


def test_a_protocol_header_that_was_not_written_yet_is_no_frame() -> None:
    hub = Hub(Recorder())
    conn = hub.peer(ConnectionSettings("engine")).conn
    conn.express = 0
    conn.receive(memoryview(AMQP + frames.open_() + bytes(64)), len(AMQP + frames.open_()))
    conn.express_pending = True
    conn.flush()
    assert bytes(conn.pending()[:8]) == AMQP
