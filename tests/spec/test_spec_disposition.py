"""Dispositions and delivery states between two clients of a router. Spec: 2.6.12, 2.7.6, 3.4"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import RECEIVER, SENDER
from tests.kit.pump import Hub, Peer
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified, received, rejected
from waymesh_amqp.performatives import Close, Disposition, ErrorInfo, Transfer
from waymesh_amqp.types import Described, Raw, Symbol, UInt, ULong, encode

WRAP = 1 << 32


def pair(core: Hub, count: int, first: int = 0, **over: Any) -> tuple[Peer, Peer]:
    """A consumer that was sent `count` unsettled deliveries, and their producer (ids from `first` on)."""
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(**over), frames.credit(1000))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    for i in range(count):
        producer.send(frames.transfer((first + i) % WRAP))
    assert len([p for p in consumer.take() if isinstance(p, Transfer)]) == count
    return consumer, producer


def outcomes(peer: Peer) -> list[tuple[int, int, bool, Any]]:
    """Dispositions that a peer got: first, last, settled, state."""
    return [
        (d.first, d.first if d.last is None else d.last, d.settled, d.state)
        for d in peer.take()
        if isinstance(d, Disposition)
    ]


def unsettled(*peers: Peer) -> list[int]:
    """Entries in the rings of the peers' sessions."""
    return [r.count for p in peers for s in p.conn.sessions.values() for r in (s.unsettled_in, s.unsettled_out)]


@pytest.mark.parametrize(
    "state",
    [
        ACCEPTED,
        RELEASED,
        rejected(),
        rejected(ErrorInfo("amqp:not-found", "no", {Symbol("k"): 1})),
        modified(delivery_failed=True, undeliverable_here=True, annotations={Symbol("x"): "y"}),
        Described(Symbol("com.example:state:list"), [1, "two", {"three": 3}]),
        Described(ULong(1 << 40), "not even a list"),
    ],
    ids=["accepted", "released", "rejected", "rejected why", "modified", "symbolic", "foreign"],
)
def test_3_4_outcome_passes_untouched(core: Hub, state: Described) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, state=state))
    assert outcomes(producer) == [(0, 0, True, state)]
    assert unsettled(consumer, producer) == [0, 0, 0, 0]


def test_3_4_raw_bytes_of_a_state_pass_untouched(core: Hub) -> None:
    odd = b"\x00\x80" + b"\x00" * 7 + b"\x24" + b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, state=Raw(odd)))
    core.turn()
    assert odd in producer.end.written


def test_2_7_6_range_settles_each_delivery_in_it(core: Hub) -> None:
    consumer, producer = pair(core, 10)
    consumer.send(frames.disposition(2, last=7))
    assert outcomes(producer) == [(2, 7, True, ACCEPTED)]
    assert unsettled(consumer, producer) == [0, 4, 4, 0]


def test_2_7_6_neighbours_are_answered_in_one_range(core: Hub) -> None:
    consumer, producer = pair(core, 6)
    consumer.send(b"".join(frames.disposition(i) for i in range(6)))
    merged = outcomes(producer)
    assert (merged[0][0], merged[-1][1]) == (0, 5)
    assert all(m[2:] == (True, ACCEPTED) for m in merged)


def test_2_7_6_different_outcomes_are_not_merged(core: Hub) -> None:
    consumer, producer = pair(core, 4)
    consumer.send(frames.disposition(0) + frames.disposition(1, state=RELEASED) + frames.disposition(2, last=3))
    assert outcomes(producer) == [(0, 0, True, ACCEPTED), (1, 1, True, RELEASED), (2, 3, True, ACCEPTED)]


def test_2_7_6_outcomes_out_of_order(core: Hub) -> None:
    consumer, producer = pair(core, 6)
    for i in (5, 0, 3, 1, 4, 2):
        consumer.send(frames.disposition(i))
    seen: set[int] = set()
    for first, last, _, _ in outcomes(producer):
        for i in range(first, last + 1):
            assert i not in seen
            seen.add(i)
    assert seen == set(range(6))


@pytest.mark.parametrize("last", [9, 1000, 0x7FFFFFFF])
def test_2_7_6_range_wider_than_what_is_unsettled(core: Hub, last: int) -> None:
    consumer, producer = pair(core, 10)
    consumer.send(frames.disposition(0, last=last))
    assert sum(z - a + 1 for a, z, _, _ in outcomes(producer)) == 10
    assert unsettled(consumer, producer) == [0, 0, 0, 0]


