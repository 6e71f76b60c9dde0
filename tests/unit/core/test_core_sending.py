"""Deliveries on outgoing links, at once and from the queue: their settlement, state, annotations and format.

Sending is compiled: frames drive it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_amqp.types import Described, Symbol, UInt, ULong
from waymesh_router.core.link_kinds import BALANCED, SETTLED_MODE

STATE = Described(ULong(0x23), [UInt(1), ULong(2)])
FRAME = 512
ANNOTATED = encode_message(Message(message_annotations={Symbol("mine"): 1, Symbol("x-opt-qd.to"): "no"}, body="x"))

QUEUED = pytest.mark.parametrize("waits", [False, True], ids=["at once", "from the queue"])


def scene(waits: bool, frame: int = 10_000, **attach: Any) -> tuple[Hub, Peer, Peer]:
    """A router with a consumer and a producer. `frame`: the largest frame that the consumer takes."""
    hub = core_hub()
    consumer = hub.peer().open(max_frame_size=frame).begin()
    consumer.send(frames.attach_receiver(**attach), *([] if waits else [frames.credit(10)]))
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender())
    return hub, consumer, producer


def sent(peer: Peer, waits: bool, handle: int = 0) -> list[tuple[Transfer, bytes]]:
    """The transfers that a peer gets; if they wait, with the credit for them."""
    if waits:
        peer.end.feed(frames.credit(10, handle))
    seen = [f for f in peer.frames() if isinstance(f, Seen)]
    return [(f.performative, f.payload) for f in seen if isinstance(f.performative, Transfer)]


def whole(found: list[tuple[Transfer, bytes]]) -> bytes:
    return b"".join(payload for _, payload in found)


@QUEUED
@pytest.mark.parametrize("settled", [False, True])
def test_the_settlement_of_the_sender_is_kept(waits: bool, settled: bool) -> None:
    _, consumer, producer = scene(waits)
    answers = producer.send(frames.transfer(0, settled=settled))
    ((first, _),) = sent(consumer, waits)
    assert bool(first.settled) is settled
    assert [a for a in answers + producer.take() if isinstance(a, Disposition)] == []


@QUEUED
def test_a_consumer_that_wants_settled_deliveries_only_gets_them_so_and_the_sender_an_outcome(waits: bool) -> None:
    _, consumer, producer = scene(waits, snd_settle_mode=SETTLED_MODE)
    answers = producer.send(frames.transfer(0))
    ((first, _),) = sent(consumer, waits)
    assert first.settled
    assert [a.state for a in answers + producer.take() if isinstance(a, Disposition)] == [ACCEPTED]


@QUEUED
def test_the_format_of_a_message_is_kept(waits: bool) -> None:
    _, consumer, producer = scene(waits)
    producer.send(frames.transfer(0, message_format=0x1234))
    ((first, _),) = sent(consumer, waits)
    assert first.message_format == 0x1234


@QUEUED
@pytest.mark.parametrize("size", [10, 2000], ids=["one frame", "several frames"])
def test_a_state_in_the_transfer_goes_on_with_the_first_frame(waits: bool, size: int) -> None:
    _, consumer, producer = scene(waits, FRAME)
    message = frames.message(b"x" * size)
    producer.send(frames.transfer(0, message, state=STATE))
    found = sent(consumer, waits)
    assert (len(found) > 1) is (size > FRAME)
    assert [transfer.state for transfer, _ in found] == [STATE] + [None] * (len(found) - 1)
    assert [bool(transfer.more) for transfer, _ in found] == [True] * (len(found) - 1) + [False]
    assert whole(found) == message


@QUEUED
def test_a_state_that_leaves_no_room_in_a_frame_is_left_out(waits: bool) -> None:
    _, consumer, producer = scene(waits, FRAME)
    producer.send(frames.transfer(0, state=Described(Symbol("x:y"), [b"x" * FRAME])))
    ((first, payload),) = sent(consumer, waits)
    assert (first.state, payload) == (None, frames.message())


@QUEUED
def test_a_client_gets_its_own_annotations_only(waits: bool) -> None:
    _, consumer, producer = scene(waits)
    producer.send(frames.transfer(0, ANNOTATED))
    message = decode_message(whole(sent(consumer, waits)))
    assert (message.message_annotations, message.body) == ({"mine": 1}, "x")


@QUEUED
def test_another_router_gets_those_of_this_router_too(waits: bool) -> None:
    hub = core_hub()
    other = neighbour(hub, "B", credit=0 if waits else 10)
    core_of(hub).remote_routers.add_consumers("B", "M0q", BALANCED)
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender(), frames.transfer(0, ANNOTATED))
    message = decode_message(whole(sent(other, waits, 2)))
    told = {"mine": 1, "x-opt-qd.to": "q", "x-opt-qd.ingress": "0/R", "x-opt-qd.trace": ["0/R"]}
    assert {**(message.message_annotations or {}), **told} == message.message_annotations
    assert message.body == "x"


@QUEUED
def test_frames_that_are_too_large_for_the_consumer_are_divided(waits: bool) -> None:
    _, consumer, producer = scene(waits, FRAME)
    message = frames.message(b"x" * 3000)
    producer.send(frames.transfer(0, message[:1800], more=True), frames.transfer(None, message[1800:]))
    found = sent(consumer, waits)
    assert whole(found) == message
    assert {transfer.delivery_id for transfer, _ in found[1:]} <= {None, found[0][0].delivery_id}
    assert [bool(transfer.more) for transfer, _ in found] == [True] * (len(found) - 1) + [False]


def test_bytes_are_not_kept_after_they_are_sent() -> None:
    hub, consumer, producer = scene(True)
    producer.send(frames.transfer(0, frames.message(b"x" * 1000)))
    budget = core_of(hub).budget
    assert budget.kept > 1000
    sent(consumer, True)
    assert budget.kept == 0
