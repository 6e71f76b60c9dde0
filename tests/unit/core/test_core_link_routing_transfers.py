"""Transfers and credit of routed links: passed on unchanged, credit and drain go back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Attached, Container
from tests.kit.frames import Seen
from tests.kit.pump import Peer, core_hub, core_of
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, rejected
from waymesh_amqp.performatives import Attach, Detach, Disposition, Flow, Terminus, Transfer
from waymesh_amqp.types import Described, Symbol, ULong
from waymesh_router.core.forwarding.buffer_budget import RECORD_BYTES

HELD_LIMIT = 1 << 18
"""As in core/link_routing/transfers.py."""


def scene(credit: int = 10, **attach: Any) -> tuple[Container, Attached, Peer]:
    """A client that sends to a container, by a link route."""
    hub = core_hub()
    core_of(hub).linkroutes.add({"identity": "1", "direction": "both", "prefix": "b2", "connection": "broker"})
    container = Container(hub, credit=credit)
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address="b2.q", **attach))
    (link,) = container.links
    return container, link, peer


def reading(**attach: Any) -> tuple[Container, Attached, Peer]:
    """A client that reads from a container, with 10 credits."""
    container, _, peer = scene()
    peer.send(frames.attach_receiver(handle=1, address="b2.q", **attach), frames.credit(10, 1))
    return container, container.links[-1], peer


def performatives(link: Attached) -> list[Transfer]:
    return [seen.performative for seen in link.transfers if isinstance(seen.performative, Transfer)]


def states(peer: Peer) -> list[Any]:
    return [d.state for d in peer.take() if isinstance(d, Disposition)]


STATE = Described(ULong(0x34), [b"txn"])  # a transactional state, which only the container understands


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"delivery_tag": b"mine"},
        {"settled": True},
        {"message_format": 7},
        {"state": STATE},
        {"rcv_settle_mode": 1},
        {"batchable": True},
    ],
)
def test_a_transfer_is_passed_on_as_it_is(fields: dict[str, Any]) -> None:
    _, link, peer = scene()
    peer.send(frames.transfer(5, b"no sections at all", **fields))
    (got,) = performatives(link)
    assert link.bodies == [b"no sections at all"]
    sent = {"delivery_tag": (5).to_bytes(4, "big"), **fields}
    assert {name: getattr(got, name) for name in sent} == sent
    assert bool(got.settled) == fields.get("settled", False)


def test_delivery_ids_are_those_of_our_session() -> None:
    _, link, peer = scene()
    peer.send(frames.transfer(70), frames.transfer(71), frames.transfer(72))
    ids = [t.delivery_id for t in performatives(link)]
    assert ids == [0, 1, 2]


@pytest.mark.parametrize("state", [ACCEPTED, RELEASED, rejected(), STATE])
def test_states_come_back_as_they_are(state: Any) -> None:
    container, link, peer = scene()
    peer.send(frames.transfer(3), frames.transfer(4))
    container.send(frames.disposition(1, channel=link.channel, state=state))
    (told,) = [d for d in peer.take() if isinstance(d, Disposition)]
    assert (told.first, told.settled, told.state) == (4, True, state)


def test_a_delivery_of_several_frames_is_not_put_together() -> None:
    _, link, peer = scene()
    peer.send(frames.transfer(0, b"ab", more=True))
    assert (link.bodies, [bool(t.more) for t in performatives(link)]) == ([b"ab"], [True])
    peer.send(frames.transfer(None, b"cd", more=True), frames.transfer(None, b"ef"), frames.transfer(1, b"gh"))
    assert b"".join(link.bodies) == b"abcdefgh"
    assert [bool(t.more) for t in performatives(link)][-2:] == [False, False]


def test_a_transfer_is_split_where_the_container_takes_shorter_frames() -> None:
    hub = core_hub()
    core_of(hub).linkroutes.add({"identity": "1", "direction": "in", "prefix": "b2", "connection": "broker"})
    container = Container(hub, max_frame_size=512)
    peer = hub.peer().open().begin()
    body = bytes(range(250)) * 8
    peer.send(frames.attach_sender(address="b2.q"))
    peer.send(frames.transfer(0, body), frames.transfer(1, b"next"))
    (link,) = container.links
    assert max(seen.size for seen in link.transfers) <= 512
    assert b"".join(link.bodies) == body + b"next"


def test_an_abort_is_passed_on() -> None:
    _, link, peer = scene()
    peer.send(frames.transfer(0, b"ab", more=True), frames.transfer(None, b"", aborted=True))
    assert [bool(t.aborted) for t in performatives(link)] == [False, True]


def test_an_abort_in_the_first_frame_returns_the_credit() -> None:
    _, link, peer = scene(credit=2)
    for number in range(5):
        peer.send(frames.transfer(number, b"", aborted=True))
    assert next(lk for lk in peer.session().links if lk is not None).credit == 2
    peer.send(frames.transfer(9, b"body"))
    assert link.bodies == [b"body"]


@pytest.mark.parametrize("size", [33, 200])
def test_a_tag_that_is_too_long_is_rejected(size: int) -> None:
    _, link, peer = scene()
    peer.send(frames.transfer(0), frames.transfer(1, delivery_tag=b"t" * 32))
    assert len(link.bodies) == 2
    answers = peer.send(frames.transfer(2, delivery_tag=b"t" * size))
    refused = any(state.descriptor == 0x25 for state in frames.told(answers))
    assert refused or peer.conn.over
    assert len(link.bodies) == 2


# ---- credit
def credits_of(answers: list[Any]) -> list[tuple[int | None, bool]]:
    return [(f.link_credit, bool(f.drain)) for f in answers if isinstance(f, Flow) and f.handle is not None]


def test_credit_of_the_container_is_the_client_s() -> None:
    container, link, peer = scene(credit=0)
    assert credits_of(peer.take()) == []
    container.send(frames.credit(7, link.handle, channel=link.channel))
    assert credits_of(peer.take()) == [(7, False)]
    container.send(frames.credit(2, link.handle, channel=link.channel))
    assert credits_of(peer.take()) == [(2, False)]


def test_credit_that_comes_later_is_counted_from_what_was_sent() -> None:
    container, link, peer = scene(credit=2)
    peer.send(*[frames.transfer(number, b"%d" % number) for number in range(2)])
    container.send(frames.credit(0, link.handle, 2, channel=link.channel))
    assert link.bodies == [b"0", b"1"]
    container.send(frames.credit(3, link.handle, 2, channel=link.channel))
    assert credits_of(peer.take())[-1] == (3, False)


def test_a_closed_window_of_the_container_delays_deliveries_in_their_order() -> None:
    container, link, peer = scene()
    window = {"incoming_window": 1, "next_incoming_id": 0}
    container.send(frames.credit(10, link.handle, channel=link.channel, **window))
    peer.send(frames.transfer(0, b"0"), frames.transfer(1, b"1", settled=True), frames.transfer(2, b"2"))
    assert link.bodies == [b"0"]
    closed = {"incoming_window": 0, "next_incoming_id": 1}
    container.send(frames.credit(10, link.handle, 1, channel=link.channel, **closed))
    assert credits_of(peer.take())[-1] == (8, False), "two wait here"
    container.send(frames.flow(link.channel, next_incoming_id=1, incoming_window=2))
    assert link.bodies == [b"0", b"1", b"2"]
    assert core_of(peer.hub).budget.kept == 0


def test_what_waits_is_released_when_the_container_detaches() -> None:
    container, link, peer = scene()
    container.send(frames.credit(10, link.handle, channel=link.channel, incoming_window=0, next_incoming_id=0))
    peer.send(frames.transfer(0), frames.transfer(1))
    assert core_of(peer.hub).budget.kept > 0
    container.detach(link)
    answers = peer.take()
    told = [d for d in answers if isinstance(d, Disposition)]
    assert {state.descriptor for state in frames.told(answers)} == {0x26}
    assert sum((d.first if d.last is None else d.last) - d.first + 1 for d in told) == 2
    assert [type(a) for a in answers][-1] is Detach
    assert core_of(peer.hub).budget.kept == 0


@pytest.mark.parametrize("size", [0, 400])
def test_what_waits_and_is_released_at_once_is_bounded_whatever_credit_there_is(size: int) -> None:
    """The session window closes, so that no portions are needed."""
    container, link, peer = scene(credit=1_000_000)
    container.send(frames.credit(1_000_000, link.handle, channel=link.channel, incoming_window=0, next_incoming_id=0))
    session = peer.session()
    (lk,) = [one for one in session.links if one is not None]
    count = 0
    while session.window_end != session.next_incoming_id and count < 100_000:
        peer.end.feed(frames.transfer(count, b"x" + bytes(size)))
        count += 1
        peer.hub.turn()
    assert lk.credit > 900_000
    waiting = lk.partner.undelivered()
    assert waiting == count <= HELD_LIMIT // (RECORD_BYTES + size) + session.connection.settings.window + 1
    peer.take()
    container.detach(link)
    told = [d for d in peer.take() if isinstance(d, Disposition)]
    assert sum((d.first if d.last is None else d.last) - d.first + 1 for d in told) == count


def test_drain_goes_to_the_sender_and_its_end_comes_back() -> None:
    container, link, peer = scene()
    peer.send(frames.transfer(0))
    container.send(frames.credit(9, link.handle, 1, channel=link.channel, drain=True))
    assert credits_of(peer.take())[-1] == (9, True)
    peer.send(frames.credit(0, 0, 10, drain=True))
    assert (link.flows[-1].link_credit, link.flows[-1].delivery_count) == (0, 10)


def detached(peer: Peer) -> list[tuple[int | None, str]]:
    """The links that the router detached, and why."""
    return [(d.handle, d.error.condition if d.error else "") for d in peer.take() if isinstance(d, Detach)]


def transfers_from(first: int, count: int, handle: int = 0) -> list[bytes]:
    return [frames.transfer(number, b"x", handle=handle) for number in range(first, first + count)]


def with_capacity(peer: Peer, capacity: int) -> None:
    for link in peer.session().links:
        if link is not None:
            link.capacity = capacity


def test_a_link_has_the_capacity_of_its_listener() -> None:
    _, _, peer = scene()
    assert [link.capacity for link in peer.session().links] == [peer.conn.link_capacity]


def test_a_sender_far_beyond_its_credit_is_detached_alone() -> None:
    _, link, peer = scene(credit=3)
    peer.send(frames.attach_sender("other", 1, address="b2.q"))
    with_capacity(peer, 5)
    peer.send(*transfers_from(0, 3 + 5))
    assert len(link.bodies) == 3
    assert core_of(peer.hub).budget.kept > 0
    assert detached(peer) == []
    peer.end.feed(frames.transfer(8, b"x"))
    assert detached(peer) == [(0, "amqp:link:transfer-limit-exceeded")]
    assert core_of(peer.hub).budget.kept == 0
    peer.send(frames.transfer(9, b"still there", handle=1))
    assert core_of(peer.hub).counters.to_containers == 4
    assert not peer.conn.over


REFUSED = {
    "empty": {"payload": b""},
    "long tag": {"delivery_tag": b"t" * 33},
    "aborted": {"payload": b"", "aborted": True},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED.keys())
def test_deliveries_that_go_no_further_count_while_there_is_no_credit(fields: dict[str, Any]) -> None:
    """Each of them returned a credit that its sender had not had, so 200,000 of them were no reason to detach it."""
    container, link, peer = scene(credit=1)
    with_capacity(peer, 5)
    peer.send(*(frames.transfer(number, **fields) for number in range(20)))
    assert detached(peer) == [], "each had the credit that the one before it returned"
    container.send(frames.credit(0, link.handle, channel=link.channel))
    peer.send(*(frames.transfer(number, **fields) for number in range(20, 26)))
    assert detached(peer) == [], "1 that was on its way when the credit was taken back, and 5"
    peer.end.feed(frames.transfer(26, **fields))
    assert detached(peer) == [(0, "amqp:link:transfer-limit-exceeded")]
    assert not peer.conn.over


def test_a_sender_gets_no_credit_by_saying_that_it_gave_some_up() -> None:
    _, _, peer = scene(credit=3)
    with_capacity(peer, 5)
    sent = 8
    peer.send(*transfers_from(0, sent))
    for count in range(sent, sent + 3):
        peer.end.feed(frames.credit(0, 0, count + 1, next_incoming_id=0))
    peer.end.feed(frames.transfer(sent, b"x"))
    assert detached(peer) == [(0, "amqp:link:transfer-limit-exceeded")]


def test_a_sender_may_use_credit_that_is_being_taken_back() -> None:
    """Its transfers may be on their way."""
    container, link, peer = scene(credit=100)
    with_capacity(peer, 5)
    container.send(frames.credit(0, link.handle, channel=link.channel))
    peer.send(*transfers_from(0, 100 + 5))
    assert detached(peer) == []
    container.send(frames.credit(105, link.handle, channel=link.channel))
    assert len(link.bodies) == 105
    peer.end.feed(b"".join(transfers_from(105, 6)))
    assert detached(peer) == [(0, "amqp:link:transfer-limit-exceeded")]


@pytest.mark.parametrize(
    "fields",
    [{"echo": True}, {"properties": {Symbol("x"): 1}}, {"available": 5}],
    ids=["echo", "properties", "available"],
)
def test_details_of_a_flow_are_passed_on(fields: dict[str, Any]) -> None:
    _, link, peer = scene()
    before = len(link.flows)
    peer.send(frames.credit(10, 0, 0, **fields))
    assert len(link.flows) > before
    name, value = next(iter(fields.items()))
    assert getattr(link.flows[-1], name) == value


# ---- receivers
def deliver(container: Container, link: Attached, number: int, body: bytes = b"x", **over: Any) -> None:
    container.send(frames.transfer(number, body, channel=link.channel, handle=link.handle, **over))


def test_a_receiver_gets_what_the_container_sends_and_its_outcomes_go_back() -> None:
    container, link, peer = reading()
    deliver(container, link, 0, b"one", delivery_tag=b"t")
    (got,) = [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert isinstance(got.performative, Transfer)
    assert (got.payload, got.performative.delivery_tag) == (b"one", b"t")
    peer.send(frames.disposition(got.performative.delivery_id or 0, state=STATE, settled=False))
    assert (container.outcomes[-1].state, bool(container.outcomes[-1].settled)) == (STATE, False)


def test_outcomes_of_a_lost_receiver_are_the_container_s_to_decide() -> None:
    container, link, peer = reading()
    deliver(container, link, 0)
    peer.kill()
    assert container.outcomes == []
    assert link.detach is not None


def test_a_client_does_not_get_its_own_messages_if_it_asked_for_none() -> None:
    container, link, peer = scene()
    source = Terminus(
        "source", address="b2.q", filter={Symbol("nl"): Described(Symbol("apache.org:no-local-filter:list"), [])}
    )
    answers = peer.send(frames.attach_receiver(handle=1, source=source), frames.credit(10, 1))
    assert any(isinstance(a, Attach) for a in answers)
    back = container.links[-1]
    peer.send(frames.transfer(0, frames.message(b"mine")))
    (sent,) = link.bodies
    deliver(container, back, 0, sent)
    deliver(container, back, 1, frames.message(b"other"))
    got = [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert got == [frames.message(b"other")]
    assert container.outcomes[-1].state == ACCEPTED


def test_a_flow_that_opens_the_window_and_takes_credit_back_sends_nothing_more() -> None:
    """A delivery waits for the session window, and the next one for its end: it must not use the former credit."""
    container, link, peer = reading()
    peer.send(frames.credit(2, 1, incoming_window=1))
    for number in (0, 1):
        first = frames.transfer(number, b"ab", handle=link.handle, channel=link.channel, more=not number)
        container.send(first)
        if not number:
            container.send(frames.transfer(None, b"cd", handle=link.handle, channel=link.channel))
    peer.frames()
    peer.end.feed(frames.credit(0, 1, 1, next_incoming_id=1, incoming_window=10, drain=True))
    found = [seen for seen in peer.frames() if isinstance(seen, Seen)]
    assert [seen.payload for seen in found if isinstance(seen.performative, Transfer)] == [b"cd"]
