"""Attach and detach: names, handles, termini, modes, refusals. Spec: 2.6, 2.7.3, 2.7.7"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import RECEIVER
from tests.kit.pump import Hub, Peer
from waymesh_amqp.link import Link
from waymesh_amqp.link_frames import open_link
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, ErrorInfo, Flow, Terminus
from waymesh_amqp.states import DETACH_SENT, GONE
from waymesh_amqp.types import Described, Symbol, ULong


def condition(answers: list[Any]) -> str:
    assert answers, "no answer"
    error = answers[-1].error
    return error.condition if error is not None else ""


def attached(peer: Peer) -> list[str]:
    return [name for name, _ in peer.handler.named("attach")]


def test_2_6_3_attach_is_answered_with_the_opposite_role(mapped: Peer) -> None:
    sender, flow, receiver = mapped.send(frames.attach_sender("s", 0), frames.attach_receiver("r", 1))[0:3]
    answers = {a.name: a for a in (sender, flow, receiver) if isinstance(a, Attach)}
    assert answers["s"].role is True
    assert answers["r"].role is False
    assert answers["r"].initial_delivery_count == 0
    assert answers["s"].initial_delivery_count is None


@pytest.mark.parametrize(("snd", "rcv"), [(0, 0), (1, 0), (2, 0), (0, 1), (2, 1), (None, None)])
def test_2_6_3_modes_are_answered_as_asked(mapped: Peer, snd: int | None, rcv: int | None) -> None:
    answer = mapped.send(frames.attach_sender(snd_settle_mode=snd, rcv_settle_mode=rcv))[0]
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (snd, rcv)


def test_2_6_3_termini_are_answered_verbatim(mapped: Peer) -> None:
    source = Terminus(
        "source",
        address="q",
        durable=2,
        expiry_policy="never",
        timeout=7,
        filter={Symbol("f"): Described(ULong(0x468C00000004), "a = 1")},
        default_outcome=ACCEPTED,
        outcomes=["amqp:accepted:list"],
        capabilities=["queue"],
    )
    answer = mapped.send(frames.attach_receiver(source=source))[0]
    assert answer.source == source


@pytest.mark.parametrize("snd", [3, 255])
def test_2_8_2_impossible_settle_mode_is_a_decode_error(mapped: Peer, snd: int) -> None:
    data = frames.attach_sender(snd_settle_mode=2)
    at = data.index(b"\x50\x02", 12)
    answers = mapped.send(data[: at + 1] + bytes((snd,)) + data[at + 2 :])
    assert isinstance(answers[-1], Close)
    assert condition(answers) == "amqp:decode-error"


def test_2_6_4_detach_is_answered_in_kind(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a", 0), frames.attach_sender("b", 1))
    assert mapped.send(frames.detach(0)) == [Detach(0, closed=True)]
    assert mapped.send(frames.detach(1, closed=False)) == [Detach(1, closed=False)]
    assert mapped.handler.named("detach") == [("a", ""), ("b", "")]
    assert mapped.conn.names == {}


def test_2_6_4_error_of_a_detach_reaches_the_handler(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a", 0))
    mapped.send(frames.detach(0, error=ErrorInfo("amqp:not-found", "gone")))
    assert mapped.handler.named("detach") == [("a", "amqp:not-found")]


def test_2_6_5_what_arrives_after_our_detach_is_discarded(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a", 0))
    mapped.handler.links[0].detach("amqp:link:detach-forced", "go")
    assert condition(mapped.take()) == "amqp:link:detach-forced"
    assert mapped.send(frames.transfer(0) + frames.transfer(1, more=True) + frames.flow(handle=0)) == []
    assert mapped.send(frames.detach(0)) == []
    assert mapped.handler.named("transfer") == []
    assert mapped.handler.named("detach") == [("a", "amqp:link:detach-forced")]
    mapped.send(frames.attach_sender("b", 0))
    assert attached(mapped) == ["a", "b"]


def test_2_6_4_attach_pipelined_with_detach(mapped: Peer) -> None:
    answers = mapped.send(frames.attach_receiver("a") + frames.detach() + frames.attach_receiver("a") + frames.detach())
    assert [type(a) for a in answers] == [Attach, Detach, Attach, Detach]
    assert mapped.conn.names == {}


def test_2_6_3_our_attach_is_completed_by_the_peers(mapped: Peer) -> None:
    link = Link(mapped.session())
    open_link(mapped.session(), link, Attach("ours", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")))
    (ours,) = mapped.take()
    assert ours.name == "ours"
    mapped.send(frames.attach_sender("ours", 5, initial_delivery_count=3))
    assert link.attached
    assert link.remote_handle == 5
    assert link.delivery_count == 3


def test_2_6_3_our_attach_is_matched_by_name_and_role(mapped: Peer) -> None:
    link = Link(mapped.session())
    open_link(mapped.session(), link, Attach("n", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")))
    mapped.send(frames.attach_receiver("n", 2))
    assert not link.attached
    mapped.send(frames.attach_sender("n", 3))
    assert link.attached


def test_2_6_4_our_detach_before_the_peers_attach(mapped: Peer) -> None:
    link = Link(mapped.session())
    open_link(mapped.session(), link, Attach("n", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")))
    link.detach()
    assert [type(p) for p in mapped.take()] == [Attach, Detach]
    assert mapped.send(frames.attach_sender("n", 3)) == []
    assert link.state == DETACH_SENT
    assert mapped.send(frames.detach(3)) == []
    assert link.state == GONE
    assert mapped.handler.named("detach") == [("n", "")]
    assert mapped.conn.names == {}


def test_2_6_3_peer_refuses_our_attach(mapped: Peer) -> None:
    link = Link(mapped.session())
    open_link(mapped.session(), link, Attach("n", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")))
    mapped.take()
    answers = mapped.send(
        frames.attach_sender("n", 3, source=None, target=None), frames.detach(3, error=ErrorInfo("amqp:not-found"))
    )
    assert answers[-1] == Detach(0, closed=True)
    assert mapped.handler.named("detach") == [("n", "amqp:not-found")]


# ---- handles. Spec: 2.6.2
def test_2_7_2_handle_over_handle_max_is_a_framing_error(mapped: Peer) -> None:
    answers = mapped.send(frames.attach_sender("a", 65536))
    assert isinstance(answers[-1], Close)
    assert condition(answers) == "amqp:connection:framing-error"


def test_2_7_2_handle_max_itself_is_allowed(mapped: Peer) -> None:
    assert isinstance(mapped.send(frames.attach_sender("a", 65535))[0], Attach)


def test_2_7_2_we_open_no_link_over_the_peers_handle_max(opened: Peer) -> None:
    opened.begin(handle_max=0)
    session = opened.session()
    open_link(session, Link(session), Attach("a", 0, RECEIVER))
    with pytest.raises(Exception, match="allows 1 links"):
        open_link(session, Link(session), Attach("b", 0, RECEIVER))


def test_2_7_2_answering_over_the_peers_handle_max_ends_the_session(opened: Peer) -> None:
    opened.begin(handle_max=0)
    opened.send(frames.attach_sender("a", 0))
    answers = opened.send(frames.attach_sender("b", 1))
    assert isinstance(answers[-1], End)
    assert condition(answers) == "amqp:not-allowed"


def test_2_8_17_handle_in_use(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("a", 3))
    answers = mapped.send(frames.attach_receiver("b", 3))
    assert isinstance(answers[-1], End)
    assert condition(answers) == "amqp:session:handle-in-use"
    assert mapped.handler.named("detach") == [("a", "amqp:session:handle-in-use")]


@pytest.mark.parametrize(
    "use", [frames.transfer(handle=4), frames.flow(handle=4), frames.detach(4), frames.flow(handle=1 << 31)]
)
def test_2_8_17_unattached_handle(mapped: Peer, use: bytes) -> None:
    mapped.send(frames.attach_sender("a", 3))
    answers = mapped.send(use)
    assert isinstance(answers[-1], End)
    assert condition(answers) == "amqp:session:unattached-handle"
    assert mapped.send(frames.end()) == []
    assert not mapped.conn.done


def test_2_6_2_handles_are_used_again(mapped: Peer) -> None:
    for i in range(3):
        mapped.send(frames.attach_sender(f"a{i}", 0), frames.detach(0))
    assert [link.handle for link in mapped.handler.links] == [0, 0, 0]


# ---- names. Spec: 2.6.1
@pytest.mark.parametrize("channel", [0, 1])
def test_2_6_1_link_is_stolen_by_an_attach_of_the_same_name(mapped: Peer, channel: int) -> None:
    mapped.begin(1)
    mapped.send(frames.attach_sender("n", 0))
    answers = mapped.send(frames.attach_sender("n", 5, channel=channel))
    assert [type(a) for a in answers] == [Detach, Attach, Flow]
    assert answers[0].error.condition == "amqp:link:stolen"
    assert mapped.handler.named("detach") == [("n", "amqp:link:stolen")]
    mapped.send(frames.detach(0), frames.transfer(0, handle=5, channel=channel))
    assert len(mapped.handler.named("transfer")) == 1


def test_2_6_1_both_roles_may_use_one_name(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("n", 0), frames.attach_receiver("n", 1))
    assert mapped.handler.named("detach") == []
    assert len(mapped.conn.names) == 2


def test_2_6_1_names_of_different_connections_do_not_meet(mapped: Peer) -> None:
    mapped.send(frames.attach_sender("n", 0))
    mapped.hub.peer().open().begin().send(frames.attach_sender("n", 0))
    assert mapped.handler.named("detach") == []


# ---- refusals
def test_2_6_3_refused_attach_has_no_termini_and_is_closed(core: Hub) -> None:
    peer = core.peer().open().begin()
    answer, detach = peer.send(frames.attach_receiver(address=None))
    assert answer.source is None
    assert isinstance(detach, Detach)
    assert detach.closed
    assert condition([detach]) == "amqp:precondition-failed"
    assert peer.send(frames.detach()) == []
    assert peer.conn.names == {}


def test_2_6_13_resuming_is_refused(core: Hub) -> None:
    mapped = core.peer().open().begin()
    answers = mapped.send(frames.attach_sender(unsettled={b"tag": ACCEPTED}))
    assert [type(a) for a in answers] == [Attach, Detach]
    assert condition(answers) == "amqp:not-implemented"
    mapped.send(frames.detach())
    assert not any(mapped.session().links)


def test_2_6_13_empty_unsettled_map_is_nothing_to_resume(mapped: Peer) -> None:
    assert isinstance(mapped.send(frames.attach_sender(unsettled={}))[-1], Flow)


def test_2_7_3_a_sender_without_a_delivery_count_begins_at_0(mapped: Peer) -> None:
    answers = mapped.send(frames.attach_sender(initial_delivery_count=None))
    assert [type(a) for a in answers] == [Attach, Flow]
    assert answers[1].delivery_count == 0


def test_2_7_3_an_answer_without_a_delivery_count_begins_at_0(mapped: Peer) -> None:
    link = Link(mapped.session())
    open_link(mapped.session(), link, Attach("n", 0, RECEIVER, source=Terminus("source"), target=Terminus("target")))
    mapped.take()
    assert mapped.send(frames.attach_sender("n", 3, initial_delivery_count=None)) == []
    assert (link.attached, link.delivery_count) == (True, 0)


def test_2_7_7_unattached_detach_of_another_session(mapped: Peer) -> None:
    mapped.begin(1)
    mapped.send(frames.attach_sender("a", 0))
    assert condition(mapped.send(frames.detach(0, channel=1))) == "amqp:session:unattached-handle"
    assert mapped.handler.named("detach") == []


def test_pipelined_begin_attach_and_use(opened: Peer) -> None:
    data = frames.begin() + frames.attach_receiver("r") + frames.credit(5) + frames.end()
    assert [type(a) for a in opened.send(data)] == [Begin, Attach, End]


def test_2_8_18_frame_that_the_peer_cannot_take_closes_with_the_reason(core: Hub) -> None:
    peer = core.peer().open(max_frame_size=512).begin()
    healthy = core.peer().open().begin()
    seen = peer.exchange(frames.attach_receiver(address="x" * 2000))
    assert all(isinstance(f, frames.Seen) and f.size <= 512 for f in seen)
    assert seen[-1].condition == "amqp:frame-size-too-small"  # type: ignore[union-attr]
    assert core.handler.addresses == {}  # type: ignore[attr-defined]
    assert not healthy.conn.done


def test_3_4_outcome_that_the_peer_cannot_take_arrives_without_its_details(core: Hub) -> None:
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(5))
    producer = core.peer().open(max_frame_size=512).begin()
    producer.send(frames.attach_sender())
    producer.send(frames.transfer(0))
    long = Described(ULong(0x25), [Described(ULong(0x1D), [Symbol("amqp:internal-error"), "y" * 3000])])
    consumer.send(frames.disposition(0, state=long))
    (seen,) = [f for f in producer.frames() if isinstance(f, frames.Seen) and isinstance(f.performative, Disposition)]
    assert seen.size <= 512
    assert seen.performative.state == Described(ULong(0x25), [])  # type: ignore[union-attr]


def test_refused_attach_leaves_no_address_behind(core: Hub) -> None:
    peer = core.peer().open().begin()
    answers = peer.send(frames.attach_receiver(address="_topo/0/OTHER/x"))
    assert condition(answers) == "amqp:not-allowed"
    assert core.handler.addresses == {}  # type: ignore[attr-defined]
