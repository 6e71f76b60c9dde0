"""Outcomes of many sessions of one connection are written before the next frame, by those that have some."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from tests.kit.steps import steps
from waymesh_amqp.outcomes import ACCEPTED_STATE
from waymesh_amqp.performatives import Attach, Disposition, Flow

FEW, MANY = 4, 200


def receiving(sessions: int) -> Peer:
    """A peer with a sender in each of its sessions."""
    peer = Hub(Recorder()).peer().open()
    for channel in range(sessions):
        peer.begin(channel).send(frames.attach_sender(f"out{channel}", 0, channel=channel))
    return peer


def settle_all(peer: Peer) -> None:
    """An outcome and a flow of each session wait for the next flush."""
    for session in peer.conn.sessions.values():
        session.settle(0, ACCEPTED_STATE)
        session.window_soon()


def test_outcomes_of_all_sessions_go_before_the_next_frame() -> None:
    peer = receiving(FEW)
    settle_all(peer)
    seen = peer.send(frames.attach_sender("late", 1))
    kinds = [type(frame) for frame in seen]
    assert kinds[: FEW + 1] == [Disposition] * FEW + [Attach]
    assert kinds.count(Flow) >= FEW
    assert kinds.count(Disposition) == FEW
    settle_all(peer)
    assert [type(frame) for frame in peer.send()].count(Disposition) == FEW


def test_outcomes_that_are_held_back_go_with_the_flush_that_follows() -> None:
    peer = receiving(FEW)
    session = peer.session()
    session.keeps_outcomes = True
    session.settle(0, ACCEPTED_STATE)
    assert peer.send() == []
    session.send_outcomes()
    assert [type(frame) for frame in peer.send()] == [Disposition]


def later_frame(sessions: int) -> int:
    """Steps of a frame that is sent when the outcomes of all sessions are written, but not their flows."""
    peer = receiving(sessions)
    settle_all(peer)
    flow = Flow(next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100)
    peer.session().send_frame(flow)
    return steps(lambda: peer.session().send_frame(flow))


def test_later_frames_of_the_turn_do_not_look_at_each_session() -> None:
    assert later_frame(MANY) == later_frame(FEW)