def test_2_7_6_range_of_deliveries_that_are_settled_already(core: Hub) -> None:
    consumer, producer = pair(core, 3)
    consumer.send(frames.disposition(0, last=2))
    outcomes(producer)
    consumer.send(frames.disposition(0, last=2), frames.disposition(99))
    assert outcomes(producer) == []
    assert not consumer.conn.done


def test_2_7_6_last_before_first_is_an_error(core: Hub) -> None:
    consumer, producer = pair(core, 3)
    answers = consumer.send(frames.disposition(2, last=1))
    assert isinstance(answers[-1], Close)
    assert not producer.conn.done
    assert [o[3].descriptor for o in outcomes(producer)] == [0x27]


@pytest.mark.parametrize("first", [0x7FFFFFFD, WRAP - 3])
def test_2_8_10_ranges_wrap(core: Hub, first: int) -> None:
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver())
    session = consumer.session()
    session.next_delivery_id = first
    consumer.send(frames.credit(100))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    for i in range(6):
        producer.send(frames.transfer((first + i) % WRAP))
    consumer.send(frames.disposition(first, last=(first + 5) % WRAP))
    settled = {(a + i) % WRAP for a, z, _, _ in outcomes(producer) for i in range((z - a) % WRAP + 1)}
    assert settled == {(first + i) % WRAP for i in range(6)}
    assert unsettled(consumer, producer) == [0, 0, 0, 0]


def test_2_6_12_outcome_that_does_not_settle_waits_for_the_sender(core: Hub) -> None:
    consumer, producer = pair(core, 1, rcv_settle_mode=1)
    consumer.send(frames.disposition(0, settled=False))
    assert outcomes(producer) == [(0, 0, False, ACCEPTED)]
    assert unsettled(consumer, producer) == [0, 1, 1, 0]
    producer.send(frames.disposition(0, role=SENDER, state=None))
    assert outcomes(consumer) == [(0, 0, True, ACCEPTED)]
    assert unsettled(consumer, producer) == [0, 0, 0, 0]


def test_2_6_12_consumer_settles_in_two_steps(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, settled=False))
    consumer.send(frames.disposition(0, state=None))
    assert outcomes(producer) == [(0, 0, False, ACCEPTED), (0, 0, True, ACCEPTED)]


def test_3_4_1_received_is_passed_on_and_settles_nothing(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, settled=False, state=received(0, 10)))
    assert outcomes(producer) == [(0, 0, False, received(0, 10))]
    assert unsettled(consumer, producer) == [0, 1, 1, 0]


def test_2_6_12_sender_settles_by_itself(core: Hub) -> None:
    consumer, producer = pair(core, 3)
    producer.send(frames.disposition(0, role=SENDER, last=1, state=None))
    assert outcomes(consumer) == [(0, 0, True, None), (1, 1, True, None)]
    assert unsettled(consumer, producer) == [0, 1, 1, 0]


def test_2_6_12_state_of_the_sender_is_passed_on(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    producer.send(frames.disposition(0, role=SENDER, settled=False, state=received(1, 2)))
    assert outcomes(consumer) == [(0, 0, False, received(1, 2))]


@pytest.mark.parametrize("late", [False, True])
def test_2_6_12_outcome_that_a_lost_sender_cannot_confirm(core: Hub, late: bool) -> None:
    """A consumer that waits for the sender must not take its loss for a confirmation: it may send the message again."""
    consumer, producer = pair(core, 1, rcv_settle_mode=1)
    if late:
        producer.kill()
    told = consumer.send(frames.disposition(0, settled=False))
    if not late:
        producer.kill()
        told = consumer.take()
    assert [(d.first, d.settled, d.state) for d in told if isinstance(d, Disposition)] == [(0, True, RELEASED)]


def test_2_7_6_role_selects_the_direction(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, role=SENDER))
    producer.send(frames.disposition(0, role=RECEIVER))
    assert unsettled(consumer, producer) == [0, 1, 1, 0]


@pytest.mark.parametrize("batchable", [False, True])
def test_2_7_6_batchable_changes_nothing(core: Hub, batchable: bool) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, batchable=batchable))
    assert outcomes(producer) == [(0, 0, True, ACCEPTED)]


def test_2_7_6_settled_without_a_state(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, state=None))
    assert outcomes(producer) == [(0, 0, True, None)]
    assert unsettled(consumer, producer) == [0, 0, 0, 0]


