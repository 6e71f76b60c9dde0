"""A disposition of many deliveries is applied in portions, within the budget of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import SENDER
from tests.kit.pump import End, Peer, core_hub
from waymesh_amqp.outcomes import ACCEPTED, modified
from waymesh_amqp.performatives import Attach, Disposition, Transfer
from waymesh_amqp.types import Described

COUNT = 3000
SOME = 250
A_TURN = 1024
"""Deliveries that a turn's budget allows."""
LAST = (1 << 31) - 1
STATE = modified(delivery_failed=True, undeliverable_here=True)


def pair(count: int = COUNT) -> tuple[Peer, Peer]:
    """A consumer that was sent `count` unsettled deliveries, and their producer."""
    core = core_hub()
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(1 << 20, incoming_window=1 << 20))
    producer = core.peer().open().begin()
    producer.conn.link_capacity = 1 << 20
    producer.send(frames.attach_sender())
    for first in range(0, count, SOME):
        producer.send(*(frames.transfer(number) for number in range(first, min(first + SOME, count))))
    assert sum(isinstance(p, Transfer) for p in consumer.take()) == count
    return consumer, producer


def turns(peer: Peer, *data: bytes) -> list[int]:
    """Send bytes; unsettled deliveries of the connection after each turn that has a budget as the runtime gives it."""
    end: End = peer.end
    end.tail += b"".join(data)
    left = []
    while end.tail:
        peer.conn.budget = 256
        used = peer.conn.receive(memoryview(end.tail), len(end.tail))
        end.tail = end.tail[used:]
        left.append(unsettled(peer))
        if used == 0 and peer.conn.budget > 0:
            break
    peer.hub.turn()
    peer.hub.finish()
    return left


def unsettled(peer: Peer) -> int:
    session = peer.session()
    return int(session.unsettled_in.count + session.unsettled_out.count)


def settled(peer: Peer) -> dict[int, Any]:
    """The states of the deliveries that the peer was told of, each once."""
    found: dict[int, Any] = {}
    for answer in peer.take():
        if isinstance(answer, Disposition):
            for did in range(answer.first, (answer.first if answer.last is None else answer.last) + 1):
                assert did not in found, f"{did} was settled twice"
                found[did] = answer.state
    return found


@pytest.mark.parametrize("last", [COUNT - 1, COUNT + 5000, LAST], ids=["exact", "beyond", "all"])
@pytest.mark.parametrize("state", [ACCEPTED, STATE], ids=["accepted", "modified"])
def test_each_delivery_is_settled_once(last: int, state: Described) -> None:
    consumer, producer = pair()
    left = turns(consumer, frames.disposition(0, last=last, state=state))
    assert left[-1] == 0
    assert all(before - after <= A_TURN for before, after in zip([COUNT, *left], left, strict=False))
    assert settled(producer) == dict.fromkeys(range(COUNT), state)
    assert unsettled(producer) == 0


def test_a_part_of_them() -> None:
    consumer, producer = pair()
    turns(consumer, frames.disposition(100, last=2500))
    assert settled(producer).keys() == set(range(100, 2501))
    assert unsettled(consumer) == COUNT - 2401


def test_a_sender_settles_many() -> None:
    consumer, producer = pair()
    left = turns(producer, frames.disposition(0, role=SENDER, last=LAST, state=None))
    assert len(left) > 2
    assert settled(consumer).keys() == set(range(COUNT))
    assert unsettled(consumer) == unsettled(producer) == 0


def test_states_that_settle_nothing() -> None:
    consumer, producer = pair()
    turns(consumer, frames.disposition(0, last=LAST, settled=False))
    assert settled(producer) == dict.fromkeys(range(COUNT), ACCEPTED)
    assert unsettled(consumer) == COUNT


def test_many_ranges_that_are_not_wide_share_the_budget() -> None:
    consumer, producer = pair()
    ranges = [frames.disposition(first, last=first + 199) for first in range(0, COUNT, 200)]
    left = turns(consumer, *ranges)
    assert all(before - after <= A_TURN + 200 for before, after in zip([COUNT, *left], left, strict=False))
    assert settled(producer).keys() == set(range(COUNT))


def test_what_happens_between_two_portions() -> None:
    """A delivery of the range is settled by its producer, and another one is sent: its id is in the range, too."""
    consumer, producer = pair()
    end = consumer.end
    end.tail = frames.disposition(0, last=LAST) + frames.attach_receiver("later", 5)
    consumer.conn.budget = 256
    assert consumer.conn.receive(memoryview(end.tail), len(end.tail)) == 0, "the frame is not used up"
    producer.end.feed(frames.disposition(COUNT - 1, role=SENDER, state=None) + frames.transfer(COUNT))
    turns(consumer)
    assert unsettled(consumer) == 1
    assert settled(producer).keys() == set(range(COUNT - 1))
    seen = consumer.take()
    assert [p.name for p in seen if isinstance(p, Attach)] == ["later"], "the frames behind it follow"
    turns(consumer, frames.disposition(COUNT))
    assert settled(producer).keys() == {COUNT}


def test_the_session_ends_between_two_portions() -> None:
    """The deliveries that are left get the outcome of a lost consumer, or that of the range, whatever comes first."""
    consumer, producer = pair()
    end = consumer.end
    end.tail = frames.disposition(0, last=LAST)
    consumer.conn.budget = 256
    assert consumer.conn.receive(memoryview(end.tail), len(end.tail)) == 0
    consumer.session().end("amqp:not-allowed", "enough")
    consumer.conn.budget = 256
    turns(consumer)
    found = settled(producer)
    assert found.keys() == set(range(COUNT))
    assert list(found.values()).count(ACCEPTED) >= A_TURN
    assert {state.descriptor for state in found.values()} <= {ACCEPTED.descriptor, STATE.descriptor}
    consumer.kill()


def test_the_connection_is_lost_between_two_portions() -> None:
    consumer, producer = pair()
    data = frames.disposition(0, last=LAST)
    consumer.conn.budget = 256
    assert consumer.conn.receive(memoryview(data), len(data)) == 0
    consumer.kill()
    producer.hub.finish()
    assert settled(producer).keys() == set(range(COUNT))
    assert unsettled(producer) == 0


def test_an_unusual_encoding_goes_on_as_well() -> None:
    consumer, producer = pair()
    usual = frames.disposition(0, last=LAST)
    symbolic = usual[8:].replace(b"\x00\x53\x15", b"\x00\xa3\x15amqp:disposition:list", 1)
    turns(consumer, frames.raw_frame(symbolic))
    assert settled(producer).keys() == set(range(COUNT))


def test_a_hub_without_budgets_applies_all_at_once() -> None:
    consumer, producer = pair()
    consumer.conn.budget = 1 << 62
    consumer.send(frames.disposition(0, last=LAST))
    assert settled(producer).keys() == set(range(COUNT))
