"""Forwarding and settlement of one router, between clients: choice of consumer, pending deliveries, outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified, rejected
from waymesh_amqp.performatives import Disposition, Flow, Transfer

WRAP = 1 << 32


def hub(distribution: str = "balanced", **address: Any) -> Hub:
    made = core_hub()
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    entity = {"pattern": None, "prefix": "q", "distribution": distribution, **phases, **address}
    core_of(made).address_table.add_pattern(entity)
    return made


def consumer(made: Hub, credit: int, address: str = "q", **over: Any) -> Peer:
    peer = made.peer().open().begin()
    peer.send(frames.attach_receiver(address=address, **over))
    if credit:
        peer.send(frames.credit(credit))
    return peer


def producer(made: Hub, address: str | None = "q") -> Peer:
    peer = made.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def bodies(peer: Peer) -> list[bytes]:
    """Payloads that a peer was sent since the last look."""
    return [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def states(peer: Peer) -> list[tuple[int, Any]]:
    """Outcomes that a peer was sent since the last look, by delivery id."""
    found = []
    for d in peer.take():
        if isinstance(d, Disposition):
            last = d.first if d.last is None else d.last
            found += [((d.first + i) % WRAP, d.state) for i in range((last - d.first) % WRAP + 1)]
    return found


def numbered(count: int, first: int = 0, **over: Any) -> list[bytes]:
    return [frames.transfer((first + i) % WRAP, frames.message(b"%d" % i), **over) for i in range(count)]


@pytest.mark.parametrize(
    ("distribution", "credit", "shares"),
    [
        ("closest", (10, 10, 10), [2, 2, 2]),
        ("closest", (1, 10, 10), [1, 2, 3]),
        ("balanced", (10, 10, 10), [2, 2, 2]),
        ("balanced", (0, 10, 1), [0, 1, 5]),
        ("multicast", (10, 10, 10), [6, 6, 6]),
    ],
)
def test_shares_of_consumers(distribution: str, credit: tuple[int, ...], shares: list[int]) -> None:
    made = hub(distribution)
    consumers = [consumer(made, amount) for amount in credit]
    producer(made).send(*numbered(6))
    assert sorted(len(bodies(peer)) for peer in consumers) == shares


def test_balanced_prefers_the_consumer_that_settles() -> None:
    made = hub()
    slow, fast = consumer(made, 100), consumer(made, 100)
    sender = producer(made)
    for number in range(10):
        sender.send(frames.transfer(number))
        for f in fast.frames():
            if isinstance(f, Seen) and isinstance(f.performative, Transfer):
                assert f.performative.delivery_id is not None
                fast.send(frames.disposition(f.performative.delivery_id))
    assert len(bodies(slow)) == 1


def test_deliveries_wait_for_credit_in_their_order() -> None:
    made = hub()
    receiver = consumer(made, 0)
    sender = producer(made)
    sender.send(*numbered(5))
    assert (bodies(receiver), states(sender)) == ([], [])
    receiver.end.feed(frames.credit(3))
    assert bodies(receiver) == [frames.message(b"%d" % i) for i in range(3)]
    receiver.end.feed(frames.credit(10, delivery_count=3))
    assert bodies(receiver) == [frames.message(b"%d" % i) for i in (3, 4)]


def test_without_a_consumer_a_producer_gets_no_credit() -> None:
    made = hub()
    sender = made.peer().open().begin()
    assert not any(isinstance(f, Flow) and f.link_credit for f in sender.send(frames.attach_sender()))
    consumer(made, 1)
    assert any(isinstance(f, Flow) and f.link_credit for f in sender.take())


def test_what_waits_is_released_when_the_last_consumer_goes() -> None:
    made = hub()
    first, last = consumer(made, 0), consumer(made, 0)
    sender = producer(made)
    sender.send(*numbered(2), *numbered(1, 2, settled=True))
    first.send(frames.detach(closed=True))
    assert states(sender) == []
    last.send(frames.detach(closed=True))
    assert states(sender) == [(0, RELEASED), (1, RELEASED)]
    counters = core_of(made).counters
    assert (counters.released, counters.dropped_presettled) == (2, 1)


def test_a_fallback_takes_what_has_no_consumer() -> None:
    made = hub(enableFallback=True, egressPhase="F")  # so that consumers attach to the fallback
    fallback = consumer(made, 10)
    sender = producer(made)
    sender.send(*numbered(2))
    assert len(bodies(fallback)) == 2
    assert core_of(made).counters.redirected == 2
    fallback.send(frames.disposition(0, last=1))
    assert states(sender) == [(0, ACCEPTED), (1, ACCEPTED)]


@pytest.mark.parametrize("first", [0, WRAP - 2], ids=["from 0", "across the wrap"])
@pytest.mark.parametrize(
    ("state", "counted"),
    [
        (ACCEPTED, "accepted"),
        (RELEASED, "released"),
        (rejected(), "rejected"),
        (modified(delivery_failed=True, undeliverable_here=True), "modified"),
    ],
)
def test_outcomes_come_back_and_are_counted(first: int, state: Any, counted: str) -> None:
    made = hub()
    receiver = consumer(made, 10)
    sender = producer(made)
    sender.send(*numbered(4, first))
    receiver.send(frames.disposition(0, last=3, state=state))
    assert states(sender) == [((first + i) % WRAP, state) for i in range(4)]
    counters = core_of(made).counters
    assert {name: getattr(counters, name) for name in ("accepted", "rejected", "released", "modified")} == {
        **dict.fromkeys(("accepted", "rejected", "released", "modified"), 0),
        counted: 4,
    }


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((ACCEPTED, rejected()), rejected()),
        ((RELEASED, ACCEPTED), ACCEPTED),
        ((RELEASED, modified(delivery_failed=True)), modified(delivery_failed=True)),
        ((RELEASED, RELEASED), RELEASED),
    ],
)
def test_the_outcome_of_an_unsettled_multicast_comes_last(given: tuple[Any, Any], result: Any) -> None:
    made = hub("multicast")
    consumers = [consumer(made, 10), consumer(made, 10)]
    sender = producer(made)
    sender.send(*numbered(1))
    consumers[0].send(frames.disposition(0, state=given[0]))
    assert states(sender) == []
    consumers[1].send(frames.disposition(0, state=given[1]))
    assert states(sender) == [(0, result)]


def test_a_presettled_delivery_has_no_outcome() -> None:
    made = hub()
    receiver = consumer(made, 10)
    sender = producer(made)
    sender.send(*numbered(3, settled=True))
    assert (len(bodies(receiver)), states(sender)) == (3, [])
    assert core_of(made).counters.presettled == 3


def test_an_anonymous_sender_reaches_the_address_of_each_message() -> None:
    made = hub()
    one, other = consumer(made, 10, "q/1"), consumer(made, 10, "q/2")
    sender = producer(made, None)
    for number, to in enumerate(["q/1", "q/2", "q/2", "q/3"]):
        text = to.encode()
        properties = b"\x00\x53\x73\xc0" + bytes((len(text) + 5, 3)) + b"\x40\x40\xa1" + bytes((len(text),)) + text
        sender.end.feed(frames.transfer(number, properties + frames.message()))
    assert (len(bodies(one)), len(bodies(other))) == (1, 2)
    assert [number for number, state in states(sender) if state is not None] == [3], "nobody reads q/3"