@pytest.mark.parametrize("fields", [b"\x45", b"\xc0\x02\x01\x41", b"\xc0\x03\x02\x41\x40", b"\xc0\x02\x05\x41"])
def test_disposition_that_cannot_be_read_closes_the_connection(core: Hub, fields: bytes) -> None:
    consumer, producer = pair(core, 1)
    answers = consumer.send(frames.raw_frame(b"\x00\x53\x15" + fields))
    assert answers[-1].error.condition == "amqp:decode-error"
    assert not producer.conn.done


def test_2_6_12_consumer_lost_before_its_outcome(core: Hub) -> None:
    consumer, producer = pair(core, 3)
    consumer.kill()
    assert {o[3].descriptor for o in outcomes(producer)} == {0x27}
    assert unsettled(producer) == [0, 0]


def test_2_6_12_consumer_lost_in_the_middle_of_a_delivery(core: Hub) -> None:
    consumer, producer = pair(core, 0)
    producer.send(frames.transfer(0, frames.message(b"x"), more=True))
    consumer.kill()
    assert outcomes(producer) == [(0, 0, True, RELEASED)]
    producer.send(frames.transfer(None, b"rest"))
    assert unsettled(producer) == [0, 0]
    assert producer.handler.links.popitem()[1].outstanding == 0


@pytest.mark.parametrize("waits", [True, False])
def test_2_6_12_settled_consumer_lost_in_the_middle_of_an_unsettled_delivery(core: Hub, waits: bool) -> None:
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(snd_settle_mode=1))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    if not waits:
        consumer.send(frames.credit(5))
    producer.send(frames.transfer(0, frames.message(b"x"), more=True))
    if waits:
        consumer.send(frames.credit(5))
    consumer.kill()
    assert outcomes(producer) == [(0, 0, True, RELEASED)]
    producer.send(frames.transfer(None, b"rest"))
    assert unsettled(producer) == [0, 0]
    assert producer.handler.links.popitem()[1].outstanding == 0


def test_multicast_copy_of_a_settled_consumer_has_no_say(core: Hub) -> None:
    """A consumer that takes copies settled is lost while its copy waits: the other one's outcome still counts."""
    pattern = {"pattern": None, "prefix": "m", "distribution": "multicast", "ingressPhase": 0, "egressPhase": 0}
    core.handler.address_table.add_pattern(pattern)  # type: ignore[attr-defined]
    lost = core.peer().open().begin()
    lost.send(frames.attach_receiver(address="m", snd_settle_mode=1))
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver(address="m"), frames.credit(5))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender(address="m"))
    producer.send(frames.transfer(0))
    lost.kill()
    assert outcomes(producer) == []
    consumer.send(frames.disposition(0))
    assert outcomes(producer) == [(0, 0, True, ACCEPTED)]


def test_outcome_bytes_are_what_the_codec_would_write(core: Hub) -> None:
    consumer, producer = pair(core, 1)
    consumer.send(frames.disposition(0, state=Described(ULong(0x23), [UInt(5), ULong(6)])))
    core.turn()
    assert encode(Described(ULong(0x23), [UInt(5), ULong(6)])) in producer.end.written


@pytest.mark.parametrize(
    "state",
    [
        b"\x00\x53\x25\xc0\x03\x09\x40\x40",
        b"\x00\x53\x25\xc0\x04\x01\xa1\xff\x00",
        b"\x00\x53\x27\xc1\x02\x01\x40",
        b"\x43",
        b"\xa1\x01x",
        b"\x00\x53\x24\x4f",
    ],
    ids=["count", "inner length", "odd map", "uint", "string", "no constructor"],
)
def test_state_that_would_break_its_reader_is_not_passed_on(core: Hub, state: bytes) -> None:
    consumer, producer = pair(core, 1)
    answers = consumer.send(frames.disposition(0, state=Raw(state)))
    assert answers[-1].error.condition == "amqp:decode-error"
    assert [o[3].descriptor for o in outcomes(producer)] == [0x27]


def test_2_8_10_outcomes_across_the_wrap_of_the_ids_settle_nothing_else(core: Hub) -> None:
    consumer, producer = pair(core, 7, WRAP - 2)
    consumer.send(frames.disposition(5, last=6), frames.disposition(0, last=3))
    answered = outcomes(producer)
    settled = [(first + i) % WRAP for first, last, *_ in answered for i in range((last - first) % WRAP + 1)]
    assert sorted(settled) == [0, 1, 3, 4, WRAP - 2, WRAP - 1], "2 waits for its consumer"
    assert unsettled(consumer, producer) == [0, 1, 1, 0]
