"""Deliveries that end early: the consumer or producer is lost, or gives up the delivery."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub
from tests.unit.core.edge_peer import edge_connection
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Close, Detach, Disposition, Transfer
from waymesh_amqp.types import Described, decode
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


# ---- messages over the maximum size
class Sizes:
    """An access that allows messages of up to 100 octets, and counts larger ones."""

    def __init__(self) -> None:
        self.too_large = 0

    def attach(self, link: Any, _attach: Any) -> None:
        link.max_message_size = 100
        link.permit = SimpleNamespace(message_too_large=self._count, ended=lambda _link: None)

    def _count(self) -> None:
        self.too_large += 1

    def closed(self) -> None:
        pass

    def in_group(self) -> bool:
        return True


def limited(peer: Peer) -> Sizes:
    sizes = peer.conn.access = Sizes()
    peer.send(frames.attach_sender())
    return sizes


def body(octets: int) -> bytes:
    """A data section of this many octets in all."""
    return b"\x00\x53\x75\xb0" + (octets - 8).to_bytes(4, "big") + bytes(octets - 8)


@pytest.mark.parametrize("parts", [[101], [60, 41], [40, 40, 21], [101, 9, 9], [60, 60, 9, 9]])
def test_a_message_of_an_edge_router_that_is_too_large_is_rejected_alone(hub: Hub, parts: list[int]) -> None:
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(9))
    edge = edge_connection(hub)
    sizes = limited(edge)
    whole = body(sum(parts))
    told: list[Any] = []
    for number, size in enumerate(parts):
        at = sum(parts[:number])
        part = whole[at : at + size]
        told += edge.send(frames.transfer(0 if number == 0 else None, part, more=number < len(parts) - 1))
    (outcome,) = [d.state for d in told if isinstance(d, Disposition)]
    assert isinstance(outcome, Described)
    assert outcome.value[0].value[0] == "amqp:link:message-size-exceeded"
    assert not [d for d in told if isinstance(d, (Close, Detach))]
    assert sizes.too_large == 1
    seen = transfers(consumer)
    assert not seen or seen[-1].aborted
    link = next(one for one in edge.conn.sessions[0].links if one is not None)
    assert (link.outstanding, link.discard) == (0, False), "the credit of a refused message is returned"
    for number in (1, 2, 3):
        edge.send(frames.transfer(number, body(100)))
    assert [bool(t.aborted) for t in transfers(consumer)] == [False] * 3


def test_a_client_with_a_message_that_is_too_large_is_disconnected(hub: Hub) -> None:
    consumer, other = pair(hub, 9)
    client = hub.peer().open().begin()
    sizes = limited(client)
    client.send(frames.transfer(0, body(100)))
    answers = client.send(frames.transfer(1, body(120)[:60], more=True), frames.transfer(None, body(120)[60:]))
    (close,) = [d for d in answers if isinstance(d, Close)]
    assert close.error is not None
    assert close.error.condition == "amqp:connection:forced"
    assert sizes.too_large == 1
    other.send(frames.transfer(0, body(120)))
    whole = [t for t in transfers(consumer) if not t.aborted and not t.more]
    assert len(whole) == 2, "that of the client before, and that of the other"
