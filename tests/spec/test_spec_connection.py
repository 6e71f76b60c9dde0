"""Opening, closing, idle time-out and channels of connections. Spec: 2.4, 2.7.1, 2.7.9"""

from __future__ import annotations

import math

import pytest

from tests.kit import frames
from tests.kit.frames import AMQP, EMPTY, raw_frame
from tests.kit.pump import Hub, Peer, couple
from tests.kit.recorder import Recorder
from waymesh_amqp.performatives import Begin, Close, End, ErrorInfo, Open
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import CLOSE_SENT, MAPPED, OC_PIPE, OPEN_PIPE, OPEN_SENT, OPENED


def refused(answers: list[object]) -> str:
    """The condition with which the engine closed."""
    close = answers[-1]
    assert isinstance(close, Close)
    return close.error.condition if close.error is not None else ""


def client(chunk: int, **over: object) -> Peer:
    """A raw server of a client connection."""
    return Hub(Recorder(), chunk).peer(ConnectionSettings("c", client=True, **over))  # type: ignore[arg-type]


def test_2_4_1_open_is_answered_with_our_open(fresh: Peer) -> None:
    header, answer = fresh.send(AMQP, frames.open_(container_id="abc"))
    assert header == AMQP
    assert isinstance(answer, Open)
    assert answer.container_id == "engine"
    assert fresh.conn.remote.container_id == "abc"
    assert fresh.conn.state == OPENED


def test_2_4_1_client_pipelines_header_and_open(chunk: int) -> None:
    peer = client(chunk)
    assert [type(a) for a in peer.take()] == [bytes, Open]
    assert peer.conn.state == OPEN_PIPE
    peer.send(AMQP)
    assert peer.conn.state == OPEN_SENT
    peer.send(frames.open_())
    assert peer.conn.state == OPENED


def test_2_4_1_frames_before_the_peers_open_are_an_error(chunk: int) -> None:
    peer = client(chunk)
    assert refused(peer.send(AMQP, frames.begin())) == "amqp:illegal-state"


@pytest.mark.parametrize(
    "early", [frames.begin(), frames.flow(), frames.transfer(), frames.attach_sender(), frames.close()]
)
def test_2_4_1_first_frame_must_be_open(fresh: Peer, early: bytes) -> None:
    answers = fresh.send(AMQP, early)
    assert [type(a) for a in answers] == [bytes, Open, Close]
    assert refused(answers) in ("amqp:illegal-state", "amqp:not-allowed")
    assert fresh.conn.done


def test_2_4_1_second_open_is_an_error(opened: Peer) -> None:
    assert refused(opened.send(frames.open_())) == "amqp:illegal-state"


def test_2_4_1_open_without_container_id_is_an_error(fresh: Peer) -> None:
    assert refused(fresh.send(AMQP, frames.raw_frame(b"\x00\x53\x10\x45"))) == "amqp:decode-error"


def test_2_4_3_close_is_answered_with_close(opened: Peer) -> None:
    assert opened.send(frames.close()) == [Close()]
    assert opened.conn.done
    assert opened.handler.named("close") == [("",)]


def test_2_4_3_close_with_an_error_is_kept(opened: Peer) -> None:
    opened.send(frames.close(error=ErrorInfo("amqp:connection:forced", "bye")))
    assert opened.conn.error.condition == "amqp:connection:forced"
    assert opened.handler.named("close") == [("amqp:connection:forced",)]


def test_2_4_3_frames_after_the_peers_close_are_not_read(opened: Peer) -> None:
    assert opened.send(frames.close() + frames.begin() + frames.close()) == [Close()]
    assert opened.handler.named("close") == [("",)]


def test_2_4_3_open_begin_close_pipelined(fresh: Peer) -> None:
    answers = fresh.send(AMQP + frames.open_() + frames.begin() + frames.close())
    assert [type(a) for a in answers] == [bytes, Open, Begin, Close]
    assert fresh.conn.done


