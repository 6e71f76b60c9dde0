"""Begin, end, and session windows with serial numbers that wrap. Spec: 2.5, 2.7.2, 2.7.8"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.performatives import Begin, Close, End, ErrorInfo, Flow, Transfer
from waymesh_amqp.settings import ConnectionSettings
from waymesh_amqp.states import MAPPED

WRAP = 1 << 32


def condition(answers: list[Any]) -> str:
    assert answers, "no answer"
    error = answers[-1].error
    return error.condition if error is not None else ""


def small(chunk: int, window: int = 4, grant: int = 100) -> Peer:
    """A session with a small incoming window at the engine, and a link with credit."""
    return Hub(Recorder(grant=grant), chunk).peer(ConnectionSettings("e", window=window)).open()


def consume(core: Hub, *, credit: int, **over: Any) -> Peer:
    """A consumer of `q` behind a session of these fields."""
    peer = core.peer().open().begin(**over)
    peer.send(frames.attach_receiver())
    peer.send(frames.credit(credit, next_incoming_id=0, incoming_window=over.get("incoming_window", 1000)))
    return peer


def produce(core: Hub, count: int, first: int = 0, payload: bytes | None = None) -> Peer:
    """A producer for `q` that has sent so many pre-settled messages."""
    peer = core.peer().open().begin()
    peer.send(frames.attach_sender())
    for i in range(first, first + count):
        peer.send(frames.transfer(i, payload, settled=True))
    return peer


def transfers(peer: Peer) -> list[Transfer]:
    return [p for p in peer.take() if isinstance(p, Transfer)]


def test_2_5_1_begin_is_answered_with_the_remote_channel(opened: Peer) -> None:
    (answer,) = opened.send(frames.begin(9))
    assert isinstance(answer, Begin)
    assert answer.remote_channel == 9
    assert opened.handler.named("begin") == [(0,)]


def test_2_5_1_begin_on_a_channel_in_use_is_an_error(mapped: Peer) -> None:
    assert condition(mapped.send(frames.begin(0))) == "amqp:illegal-state"
    assert mapped.conn.done


def test_2_5_1_answer_to_a_session_that_we_did_not_begin_is_an_error(opened: Peer) -> None:
    assert condition(opened.send(frames.begin(0, remote_channel=5))) == "amqp:illegal-state"


def test_2_5_1_our_session_is_mapped_by_the_answer(opened: Peer) -> None:
    session = opened.conn.open_session()
    (ours,) = opened.take()
    assert ours.remote_channel is None
    opened.send(frames.begin(4, remote_channel=0, handle_max=3))
    assert session.state == MAPPED
    assert session.remote_channel == 4
    assert session.remote_handle_max == 3


def test_2_5_1_second_answer_to_our_begin_is_an_error(opened: Peer) -> None:
    opened.conn.open_session()
    opened.send(frames.begin(4, remote_channel=0))
    assert condition(opened.send(frames.begin(5, remote_channel=0))) == "amqp:illegal-state"


def test_2_5_1_both_sides_begin_on_the_same_channel_number(opened: Peer) -> None:
    session = opened.conn.open_session()
    opened.send(frames.begin(0))
    assert session.state != MAPPED
    opened.send(frames.begin(1, remote_channel=0))
    assert session.state == MAPPED
    assert len(opened.conn.sessions) == 2


def test_2_5_4_end_is_answered_with_end(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("l"))
    assert mapped.send(frames.end(error=ErrorInfo("amqp:session:errant-link"))) == [End()]
    assert mapped.handler.named("detach") == [("l", "amqp:session:errant-link")]
    assert mapped.conn.sessions == {}
    assert mapped.conn.remote_sessions == {}


def test_2_5_4_channel_can_be_used_again_after_end(mapped: Peer) -> None:
    answers = mapped.send(frames.end() + frames.begin() + frames.end() + frames.begin())
    assert [type(a) for a in answers] == [End, Begin, End, Begin]


def test_2_5_4_second_end_is_an_error(mapped: Peer) -> None:
    assert condition(mapped.send(frames.end() + frames.end())) == "amqp:not-allowed"


def test_2_5_4_what_comes_after_our_end_is_discarded(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a"))
    mapped.session().end("amqp:session:errant-link", "enough")
    assert condition(mapped.take()) == "amqp:session:errant-link"
    junk = (
        frames.transfer(0)
        + frames.flow(handle=0)
        + frames.disposition()
        + frames.attach_sender("b", 1)
        + frames.detach()
    )
    assert mapped.send(junk) == []
    assert mapped.send(frames.end()) == []
    assert not mapped.conn.done
    assert mapped.conn.remote_sessions == {}
    assert mapped.handler.named("attach") == [("a", False)]
    assert mapped.handler.named("transfer") == []
    mapped.begin()


def test_2_5_4_pipelined_end_of_ours(opened: Peer) -> None:
    session = opened.conn.open_session()
    session.end()
    assert [type(a) for a in opened.take()] == [Begin, End]
    opened.send(frames.begin(0, remote_channel=0), frames.end())
    assert opened.conn.sessions == {}
    assert not opened.conn.done


def test_2_5_5_session_error_leaves_other_sessions_alone(mapped: Peer) -> None:
    mapped.begin(1)
    assert condition(mapped.send(frames.transfer(handle=7))) == "amqp:session:unattached-handle"
    assert mapped.send(frames.end()) == []
    mapped.send(frames.attach_sender("x", channel=1))
    mapped.send(frames.transfer(0, channel=1))
    assert len(mapped.handler.named("transfer")) == 1


# ---- incoming window. Spec: 2.5.6
def test_2_5_6_window_is_advertised_and_refilled(chunk: int) -> None:
    peer = small(chunk).begin()
    peer.send(frames.attach_sender())
    seen: list[Flow] = []
    for i in range(100):
        seen += [p for p in peer.send(frames.transfer(i, settled=True)) if isinstance(p, Flow)]
    assert len(peer.handler.named("transfer")) == 100
    assert all(f.incoming_window == 4 for f in seen)
    assert [f.next_incoming_id for f in seen] == sorted(f.next_incoming_id for f in seen)  # type: ignore[type-var]
    assert seen[-1].next_incoming_id >= 98  # type: ignore[operator]


@pytest.mark.parametrize("start", [0, 0x7FFFFFFE, WRAP - 3])
def test_2_5_6_transfer_outside_the_window_ends_the_session(chunk: int, start: int) -> None:
    peer = small(chunk).begin(next_outgoing_id=start)
    peer.send(frames.attach_sender())
    link = peer.handler.links[0]
    peer.session().hold_window(link)  # the consumer is stuck, so that the window is not refilled
    assert [a for a in peer.send(b"".join(frames.transfer(i) for i in range(4))) if isinstance(a, End)] == []
    answers = peer.send(frames.transfer(4))
    assert condition(answers) == "amqp:session:window-violation"
    assert len(peer.handler.named("transfer")) == 4
    assert not peer.conn.done


def test_2_5_6_window_that_was_held_opens_again(chunk: int) -> None:
    peer = small(chunk).begin()
    peer.send(frames.attach_sender())
    peer.session().hold_window(peer.handler.links[0])
    peer.send(*[frames.transfer(i) for i in range(3)])
    peer.take()
    peer.session().release(peer.handler.links[0])
    opened = peer.take()[-1]
    assert (opened.next_incoming_id, opened.incoming_window) == (3, 4)


def test_2_5_6_the_window_comes_with_the_credit_that_the_peer_needs_anyway(chunk: int) -> None:
    peer = small(chunk, grant=3).begin()
    peer.send(frames.attach_sender())
    link = peer.handler.links[0]
    answers = [a for i in range(3) for a in peer.send(frames.transfer(i, settled=True))]
    assert answers == []
    for _ in range(3):
        link.return_credit()
    (flow,) = peer.take()
    assert (flow.next_incoming_id, flow.incoming_window, flow.link_credit) == (3, 4, 3)


def test_2_5_6_the_window_does_not_wait_for_credit_within_a_delivery(chunk: int) -> None:
    peer = small(chunk, grant=1).begin()
    peer.send(frames.attach_sender())
    answers = [a for _ in range(3) for a in peer.send(frames.transfer(0, b"x", more=True))]
    assert [a.incoming_window for a in answers] == [4]


def test_2_5_6_a_used_up_window_does_not_wait_for_credit(chunk: int) -> None:
    peer = small(chunk, grant=4).begin()
    peer.send(frames.attach_sender(), frames.attach_sender(name="other", handle=1))
    answers = peer.send(*[frames.transfer(i, settled=True) for i in range(4)])
    assert [(a.next_incoming_id, a.incoming_window) for a in answers] == [(4, 4)]  # for the other link


@pytest.mark.parametrize("start", [0x7FFFFFFD, WRAP - 5, WRAP - 1])
def test_2_8_10_next_incoming_id_wraps(chunk: int, start: int) -> None:
    peer = small(chunk).begin(next_outgoing_id=start)
    peer.send(frames.attach_sender())
    flows: list[Flow] = []
    for i in range(20):
        flows += [p for p in peer.send(frames.transfer((start + i) % WRAP)) if isinstance(p, Flow)]
    assert len(peer.handler.named("transfer")) == 20
    assert (start + 20 - flows[-1].next_incoming_id) % WRAP <= 2  # type: ignore[operator]
    assert not peer.conn.done


def test_2_8_7_delivery_ids_wrap(chunk: int) -> None:
    peer = small(chunk, window=100).begin()
    peer.send(frames.attach_sender())
    ids = [(WRAP - 2 + i) % WRAP for i in range(5)]
    for i in ids:
        peer.send(frames.transfer(i))
    assert [t[0] for t in peer.handler.named("transfer")] == ids


# ---- outgoing window
def test_2_5_6_no_transfer_beyond_the_peers_incoming_window(core: Hub) -> None:
    consumer = consume(core, credit=100, incoming_window=3)
    produce(core, 10)
    assert len(transfers(consumer)) == 3
    consumer.send(frames.flow(next_incoming_id=3, incoming_window=2))
    assert len(transfers(consumer)) == 0  # taken with the send above


def test_2_5_6_transfers_go_on_when_the_window_opens(core: Hub) -> None:
    consumer = consume(core, credit=100, incoming_window=3)
    produce(core, 10)
    assert [t.delivery_id for t in transfers(consumer)] == [0, 1, 2]
    answers = consumer.send(frames.flow(next_incoming_id=3, incoming_window=2))
    assert [t.delivery_id for t in answers if isinstance(t, Transfer)] == [3, 4]
    answers = consumer.send(frames.flow(next_incoming_id=4, incoming_window=2))  # one is still on its way
    assert [t.delivery_id for t in answers if isinstance(t, Transfer)] == [5]


@pytest.mark.parametrize("window", [0x7FFFFFFF, 0x80000000, WRAP - 1])
def test_2_7_4_very_wide_incoming_window(core: Hub, window: int) -> None:
    consumer = consume(core, credit=100, incoming_window=window)
    produce(core, 5)
    assert len(transfers(consumer)) == 5


def test_2_5_6_zero_window_holds_everything_back(core: Hub) -> None:
    consumer = consume(core, credit=100, incoming_window=0)
    produce(core, 5)
    assert transfers(consumer) == []
    answers = consumer.send(frames.flow(next_incoming_id=0, incoming_window=50))
    assert len([a for a in answers if isinstance(a, Transfer)]) == 5


@pytest.mark.parametrize("start", [0x7FFFFFFE, WRAP - 2])
def test_2_8_10_next_outgoing_id_and_delivery_id_wrap(core: Hub, start: int) -> None:
    consumer = consume(core, credit=100, incoming_window=1000)
    session = consumer.session()
    session.next_outgoing_id = session.next_delivery_id = start
    consumer.send(frames.flow(next_incoming_id=start, incoming_window=2))
    producer = produce(core, 6)
    assert [t.delivery_id for t in transfers(consumer)] == [start, (start + 1) % WRAP]
    answers = consumer.send(frames.flow(next_incoming_id=(start + 2) % WRAP, incoming_window=100))
    assert [t.delivery_id for t in answers if isinstance(t, Transfer)] == [(start + i) % WRAP for i in range(2, 6)]
    assert session.next_outgoing_id == (start + 6) % WRAP
    assert not producer.conn.done


@pytest.mark.parametrize("settled", [False, True])
def test_2_7_6_delivery_ids_that_are_unsettled_are_skipped_after_a_wrap(core: Hub, settled: bool) -> None:
    """The consumer never settles two deliveries; 4 billion later, their ids come up again."""
    consumer = consume(core, credit=100, incoming_window=1000)
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender(), *(frames.transfer(i) for i in range(2)))
    assert [t.delivery_id for t in transfers(consumer)] == [0, 1]
    consumer.session().next_delivery_id = WRAP - 1
    producer.send(*(frames.transfer(i, settled=settled) for i in range(2, 5)))
    assert [t.delivery_id for t in transfers(consumer)] == [WRAP - 1, 2, 3]
    assert not producer.conn.done
    assert consumer.session().unsettled_out.count == (2 if settled else 5)


@pytest.mark.parametrize("first", [0, 3, WRAP // 2, WRAP // 2 + 3, WRAP - 2])
def test_2_7_6_they_are_skipped_wherever_they_are(core: Hub, first: int) -> None:
    consumer = consume(core, credit=100, incoming_window=1000)
    session = consumer.session()
    session.next_delivery_id = first
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender(), *(frames.transfer(i) for i in range(2)))
    assert [t.delivery_id for t in transfers(consumer)] == [first, first + 1]
    half = first // (WRAP // 2) * (WRAP // 2)
    session.next_delivery_id = (half - 1) % WRAP
    producer.send(*(frames.transfer(i, settled=True) for i in range(2, 4)))
    begin = first + 2 if first == half else half
    assert [t.delivery_id for t in transfers(consumer)] == [(half - 1) % WRAP, begin]
    session.next_delivery_id = max(first - 1, begin + 1)  # all before it were sent
    producer.send(*(frames.transfer(i, settled=True) for i in range(4, 7)))
    expected = [i for i in range(max(first - 1, begin + 1), first + 8) if i not in (first, first + 1)]
    assert [t.delivery_id for t in transfers(consumer)] == [i % WRAP for i in expected][:3]
    assert not producer.conn.done


def test_2_7_4_flow_before_our_begin_was_seen_has_no_next_incoming_id(core: Hub) -> None:
    consumer = consume(core, credit=100, incoming_window=0)
    produce(core, 3)
    answers = consumer.send(frames.flow(next_incoming_id=None, incoming_window=2))
    assert len([a for a in answers if isinstance(a, Transfer)]) == 2


def test_2_7_4_session_flow_with_echo_is_answered(mapped: Peer) -> None:
    (answer,) = mapped.send(frames.flow(echo=True))
    assert isinstance(answer, Flow)
    assert answer.handle is None
    assert answer.incoming_window == mapped.conn.settings.window


def test_2_7_4_session_flow_without_echo_is_not_answered(mapped: Peer) -> None:
    assert mapped.send(frames.flow()) == []


def test_2_7_2_our_windows_in_begin(opened: Peer) -> None:
    (answer,) = opened.send(frames.begin())
    assert answer.incoming_window == opened.conn.settings.window
    assert answer.next_outgoing_id == 0
    assert answer.handle_max == 65535


def test_flow_that_lacks_session_fields_is_a_decode_error(mapped: Peer) -> None:
    answers = mapped.send(frames.raw_frame(b"\x00\x53\x13\xc0\x03\x02\x43\x43"))
    assert isinstance(answers[-1], Close)
    assert condition(answers) == "amqp:decode-error"
