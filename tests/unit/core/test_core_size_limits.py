"""Several consumers of which some take messages up to a size only: a message goes to one that takes it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.test_core_oversized import CONDITION, conditions, consumer_of, parts_of, producer_of, transfers
from waymesh_amqp.outcomes import ACCEPTED


@pytest.fixture(params=["balanced", "closest"])
def hub(request: pytest.FixtureRequest) -> Hub:
    made = core_hub()
    phases = {"ingressPhase": None, "egressPhase": None, "waypoint": False}
    core_of(made).address_table.add_pattern({"pattern": None, "prefix": "q", "distribution": request.param, **phases})
    return made


def numbers(peer: Peer) -> int:
    """How many deliveries it was sent."""
    return len([t for t in transfers(peer) if t.delivery_id is not None])


def test_large_messages_go_to_those_that_take_them(hub: Hub) -> None:
    small, large, larger = (consumer_of(hub, 99, max_message_size=most) for most in (100, 200, 0))
    producer = producer_of(hub)
    for number in range(12):
        producer.send(*parts_of([101 if number % 2 else 201], number))
    assert numbers(small) == 0
    assert numbers(larger) >= 6, "among them all that only it takes"
    assert 1 <= numbers(large) <= 6
    assert conditions(producer.take()) == []


def test_without_credit_of_that_one_a_message_waits_for_it(hub: Hub) -> None:
    small, large = consumer_of(hub, max_message_size=100), consumer_of(hub, 0)
    producer = producer_of(hub)
    answers = producer.send(*parts_of([101], 0), *parts_of([100], 1))
    assert numbers(small) == 1, "what it takes does not wait behind what it does not take"
    assert numbers(large) == 0
    large.end.feed(frames.credit(9))
    assert numbers(large) == 1
    large.send(frames.disposition(0, state=ACCEPTED))
    assert conditions(answers + producer.take()) == [""]


def test_if_that_one_leaves_the_message_is_rejected(hub: Hub) -> None:
    small, large = consumer_of(hub, max_message_size=100), consumer_of(hub, 0)
    producer = producer_of(hub)
    assert conditions(producer.send(*parts_of([101]))) == []
    large.kill()
    hub.turn()
    assert (conditions(producer.take()), numbers(small)) == ([CONDITION], 0)
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.outstanding, link.unsettled, core_of(hub).budget.kept) == (0, 0, 0)


def test_if_that_one_leaves_the_message_goes_to_another_one(hub: Hub) -> None:
    consumer_of(hub, max_message_size=100)
    large, other = consumer_of(hub, 0), consumer_of(hub, 0)
    producer = producer_of(hub)
    producer.send(*parts_of([101]))
    large.kill()
    other.end.feed(frames.credit(1))
    assert numbers(other) == 1


def test_one_that_settles_at_once_and_gets_a_waiting_message(hub: Hub) -> None:
    consumer_of(hub, max_message_size=100)
    large = consumer_of(hub, 0, snd_settle_mode=1)
    producer = producer_of(hub)
    producer.send(*parts_of([101]))
    large.end.feed(frames.credit(1))
    assert numbers(large) == 1
    assert conditions(producer.take()) == [""], "accepted"


def test_a_waiting_message_expires_as_others_do(hub: Hub) -> None:
    consumer_of(hub, max_message_size=100)
    large = consumer_of(hub, 0)
    producer = producer_of(hub)
    header = b"\x00\x53\x70\xc0\x08\x03\x40\x40\x70\x00\x00\x03\xe8"  # ttl: a second
    producer.send(frames.transfer(0, header + frames.message(bytes(100))))
    core_of(hub).now += 2.0
    large.end.feed(frames.credit(1))
    assert numbers(large) == 0
    assert conditions(producer.take()) == ["amqp:precondition-failed"]
    (link,) = core_of(hub).addresses["M0q"].producers
    assert (link.outstanding, link.unsettled, core_of(hub).budget.kept) == (0, 0, 0)