def test_2_4_3_after_our_close_only_a_close_is_listened_to(mapped: Peer) -> None:
    mapped.conn.close()
    assert mapped.take() == [Close()]
    junk = (
        frames.begin(5) + frames.attach_sender() + frames.transfer(9) + frames.flow(3) + frames.disposition(channel=8)
    )
    assert mapped.send(junk + frames.end() + EMPTY) == []
    assert not mapped.conn.done
    assert mapped.send(frames.close()) == []
    assert mapped.conn.done


def test_2_4_3_close_without_answer_times_out(opened: Peer) -> None:
    opened.conn.close()
    opened.hub.tick(opened.conn.settings.idle_timeout_s + opened.conn.settings.close_timeout_s + 1)
    assert opened.conn.done


def test_2_4_6_error_after_our_error_is_not_answered(opened: Peer) -> None:
    assert refused(opened.send(frames.transfer(channel=9))) == "amqp:not-allowed"
    opened.conn.receive(memoryview(frames.begin() + b"\xff" * 20), len(frames.begin()) + 20)
    assert opened.take() == []
    assert opened.handler.named("close") == [("amqp:not-allowed",)]


def test_2_4_6_pipelined_close_of_a_client_waits_for_the_servers_open(chunk: int) -> None:
    peer = client(chunk)
    peer.conn.close()
    assert [type(a) for a in peer.take()] == [bytes, Open, Close]
    assert peer.conn.state == OC_PIPE
    peer.send(AMQP)
    assert peer.conn.state == CLOSE_SENT
    peer.send(frames.open_())
    assert not peer.conn.done
    peer.send(frames.close())
    assert peer.conn.done


def test_close_of_a_connection_that_never_spoke_just_ends(fresh: Peer) -> None:
    fresh.conn.close()
    assert fresh.take() == []
    assert fresh.conn.done


