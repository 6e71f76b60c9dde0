"""Link credit, drain, echo. Spec: 2.6.7, 2.7.4"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from waymesh_amqp.link import Link
from waymesh_amqp.performatives import Detach, Flow, Transfer

WRAP = 1 << 32


def flows(answers: list[Any]) -> list[Flow]:
    return [a for a in answers if isinstance(a, Flow)]


def ids(answers: list[Any]) -> list[int]:
    """Delivery-ids of the first frames of deliveries."""
    return [a.delivery_id for a in answers if isinstance(a, Transfer) and a.delivery_id is not None]


def pair(core: Hub, **over: Any) -> tuple[Peer, Peer]:
    """A consumer and a producer of `q`, no credit given yet."""
    consumer = core.peer().open(**over).begin()
    consumer.send(frames.attach_receiver())
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    return consumer, producer


def sender_that_sent(mapped: Peer, count: int) -> Link:
    """Our end of a link with a credit of 10, on which so many unsettled deliveries have arrived."""
    mapped.send(frames.attach_sender())
    for i in range(count):
        mapped.send(frames.transfer(i))
    link: Link = mapped.handler.links[0]
    return link


def fill(producer: Peer, count: int, first: int = 0, payload: bytes | None = None) -> None:
    for i in range(first, first + count):
        producer.send(frames.transfer(i, payload, settled=True))


# ---- credit that we give
def test_2_6_7_link_gets_its_capacity_as_credit(mapped: Peer) -> None:
    (flow,) = flows(mapped.send(frames.attach_sender()))
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 0, 10, False)


def test_2_6_7_credit_is_counted_from_the_initial_delivery_count(mapped: Peer) -> None:
    (flow,) = flows(mapped.send(frames.attach_sender(initial_delivery_count=WRAP - 2)))
    assert flow.delivery_count == WRAP - 2
    for i in range(5):
        mapped.send(frames.transfer(i))
    assert mapped.handler.links[0].delivery_count == 3
    assert mapped.handler.links[0].credit == 5


def test_2_6_7_credit_comes_back_when_deliveries_are_done_with(mapped: Peer) -> None:
    link = sender_that_sent(mapped, 9)
    assert link.credit == 1
    link.return_credit()
    link.return_credit()
    assert mapped.take() == []
    link.return_credit()
    (flow,) = flows(mapped.take())
    assert (flow.delivery_count, flow.link_credit) == (9, 4)


def test_2_6_7_a_sender_without_credit_gets_back_each_one_at_once(mapped: Peer) -> None:
    """A consumer may settle nothing more until it has what the sender cannot send."""
    link = sender_that_sent(mapped, 10)
    link.return_credit()
    (flow,) = flows(mapped.take())
    assert (flow.delivery_count, flow.link_credit) == (10, 1)


def test_2_6_7_a_sender_that_uses_its_last_credit_gets_what_was_collected(mapped: Peer) -> None:
    link = sender_that_sent(mapped, 9)
    link.return_credit()
    link.return_credit()
    assert mapped.take() == []
    (flow,) = flows(mapped.send(frames.transfer(9)))
    assert (flow.delivery_count, flow.link_credit) == (10, 2)


@pytest.mark.parametrize("settled", [False, True])
def test_2_8_18_transfers_beyond_a_window_of_excess_detach_the_link_alone(mapped: Peer, settled: bool) -> None:
    """The credit is 10; as many again are tolerated and counted."""
    mapped.send(frames.attach_sender("other", 1), frames.attach_sender("l", 0))
    for i in range(20):
        mapped.send(frames.transfer(i, settled=settled))
    assert mapped.handler.links[1].excess == 10
    (detach,) = mapped.send(frames.transfer(20, settled=settled))
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"
    assert len(mapped.handler.named("transfer")) == 20
    mapped.send(frames.transfer(21, handle=1))
    assert len(mapped.handler.named("transfer")) == 21


def test_2_6_7_a_sender_gets_no_credit_by_saying_that_it_gave_some_up(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    for i in range(20):
        mapped.send(frames.transfer(i))
    for count in (21, 40):
        mapped.send(frames.credit(0, 0, count))
    (detach,) = [answer for answer in mapped.send(frames.transfer(20)) if isinstance(answer, Detach)]
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"


def test_2_6_7_excess_deliveries_use_up_the_credit_that_follows(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    for i in range(13):
        mapped.send(frames.transfer(i))
    link = mapped.handler.links[0]
    assert (link.credit, link.excess) == (-3, 3)
    for _ in range(13):
        link.return_credit()
    assert (link.credit + link.replenish, link.outstanding) == (10, 0)


def test_2_6_7_sender_that_advances_its_count_gets_new_credit(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    (flow,) = flows(mapped.send(frames.flow(handle=0, delivery_count=4, link_credit=6)))
    assert (flow.delivery_count, flow.link_credit) == (4, 10)


def test_2_6_7_delivery_count_that_goes_back_is_ignored(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    mapped.send(frames.transfer(0))
    assert mapped.send(frames.flow(handle=0, delivery_count=0)) == []
    assert mapped.handler.links[0].delivery_count == 1


def test_2_6_7_credit_is_taken_back_by_drain(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.detach())
    (flow,) = flows(producer.take())
    assert flow.drain
    assert flow.link_credit == 250
    assert producer.send(frames.flow(handle=0, delivery_count=250, link_credit=0, drain=True)) == []
    consumer.send(frames.attach_receiver())
    (again,) = flows(producer.take())
    assert (again.delivery_count, again.link_credit, again.drain) == (250, 250, False)


def test_2_7_4_link_flow_with_echo_is_answered(mapped: Peer) -> None:
    mapped.send(frames.attach_sender())
    (flow,) = flows(mapped.send(frames.flow(handle=0, delivery_count=0, echo=True)))
    assert (flow.handle, flow.link_credit, flow.echo) == (0, 10, False)


# ---- credit that we get
def test_2_6_7_no_more_deliveries_than_credit(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(2))
    fill(producer, 5)
    assert ids(consumer.take()) == [0, 1]
    assert ids(consumer.send(frames.credit(2, delivery_count=2, next_incoming_id=2))) == [2, 3]


def test_2_6_7_credit_counts_from_what_the_receiver_has_seen(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(2))
    fill(producer, 5)
    assert ids(consumer.take()) == [0, 1]
    assert ids(consumer.send(frames.credit(3, delivery_count=1, next_incoming_id=1))) == [2, 3]


@pytest.mark.parametrize("count", [0x7FFFFFFE, WRAP - 2])
def test_2_8_10_delivery_count_wraps(core: Hub, count: int) -> None:
    consumer, producer = pair(core)
    link = consumer.session().links[0]
    link.delivery_count = count
    consumer.send(frames.credit(3, delivery_count=count))
    fill(producer, 6)
    assert ids(consumer.take()) == [0, 1, 2]
    assert link.delivery_count == (count + 3) % WRAP
    assert ids(consumer.send(frames.credit(2, delivery_count=(count + 3) % WRAP, next_incoming_id=3))) == [3, 4]


@pytest.mark.parametrize("amount", [0x7FFFFFFF, 0x80000000, WRAP - 1])
def test_2_6_7_very_much_credit(core: Hub, amount: int) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(amount))
    fill(producer, 3)
    assert ids(consumer.take()) == [0, 1, 2]
    (flow,) = flows(consumer.send(frames.credit(amount, delivery_count=3, next_incoming_id=3, echo=True)))
    assert flow.link_credit == amount


def test_2_6_7_credit_before_the_initial_count_was_seen(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.flow(handle=0, link_credit=2))
    fill(producer, 3)
    assert ids(consumer.take()) == [0, 1]


def test_2_6_7_credit_can_be_reduced_to_nothing(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(10))
    consumer.send(frames.credit(0))
    fill(producer, 3)
    assert ids(consumer.take()) == []


def test_2_6_7_flow_without_credit_field_leaves_the_credit(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(5))
    consumer.send(frames.flow(handle=0))
    fill(producer, 3)
    assert ids(consumer.take()) == [0, 1, 2]


def test_2_6_7_credit_given_with_the_attach_in_one_write(core: Hub) -> None:
    consumer = core.peer().open().begin()
    consumer.send(frames.attach_receiver() + frames.credit(2))
    producer = core.peer().open().begin()
    producer.send(frames.attach_sender())
    fill(producer, 3)
    assert ids(consumer.take()) == [0, 1]


# ---- drain
def test_2_6_7_drain_with_nothing_to_send_consumes_the_credit(core: Hub) -> None:
    consumer, _ = pair(core)
    (flow,) = flows(consumer.send(frames.credit(5, drain=True)))
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


def test_2_6_7_drain_sends_what_waits_first(core: Hub) -> None:
    consumer, producer = pair(core)
    fill(producer, 3)
    answers = consumer.send(frames.credit(5, drain=True))
    assert ids(answers) == [0, 1, 2]
    (flow,) = flows(answers)
    assert (flow.delivery_count, flow.link_credit) == (5, 0)
    assert isinstance(answers[-1], Flow)


def test_2_6_7_drained_link_sends_again_after_new_credit(core: Hub) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(5, drain=True))
    fill(producer, 1)
    assert consumer.take() == []
    assert ids(consumer.send(frames.credit(1, delivery_count=5))) == [0]


def test_2_6_7_drain_wraps_the_delivery_count(core: Hub) -> None:
    consumer, _ = pair(core)
    consumer.session().links[0].delivery_count = WRAP - 2
    (flow,) = flows(consumer.send(frames.credit(5, delivery_count=WRAP - 2, drain=True)))
    assert (flow.delivery_count, flow.link_credit) == (3, 0)


@pytest.mark.parametrize("early", [True, False], ids=["straight", "waiting"])
def test_2_6_7_drain_while_a_delivery_is_under_way_ends_with_it(core: Hub, early: bool) -> None:
    consumer, producer = pair(core)
    if early:
        consumer.send(frames.credit(3))
    producer.send(frames.transfer(0, frames.message(b"x" * 50), settled=True, more=True))
    assert flows(consumer.send(frames.credit(3, drain=True))) == []
    producer.send(frames.transfer(None, b"end"))
    answers = consumer.take()
    assert answers[-2].more is False
    assert (answers[-1].delivery_count, answers[-1].link_credit, answers[-1].drain) == (3, 0, True)


def test_2_6_7_drain_while_a_delivery_waits_for_the_session_window(core: Hub) -> None:
    consumer, producer = pair(core, max_frame_size=512)
    consumer.send(frames.credit(3, incoming_window=2))
    fill(producer, 1, payload=frames.message(b"x" * 2000))
    assert flows(consumer.send(frames.credit(3, drain=True, next_incoming_id=0, incoming_window=2))) == []
    answers = consumer.send(frames.flow(next_incoming_id=2, incoming_window=100))
    assert (answers[-1].delivery_count, answers[-1].link_credit) == (3, 0)


def test_2_6_7_two_consumers_each_take_their_credit(core: Hub) -> None:
    consumer, producer = pair(core)
    other = core.peer().open().begin()
    other.send(frames.attach_receiver(), frames.credit(2))
    consumer.send(frames.credit(2))
    fill(producer, 6)
    assert len(ids(consumer.take())) == 2
    assert len(ids(other.take())) == 2
    assert len(ids(other.send(frames.credit(9, delivery_count=2, next_incoming_id=2)))) == 2


# ---- drain, echo and available together
@pytest.mark.parametrize("waiting", [0, 3, 5, 8])
def test_2_7_4_a_drain_with_echo_is_answered_when_it_is_done(core: Hub, waiting: int) -> None:
    consumer, producer = pair(core)
    fill(producer, waiting)
    answers = consumer.send(frames.credit(5, drain=True, echo=True))
    assert ids(answers) == list(range(min(waiting, 5)))
    assert isinstance(answers[-1], Flow)
    assert {(f.delivery_count, f.link_credit, f.echo, f.available) for f in flows(answers)} == {(5, 0, False, None)}


def test_2_7_4_an_echo_during_a_drain_tells_the_credit_that_is_left(core: Hub) -> None:
    consumer, producer = pair(core)
    producer.send(frames.transfer(0, frames.message(b"x" * 50), settled=True, more=True))
    (flow,) = flows(consumer.send(frames.credit(3, drain=True, echo=True)))
    assert (flow.delivery_count, flow.link_credit) == (1, 2)
    producer.send(frames.transfer(None, b"end"))
    (done,) = flows(consumer.take())
    assert (done.delivery_count, done.link_credit, done.drain) == (3, 0, True)


@pytest.mark.parametrize("credit", [0, 5])
def test_2_6_7_a_drain_without_credit_left_needs_no_answer_but_for_the_echo(core: Hub, credit: int) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(credit))
    fill(producer, credit)
    consumer.take()
    used = {"delivery_count": credit, "next_incoming_id": credit, "drain": True}
    assert flows(consumer.send(frames.credit(0, **used))) == []
    (flow,) = flows(consumer.send(frames.credit(0, **used, echo=True)))
    assert (flow.delivery_count, flow.link_credit) == (credit, 0)


@pytest.mark.parametrize("available", [0, 1, WRAP - 1])
@pytest.mark.parametrize("drain", [False, True])
def test_2_6_7_what_a_producer_has_available_changes_no_credit(core: Hub, available: int, drain: bool) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(2))
    link = producer.session().links[0]
    before = link.credit
    count = before if drain else 0
    said = frames.flow(handle=0, delivery_count=count, link_credit=before - count, available=available, drain=drain)
    producer.send(said)
    assert link.credit == before, "all of it, or what was used up is given again"
    assert consumer.take() == []
    producer.send(frames.transfer(0, settled=True))
    assert ids(consumer.take()) == [0]


@pytest.mark.parametrize("available", [0, 7, WRAP - 1])
def test_2_7_4_available_from_a_consumer_has_no_meaning(core: Hub, available: int) -> None:
    consumer, producer = pair(core)
    consumer.send(frames.credit(2, available=available))
    fill(producer, 3)
    assert ids(consumer.take()) == [0, 1]
