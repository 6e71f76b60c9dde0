"""Deliveries that end early: the consumer or producer is lost, or gives up the delivery."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_amqp.types import decode
from waymesh_router.core.settlement.outcomes import MODIFIED_FAILED

FAILED = decode(MODIFIED_FAILED)[0]


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def pair(hub: Hub, credit: int) -> tuple[Peer, Peer]:
    """A consumer and a producer of one address."""
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    producer = hub.peer().open().begin()
    producer.send(frames.attach_sender())
    return consumer, producer


def states(peer: Peer) -> list[Any]:
    found = []
    for d in peer.take():
        if isinstance(d, Disposition):
            last = d.first if d.last is None else d.last
            found += [d.state] * (last - d.first + 1)
    return found


def transfers(peer: Peer) -> list[Transfer]:
    return [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


@pytest.mark.parametrize("lost", ["connection", "link"])
@pytest.mark.parametrize(
    ("credit", "settled", "told"),
    [
        (2, 0, [FAILED, FAILED]),
        (2, 1, [ACCEPTED, FAILED]),
        (0, 0, [RELEASED, RELEASED]),
        (1, 0, [FAILED, RELEASED]),
    ],
    ids=["both sent", "one settled", "none sent", "one sent"],
)
def test_a_lost_consumer(hub: Hub, lost: str, credit: int, settled: int, told: list[Any]) -> None:
    consumer, producer = pair(hub, credit)
    producer.send(frames.transfer(0), frames.transfer(1))
    if settled:
        consumer.send(frames.disposition(0, last=settled - 1))
    if lost == "connection":
        consumer.kill()
    else:
        consumer.send(frames.detach(closed=True))
    assert sorted(map(repr, states(producer))) == sorted(map(repr, told))


def test_a_delivery_without_its_end_is_aborted_when_the_producer_is_lost(hub: Hub) -> None:
    consumer, producer = pair(hub, 2)
    producer.send(frames.transfer(0, more=True))
    assert [bool(t.aborted) for t in transfers(consumer)] == [False]
    producer.kill()
    assert [bool(t.aborted) for t in transfers(consumer)] == [True]


def test_an_abort_reaches_the_consumer_and_the_next_delivery_follows(hub: Hub) -> None:
    consumer, producer = pair(hub, 2)
    producer.send(frames.transfer(0, more=True), frames.transfer(0, b"", aborted=True), frames.transfer(1))
    assert [bool(t.aborted) for t in transfers(consumer)] == [False, True, False]


def test_a_waiting_delivery_that_is_aborted_leaves_nothing(hub: Hub) -> None:
    consumer, producer = pair(hub, 0)
    producer.send(frames.transfer(0, more=True), frames.transfer(0, b"", aborted=True))
    consumer.end.feed(frames.credit(2))
    assert transfers(consumer) == []


def test_a_consumer_that_refuses_an_incomplete_delivery_is_spared_the_rest(hub: Hub) -> None:
    consumer, producer = pair(hub, 2)
    producer.send(frames.transfer(0, more=True))
    consumer.send(frames.disposition(0, state=RELEASED))
    assert states(producer) == [RELEASED]
    producer.send(frames.transfer(0, more=True), frames.transfer(0))
    assert [bool(t.aborted) for t in transfers(consumer)] in ([], [True])