def test_transport_loss_ends_sessions_and_links_once(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a", 0), frames.attach_receiver("b", 1))
    mapped.kill()
    mapped.conn.eof("again")
    assert [e for e in mapped.handler.events if e[0] in ("detach", "close")] == [
        ("detach", "a", "amqp:connection:forced"),
        ("detach", "b", "amqp:connection:forced"),
        ("close", "amqp:connection:forced"),
    ]


# ---- idle time-out. Spec: 2.4.5
def test_2_4_5_we_advertise_half_of_what_we_enforce(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", idle_timeout_s=8))
    _, answer = peer.send(AMQP, frames.open_())
    assert answer.idle_time_out == 4000


def test_2_4_5_no_idle_timeout_is_advertised_as_none(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", idle_timeout_s=0))
    _, answer = peer.send(AMQP, frames.open_())
    assert answer.idle_time_out is None
    assert peer.conn.tick(1e9) == math.inf
    assert not peer.conn.done


def test_2_4_5_silent_peer_is_closed(opened: Peer) -> None:
    idle = opened.conn.settings.idle_timeout_s
    opened.hub.tick(0)
    opened.hub.tick(idle - 0.01)
    assert opened.take() == []
    opened.hub.tick(0.02)
    assert refused(opened.take()) == "amqp:resource-limit-exceeded"
    assert opened.conn.done


def test_2_4_5_whole_frames_keep_the_connection_up(opened: Peer) -> None:
    idle = opened.conn.settings.idle_timeout_s
    for _ in range(5):
        opened.hub.tick(idle - 0.1)
        opened.end.feed(EMPTY)
    opened.hub.tick(0.2)
    assert not opened.conn.done


def test_2_4_5_single_octets_of_a_frame_do_not(opened: Peer) -> None:
    idle = opened.conn.settings.idle_timeout_s
    opened.hub.tick(0)
    for octet in raw_frame(bytes(1000))[:20]:
        opened.hub.tick(idle / 10)
        opened.end.feed(bytes((octet,)))
    assert refused(opened.take()) == "amqp:resource-limit-exceeded"
    assert opened.conn.done


def test_2_4_5_large_frame_may_take_longer_than_the_time_out_while_it_comes_on() -> None:
    peer = Hub(Recorder(), 1000).peer(ConnectionSettings("e", max_frame_size=1 << 20)).open()
    idle = peer.conn.settings.idle_timeout_s
    slow = raw_frame(b"\x00" * 100_000)[:80_000]
    peer.hub.tick(0)
    for at in range(0, len(slow), 20_000):
        peer.hub.tick(idle * 0.9)
        peer.end.feed(slow[at : at + 20_000])
    peer.hub.tick(idle * 0.9)
    assert peer.take() == []
    peer.hub.tick(idle)
    assert refused(peer.take()) == "amqp:resource-limit-exceeded"


def test_2_4_5_heartbeats_at_half_of_the_peers_timeout(fresh: Peer) -> None:
    fresh.open(idle_time_out=4000)
    fresh.hub.tick(0)
    due = fresh.conn.tick(fresh.hub.now)
    assert due <= fresh.hub.now + 2.0
    fresh.hub.tick(1.9)
    assert fresh.take() == []
    fresh.hub.tick(0.1)
    assert fresh.take() == [None]


def test_2_4_5_no_heartbeat_where_something_else_was_sent(fresh: Peer) -> None:
    fresh.open(idle_time_out=4000).hub.tick(1.5)
    fresh.begin()
    fresh.hub.tick(1.5)
    assert fresh.take() == []
    fresh.hub.tick(2.0)
    assert fresh.take() == [None]


def test_2_4_5_zero_and_absent_timeout_ask_for_no_heartbeats(fresh: Peer) -> None:
    fresh.open(idle_time_out=0)
    for _ in range(4):
        fresh.hub.tick(10)
        fresh.end.feed(EMPTY)
    assert fresh.take() == []


def test_2_4_5_absurdly_short_timeout_does_not_spin(fresh: Peer) -> None:
    fresh.open(idle_time_out=1)
    assert fresh.conn.tick(fresh.hub.now) > fresh.hub.now


def test_peer_that_never_opens_is_dropped(fresh: Peer) -> None:
    fresh.send(AMQP)
    fresh.hub.tick(fresh.conn.settings.handshake_timeout_s + 0.1)
    assert fresh.conn.done
    assert fresh.take() == []


# ---- channels. Spec: 2.7.1 channel-max
def test_2_7_1_begin_on_channel_max_is_allowed(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", channel_max=3)).open()
    peer.begin(3)


def test_2_7_1_begin_over_our_channel_max_is_a_framing_error(chunk: int) -> None:
    peer = Hub(Recorder(), chunk).peer(ConnectionSettings("e", channel_max=3)).open()
    assert refused(peer.send(frames.begin(4))) == "amqp:connection:framing-error"


def test_2_7_1_we_use_no_channel_over_the_peers_channel_max(chunk: int) -> None:
    peer = client(chunk)
    peer.send(AMQP, frames.open_(channel_max=1))
    peer.conn.open_session()
    peer.conn.open_session()
    with pytest.raises(Exception, match="channel-max 1"):
        peer.conn.open_session()


def test_frames_on_a_channel_without_a_session_are_an_error(opened: Peer) -> None:
    for number, data in enumerate(
        [
            frames.flow(5),
            frames.transfer(channel=5),
            frames.disposition(channel=5),
            frames.detach(channel=5),
            frames.end(5),
        ]
    ):
        peer = Hub(Recorder(), opened.hub.chunk).peer().open()
        assert refused(peer.send(data)) == "amqp:not-allowed", number


def test_channels_of_the_two_directions_are_independent(opened: Peer) -> None:
    answers = opened.send(frames.begin(7), frames.begin(2))
    assert [a.remote_channel for a in answers] == [7, 2]
    (seen,) = opened.exchange(frames.end(2))
    assert isinstance(seen, frames.Seen)
    assert isinstance(seen.performative, End)
    assert seen.channel == 1


def test_two_engines_open_begin_and_close(chunk: int) -> None:
    hub = Hub(Recorder(), chunk)
    server = hub.peer().end
    caller = hub.peer(ConnectionSettings("c", client=True)).end
    couple(server, caller)
    hub.turn()
    assert (server.conn.state, caller.conn.state) == (OPENED, OPENED)
    session = caller.conn.open_session()
    hub.turn()
    assert session.state == MAPPED
    caller.conn.close("amqp:connection:forced", "enough")
    hub.turn()
    assert server.conn.done
    assert caller.conn.done
    assert server.conn.error is not None
    assert server.conn.error.condition == "amqp:connection:forced"
