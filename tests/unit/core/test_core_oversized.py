"""Deliveries that become too large while they arrive."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import edge_connection
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Close, Detach, Disposition, Transfer
from waymesh_amqp.types import Described

CONDITION = "amqp:link:message-size-exceeded"


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def producer_of(hub: Hub, **over: Any) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(**over))
    return peer


def consumer_of(hub: Hub, credit: int = 9, **over: Any) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(**over), *([frames.credit(credit)] if credit else []))
    return peer


def transfers(peer: Peer) -> list[Transfer]:
    return [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def conditions(answers: list[Any]) -> list[str]:
    """The conditions of rejections, "" for other outcomes."""
    found = []
    for one in answers:
        if isinstance(one, Disposition) and isinstance(one.state, Described):
            found.append(one.state.value[0].value[0] if one.state.value else "")
    return found


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
    assert outcome.value[0].value[0] == CONDITION
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
    consumer, other = consumer_of(hub), producer_of(hub)
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


# ---- over the maximum of a consumer
def parts_of(sizes: list[int], number: int = 0, **over: Any) -> list[bytes]:
    """The transfers of a message in parts of these sizes."""
    whole, made = body(sum(sizes)), []
    for at, size in enumerate(sizes):
        start = sum(sizes[:at])
        part = whole[start : start + size]
        made.append(frames.transfer(None if at else number, part, more=at < len(sizes) - 1, **over))
    return made


@pytest.mark.parametrize("parts", [[101], [60, 41], [40, 40, 21], [60, 60, 9, 9]])
@pytest.mark.parametrize("credit", [9, 0], ids=["sent on", "waiting"])
def test_a_message_that_its_only_consumer_does_not_take_is_rejected(hub: Hub, parts: list[int], credit: int) -> None:
    consumer, producer = consumer_of(hub, credit, max_message_size=100), producer_of(hub)
    answers = producer.send(*parts_of(parts))
    consumer.end.feed(b"" if credit else frames.credit(9))
    seen = transfers(consumer)
    assert conditions(answers + producer.take()) == [CONDITION]
    assert not seen or seen[-1].aborted
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.outstanding, link.discard, link.rejected) == (0, False, 1)
    assert (link.unsettled, core_of(hub).budget.kept) == (0, 0)
    assert (consumer.conn.over, core_of(hub).addresses["M0q"].consumers[0].unsettled) == (False, 0)
    producer.send(*parts_of([100], 1), *parts_of([50, 50], 2))
    assert [bool(t.aborted) for t in transfers(consumer)] == [False] * 3, "the next messages arrive"


@pytest.mark.parametrize("parts", [[101], [60, 41], [40, 40, 21, 9]])
@pytest.mark.parametrize("credit", [9, 0], ids=["sent on", "waiting"])
def test_a_pre_settled_one_is_dropped_and_counted(hub: Hub, parts: list[int], credit: int) -> None:
    consumer, producer = consumer_of(hub, credit, max_message_size=100), producer_of(hub)
    producer.send(*parts_of(parts, settled=True))
    consumer.end.feed(b"" if credit else frames.credit(9))
    hub.turn()
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.dropped_presettled, core_of(hub).counters.dropped_presettled) == (1, 1)
    assert (link.outstanding, link.discard, core_of(hub).budget.kept) == (0, False, 0)
    producer.send(*parts_of([100], 1, settled=True))
    assert not transfers(consumer)[-1].aborted


def test_one_that_is_settled_already_gets_no_second_outcome(hub: Hub) -> None:
    consumer, producer = consumer_of(hub, max_message_size=100), producer_of(hub)
    first, second = parts_of([60, 60])
    producer.send(first)
    consumer.send(frames.disposition(0, state=ACCEPTED))
    assert conditions(producer.take()) == [""]
    assert conditions(producer.send(second)) == []
    assert transfers(consumer)[-1].aborted
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.outstanding, link.accepted, link.rejected) == (0, 1, 0)


@pytest.mark.parametrize("parts", [[101], [60, 41], [60, 41, 9]])
@pytest.mark.parametrize("mode", [0, 1], ids=["unsettled", "settled"])
@pytest.mark.parametrize("credit", [9, 0], ids=["sent on", "waiting"])
def test_other_consumers_of_a_multicast_get_theirs(hub: Hub, parts: list[int], mode: int, credit: int) -> None:
    multicast(hub)
    small, large = consumer_of(hub, credit, max_message_size=100, snd_settle_mode=mode), consumer_of(hub)
    producer = producer_of(hub)
    answers = producer.send(*parts_of(parts))
    small.end.feed(b"" if credit else frames.credit(9))
    seen = transfers(large)
    assert (len(seen), bool(seen[-1].aborted), bool(seen[-1].more)) == (len(parts), False, False)
    large.send(frames.disposition(0, state=ACCEPTED))
    assert conditions(answers + producer.take()) == [CONDITION]
    seen = transfers(small)
    assert not seen or seen[-1].aborted
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.outstanding, link.unsettled, core_of(hub).budget.kept) == (0, 0, 0)
    producer.send(*parts_of([100], 1))
    assert [bool(t.aborted) for t in transfers(small) + transfers(large)] == [False, False]


@pytest.mark.parametrize("parts", [[101], [60, 41]])
@pytest.mark.parametrize("credit", [9, 0], ids=["sent on", "waiting"])
def test_a_pre_settled_copy_is_dropped_and_counted(hub: Hub, parts: list[int], credit: int) -> None:
    multicast(hub)
    small, large = consumer_of(hub, credit, max_message_size=100), consumer_of(hub)
    producer = producer_of(hub)
    producer.send(*parts_of(parts, settled=True))
    small.end.feed(b"" if credit else frames.credit(9))
    hub.turn()
    seen = transfers(large)
    assert (len(seen), bool(seen[-1].aborted)) == (len(parts), False)
    (producing,) = core_of(hub).addresses["M0q"].producers
    assert [one.dropped_presettled for one in core_of(hub).addresses["M0q"].consumers] == [1, 0]
    assert (producing.outstanding, producing.dropped_presettled, core_of(hub).budget.kept) == (0, 0, 0)


def multicast(hub: Hub) -> None:
    phases = {"ingressPhase": None, "egressPhase": None, "waypoint": False}
    core_of(hub).address_table.add_pattern({"pattern": None, "prefix": "q", "distribution": "multicast", **phases})
