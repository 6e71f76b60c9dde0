"""Waiting deliveries expire by their ttl and absolute-expiry-time. Frames drive it, as it is compiled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import configure
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Flow, Transfer
from waymesh_amqp.types import Described
from waymesh_router.core.forwarding.expiry import A_TURN

REJECTED_CODE = 0x25


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, address: str = "q", credit: int = 0) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub, address: str = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def body(**fields: Any) -> bytes:
    return encode_message(Message(body="x", **fields))


def wait(hub: Hub, seconds: float) -> None:
    core_of(hub).now += seconds


def transfers(peer: Peer) -> list[bytes]:
    return [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def taken(peer: Peer, credit: int = 10, seen: int = 0) -> list[Message]:
    """What a consumer gets for credit."""
    peer.end.feed(frames.credit(credit, delivery_count=seen))
    return [decode_message(payload) for payload in transfers(peer)]


def states(peer: Peer) -> list[Any]:
    found = []
    for d in peer.take():
        if isinstance(d, Disposition):
            found += [d.state] * ((d.first if d.last is None else d.last) - d.first + 1)
    return found


def conditions(peer: Peer) -> list[str]:
    """The errors of the rejected outcomes that a producer was told; each outcome must be one."""
    found = []
    for state in states(peer):
        assert isinstance(state, Described)
        assert state.descriptor == REJECTED_CODE
        found.append(str(state.value[0].value[0]))
    return found


def expired(hub: Hub, address: str = "M0q") -> tuple[int, int]:
    """As counted by the router and at the address."""
    core = core_of(hub)
    return core.counters.expired, core.addresses[address].expired


# ---- which expire
@pytest.mark.parametrize(
    ("fields", "seconds", "gone"),
    [
        ({"ttl": 5000}, 6.0, True),
        ({"ttl": 5000}, 4.9, False),
        ({"ttl": 200}, 1.0, True),
        ({"ttl": 1}, 0.0, False),
        ({"ttl": 0}, 1e6, False),
        ({"durable": True, "priority": 7, "ttl": 5000}, 6.0, True),
        ({"durable": True, "priority": 7}, 1e9, False),
        ({"absolute_expiry_time": 105_000}, 5.1, True),
        ({"absolute_expiry_time": 105_000}, 4.9, False),
        ({"absolute_expiry_time": 1}, 0.0, True),
        ({"absolute_expiry_time": 0}, 1e6, False),
        ({"absolute_expiry_time": 1 << 62}, 1e9, False),
        ({"ttl": 5000, "absolute_expiry_time": 900_000}, 6.0, True),
        ({"ttl": 500_000, "absolute_expiry_time": 103_000}, 4.0, True),
        ({"message_id": "a", "to": "q", "creation_time": 1}, 1e9, False),
        ({"ttl": 5000, "message_annotations": {"a": 1}, "message_id": "long" * 100}, 6.0, True),
        ({"absolute_expiry_time": 103_000, "message_annotations": {"a": 1}, "delivery_annotations": {}}, 4.0, True),
        ({}, 1e9, False),
    ],
)
def test_a_message_that_has_expired_while_it_waited_is_rejected(
    hub: Hub, fields: dict[str, Any], seconds: float, gone: bool
) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(**fields)))
    wait(hub, seconds)
    assert len(taken(receiver)) == (not gone)
    assert conditions(sender) == (["amqp:precondition-failed"] if gone else [])
    assert expired(hub) == (gone, gone)
    assert core_of(hub).budget.kept == 0


def test_times_are_those_of_the_system_clock(hub: Hub) -> None:
    """It may have been corrected since the router started."""
    core_of(hub).context.follow_clock(1000.0)
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(absolute_expiry_time=1_105_000)))
    sender.send(frames.transfer(1, body(absolute_expiry_time=1_095_000)))
    wait(hub, 3.0)
    assert len(taken(receiver)) == 1
    assert len(conditions(sender)) == 1


@pytest.mark.parametrize(
    "head", [b"\x00\x53\x70\xc0\x04\x03\x41\x40\x70", b"\x00\x53\x70\xc0\x06\x03\x40\x40\xa0\x01x"]
)
def test_a_header_that_cannot_be_read_has_no_ttl(hub: Hub, head: bytes) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, head + frames.message()))
    assert not sender.conn.over
    wait(hub, 1e6)
    receiver.end.feed(frames.credit(1))
    assert core_of(hub).counters.expired == 0


@given(
    code=st.sampled_from([0x70, 0x73]),
    form=st.sampled_from([0xC0, 0xD0, 0x45]),
    octets=st.binary(max_size=40),
    cut=st.integers(0, 40),
)
def test_sections_of_any_octets_do_no_harm(code: int, form: int, octets: bytes, cut: int) -> None:
    hub = core_hub()
    receiver, sender = consumer(hub), producer(hub)
    size = bytes([len(octets)]) if form == 0xC0 else len(octets).to_bytes(4, "big") if form == 0xD0 else b""
    section = bytes([0, 0x53, code, form]) + size + octets
    sender.send(frames.transfer(0, section[: len(section) - cut] + frames.message()), frames.transfer(1, body()))
    wait(hub, 3.0)
    receiver.end.feed(frames.credit(10))
    hub.turn()
    assert not sender.conn.over
    assert core_of(hub).budget.kept == 0


def test_a_message_that_does_not_wait_is_delivered_as_it_is(hub: Hub) -> None:
    receiver, sender = consumer(hub, credit=5), producer(hub)
    sender.send(frames.transfer(0, body(absolute_expiry_time=1, ttl=70_000)))
    (got,) = taken(receiver)
    assert (got.ttl, got.absolute_expiry_time) == (70_000, 1)


# ---- what is left of the ttl
@pytest.mark.parametrize(("seconds", "left"), [(0.5, 70_000), (1.0, 69_000), (60.0, 10_000), (70.1, 1)])
@pytest.mark.parametrize("fields", [{}, {"message_annotations": {"a": 1}, "message_id": "m", "durable": True}])
def test_the_ttl_of_what_waited_is_decreased(hub: Hub, seconds: float, left: int, fields: dict[str, Any]) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(ttl=70_000, **fields)))
    wait(hub, seconds)
    (got,) = taken(receiver)
    assert (got.ttl, got.body, got.message_id) == (left, "x", fields.get("message_id"))


def test_each_copy_has_what_is_left_when_it_is_sent(hub: Hub) -> None:
    configure(hub, "q", distribution="multicast")
    receivers = [consumer(hub) for _ in range(2)]
    producer(hub).send(frames.transfer(0, body(ttl=70_000)))
    wait(hub, 10.0)
    assert [m.ttl for m in taken(receivers[0])] == [60_000]
    wait(hub, 10.0)
    assert [m.ttl for m in taken(receivers[1])] == [50_000]


# ---- how it ends
def test_an_expired_message_is_passed_over_for_the_next(hub: Hub) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(*(frames.transfer(number, body(ttl=1000 if number % 2 else None)) for number in range(6)))
    wait(hub, 2.0)
    assert len(taken(receiver)) == 3
    assert len(conditions(sender)) == 3


def test_pre_settled_messages_are_dropped_and_counted(hub: Hub) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(*(frames.transfer(number, body(ttl=1000), settled=True) for number in range(3)))
    wait(hub, 2.0)
    assert taken(receiver) == []
    assert expired(hub) == (3, 3)
    assert core_of(hub).counters.dropped_presettled == 3


def test_an_address_may_drop_them_as_brokers_do(hub: Hub) -> None:
    configure(hub, "q", expired="drop")
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(ttl=1000)))
    wait(hub, 2.0)
    assert taken(receiver) == []
    assert states(sender) == [ACCEPTED]
    assert expired(hub) == (1, 1)


def test_a_message_that_still_arrives_expires_as_a_whole(hub: Hub) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(ttl=1000), more=True))
    wait(hub, 2.0)
    assert taken(receiver) == []
    assert len(conditions(sender)) == 1
    sender.send(frames.transfer(None, b"rest"), frames.transfer(1, body()))
    assert len(taken(receiver)) == 1


def test_what_was_partly_sent_does_not_expire(hub: Hub) -> None:
    receiver, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, body(ttl=1000), more=True))
    assert len(taken(receiver, 1)) == 1
    wait(hub, 2.0)
    sender.send(frames.transfer(None, b"\x00\x53\x78\xc1\x01\x00"))
    assert expired(hub) == (0, 0)
    assert transfers(receiver)


@pytest.mark.parametrize("settled", [False, True])
def test_a_copy_that_has_expired_is_released_for_its_consumer(hub: Hub, settled: bool) -> None:
    configure(hub, "q", distribution="multicast")
    quick, slow = consumer(hub), consumer(hub)
    sender = producer(hub)
    sender.send(frames.transfer(0, body(ttl=1000), settled=settled))
    assert len(taken(quick)) == 1
    quick.send(frames.disposition(0))
    wait(hub, 2.0)
    assert taken(slow) == []
    assert expired(hub) == (1, 1)
    assert states(sender) == ([] if settled else [ACCEPTED])
    assert core_of(hub).budget.kept == 0


def test_a_message_whose_copies_have_all_expired_is_released(hub: Hub) -> None:
    configure(hub, "q", distribution="multicast")
    receivers = [consumer(hub) for _ in range(2)]
    sender = producer(hub)
    sender.send(frames.transfer(0, body(ttl=1000)))
    wait(hub, 2.0)
    assert [taken(receiver) for receiver in receivers] == [[], []]
    assert states(sender) == [RELEASED]


@pytest.mark.parametrize("distribution", ["balanced", "multicast"])
@pytest.mark.parametrize("cut", [1, 3, 5, 20, 33])
def test_properties_that_arrive_in_later_frames_are_read(hub: Hub, distribution: str, cut: int) -> None:
    configure(hub, "q", distribution=distribution)
    receiver, sender = consumer(hub), producer(hub)
    for number, ahead_ms in ((0, 1_000), (1, 60_000)):
        at = int((core_of(hub).now + core_of(hub).context.clock_ahead) * 1000) + ahead_ms
        data = body(message_id="m", user_id=b"u" * 20, absolute_expiry_time=at)
        sender.send(frames.transfer(number, data[:cut], more=True))
        sender.send(frames.transfer(None, data[cut : cut + 7], more=True), frames.transfer(None, data[cut + 7 :]))
    wait(hub, 2.0)
    receiver.end.feed(frames.credit(10))
    assert b"".join(transfers(receiver)) == data, "the second one"
    assert core_of(hub).counters.expired == 1


def test_a_message_without_properties_of_many_frames_does_not_expire(hub: Hub) -> None:
    receiver, sender = consumer(hub), producer(hub)
    data = body()
    sender.send(frames.transfer(0, data[:1], more=True))
    for at in range(1, len(data)):
        sender.send(frames.transfer(None, data[at : at + 1], more=at + 1 < len(data)))
    wait(hub, 9.0)
    receiver.end.feed(frames.credit(10))
    assert b"".join(transfers(receiver)) == data


# ---- the work in a turn
@pytest.mark.parametrize("distribution", ["balanced", "multicast"])
def test_very_many_are_ended_in_several_turns(hub: Hub, distribution: str) -> None:
    core = core_of(hub)
    configure(hub, "q", distribution=distribution)
    receiver = consumer(hub)
    senders = [producer(hub) for _ in range(4)]
    for sender in senders:
        for number in range(200):
            sender.send(frames.transfer(number, body(ttl=1000)))
    senders[0].send(frames.transfer(200, body()))
    wait(hub, 2.0)
    assert taken(receiver) == []
    turns = 0
    while core.expiry.busy and core.credit.end_expired():
        turns += 1
        assert core.counters.expired == (turns + 1) * A_TURN
    assert turns == 2
    assert core.counters.expired == 800
    assert len(transfers(receiver)) == 1
    assert core.budget.kept == 0


def test_a_consumer_that_is_gone_is_forgotten(hub: Hub) -> None:
    core = core_of(hub)
    configure(hub, "q", distribution="multicast")
    receiver, sender = consumer(hub), producer(hub)
    core.expiry.left = 0
    sender.send(frames.transfer(0, body(ttl=1000)))
    wait(hub, 2.0)
    assert taken(receiver) == []
    assert len(core.expiry.links) == 1
    receiver.kill()
    assert not core.credit.end_expired()
    assert not core.expiry.links
    assert core.counters.expired == 0


def test_very_many_are_sent_in_several_turns(hub: Hub) -> None:
    """In their order; a drain is answered after the last one."""
    core, receiver = core_of(hub), consumer(hub)
    count = 13 * 200
    for first in range(0, count, 200):
        sender = producer(hub)
        sender.send(*[frames.transfer(n, encode_message(Message(body=first + n))) for n in range(200)])
    receiver.frames()
    core.expiry.next_turn()
    receiver.end.feed(frames.credit(2 * count, drain=True, incoming_window=2 * count))
    turns = 0
    while core.expiry.busy and core.credit.end_expired():
        turns += 1
        hub.turn()
    assert turns == count // (4 * A_TURN) - 1  # before the last one
    seen = [f for f in receiver.frames() if isinstance(f, Seen)]
    bodies = [decode_message(f.payload).body for f in seen if isinstance(f.performative, Transfer)]
    assert bodies == list(range(count))
    (answer,) = [f.performative for f in seen if isinstance(f.performative, Flow) and f.performative.handle == 0]
    assert (answer.drain, answer.link_credit) == (True, 0)
    assert seen[-1].performative is answer
