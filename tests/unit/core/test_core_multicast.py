"""A delivery for several consumers: copies at once or when a consumer has credit, and one outcome."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_router.core.forwarding.expiry import A_TURN
from waymesh_router.core.forwarding.multicast import MANY_GONE
from waymesh_router.core.link_kinds import PRESETTLED_WAITING


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    core_of(hub).address_table.add_pattern({"pattern": None, "prefix": "q", "distribution": "multicast", **phases})
    return hub


def consumer(hub: Hub, credit: int, **over: Any) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(**over), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    return peer


def transfers(peer: Peer) -> list[Seen]:
    return [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def bodies(peer: Peer) -> list[bytes]:
    return [f.payload for f in transfers(peer)]


def states(peer: Peer) -> list[Any]:
    return [d.state for d in peer.take() if isinstance(d, Disposition)]


@pytest.mark.parametrize("settled", [True, False])
def test_each_consumer_gets_a_copy_when_it_has_credit(hub: Hub, settled: bool) -> None:
    ready, short, late = consumer(hub, 10), consumer(hub, 1), consumer(hub, 0)
    sender = producer(hub)
    messages = [frames.message(b"%d" % number) for number in range(3)]
    sender.send(*[frames.transfer(number, data, settled=settled) for number, data in enumerate(messages)])
    assert [bodies(peer) for peer in (ready, short, late)] == [messages, messages[:1], []]
    short.end.feed(frames.credit(10, delivery_count=1))
    late.end.feed(frames.credit(2))
    assert [bodies(peer) for peer in (short, late)] == [messages[1:], messages[:2]]
    assert core_of(hub).budget.kept > 0
    late.end.feed(frames.credit(1, delivery_count=2))
    assert bodies(late) == messages[2:]
    assert core_of(hub).budget.kept == 0


@pytest.mark.parametrize("lost", ["link", "connection"])
def test_a_consumer_that_goes_does_not_hold_up_the_outcome(hub: Hub, lost: str) -> None:
    ready, late = consumer(hub, 10), consumer(hub, 0)
    sender = producer(hub)
    sender.send(frames.transfer(0))
    ready.send(frames.disposition(0))
    assert states(sender) == []
    if lost == "link":
        late.send(frames.detach())
    else:
        late.kill()
    assert states(sender) == [ACCEPTED]
    assert core_of(hub).budget.kept == 0


def test_when_all_consumers_go_it_is_released(hub: Hub) -> None:
    consumers = [consumer(hub, 0), consumer(hub, 0)]
    sender = producer(hub)
    sender.send(frames.transfer(0))
    for peer in consumers:
        peer.kill()
    assert states(sender) == [RELEASED]


def test_a_consumer_for_settled_deliveries_has_no_part_in_the_outcome(hub: Hub) -> None:
    settled, unsettled = consumer(hub, 10, snd_settle_mode=1), consumer(hub, 10, snd_settle_mode=0)
    sender = producer(hub)
    sender.send(frames.transfer(0))
    (copy,) = transfers(settled)
    assert isinstance(copy.performative, Transfer)
    assert copy.performative.settled
    unsettled.send(frames.disposition(0, state=RELEASED))
    assert states(sender) == [RELEASED]


def test_where_all_are_for_settled_deliveries_it_is_accepted_at_once(hub: Hub) -> None:
    consumers = [consumer(hub, 10, snd_settle_mode=1) for _ in range(2)]
    answers = producer(hub).send(frames.transfer(0))
    assert [d.state for d in answers if isinstance(d, Disposition)] == [ACCEPTED]
    assert [len(bodies(peer)) for peer in consumers] == [1, 1]


def test_frames_that_come_later_go_to_those_that_have_begun_and_are_kept_for_others(hub: Hub) -> None:
    ready, late = consumer(hub, 10), consumer(hub, 0)
    sender = producer(hub)
    first, last = frames.message(b"abcdef")[:-3], b"def"
    sender.send(frames.transfer(0, first, more=True))
    assert bodies(ready) == [first]
    late.end.feed(frames.credit(0))
    sender.send(frames.transfer(None, last))
    assert bodies(ready) == [last]
    late.end.feed(frames.credit(1))
    assert b"".join(bodies(late)) == first + last


def test_one_that_joins_in_the_middle_of_a_delivery_gets_all_of_it(hub: Hub) -> None:
    ready, late = consumer(hub, 10), consumer(hub, 0)
    sender = producer(hub)
    whole = frames.message(b"abcdef")
    sender.send(frames.transfer(0, whole[:8], more=True))
    late.end.feed(frames.credit(1))
    assert bodies(late) == [whole[:8]]
    sender.send(frames.transfer(None, whole[8:]))
    assert [b"".join(bodies(peer)) for peer in (ready, late)] == [whole, whole[8:]]


def test_a_shared_session_window_is_not_exceeded(hub: Hub) -> None:
    peer = hub.peer().open().begin(incoming_window=2)
    narrow = {"incoming_window": 2}
    for handle in range(3):
        peer.send(frames.attach_receiver(f"l{handle}", handle), frames.credit(10, handle, **narrow))
    producer(hub).send(frames.transfer(0, settled=True))
    assert len(transfers(peer)) == 2
    peer.end.feed(frames.flow(next_incoming_id=2, incoming_window=2))
    assert len(transfers(peer)) == 1


def test_an_abort_reaches_each_consumer_that_has_begun(hub: Hub) -> None:
    ready, late = consumer(hub, 10), consumer(hub, 0)
    producer(hub).send(
        frames.transfer(0, frames.message()[:6], more=True), frames.transfer(None, b"", aborted=True)
    )
    assert [bool(f.performative.aborted) for f in transfers(ready)] == [False, True]  # type: ignore[union-attr]
    late.end.feed(frames.credit(1))
    assert transfers(late) == []



# ---- aborted deliveries among those that wait
def test_aborted_deliveries_leave_the_others_in_order(hub: Hub) -> None:
    slow, whole = consumer(hub, 0), producer(hub)
    aborting = [producer(hub) for _ in range(4)]
    link = next(link for link in core_of(hub).links.values() if link.is_sender)
    for number, sender in enumerate(aborting):
        sender.send(frames.transfer(0, frames.message(b"gone"), more=True))
        whole.send(frames.transfer(number, frames.message(b"%d" % number), settled=True))
    for place in (1, 0, 3, 2):
        aborting[place].send(frames.transfer(None, aborted=True))
    assert states(aborting[0]) == []
    assert core_of(hub).forwarder.multicast.gone.get(link, 0) <= 3
    slow.end.feed(frames.credit(3))
    assert bodies(slow) == [frames.message(b"%d" % number) for number in range(3)]
    slow.end.feed(frames.credit(10, delivery_count=3))
    assert bodies(slow) == [frames.message(b"3")]
    assert (link.queue, core_of(hub).forwarder.multicast.gone, core_of(hub).budget.kept) == (None, {}, 0)


def test_a_consumer_for_which_only_aborted_deliveries_waited_gets_the_next_one_at_once(hub: Hub) -> None:
    slow, sender = consumer(hub, 0), producer(hub)
    sender.send(frames.transfer(0, frames.message(b"gone"), more=True))
    sender.send(frames.transfer(None, aborted=True))
    slow.end.feed(frames.credit(10))
    sender.send(frames.transfer(1, frames.message(b"next")))
    assert bodies(slow) == [frames.message(b"next")]


def test_aborted_deliveries_do_not_pile_up_in_a_queue(hub: Hub) -> None:
    slow, first = consumer(hub, 0), producer(hub)
    link = next(link for link in core_of(hub).links.values() if link.is_sender)
    whole, many = producer(hub), hub.peer().open().begin(incoming_window=1 << 20)
    many.send(*(frames.attach_sender(f"m{handle}", handle) for handle in range(40)))
    first.send(frames.transfer(0, frames.message(b"first")))
    number = 0
    for row in range(10):
        for handle in range(40):
            many.send(frames.transfer(number, frames.message(b"gone"), handle=handle, more=True))
            number += 1
        whole.send(frames.transfer(row, frames.message(b"%d" % row)))
        many.send(*(frames.transfer(None, handle=handle, aborted=True) for handle in range(40)))
        assert len(link.queue or ()) <= 1 + (row + 1) + MANY_GONE + 40
    slow.end.feed(frames.credit(100))
    assert bodies(slow) == [frames.message(b"first"), *(frames.message(b"%d" % row) for row in range(10))]
    assert link.queue is None


@pytest.mark.parametrize("lost", ["link", "connection"])
def test_a_lost_consumer_for_which_aborted_deliveries_waited(hub: Hub, lost: str) -> None:
    slow, whole, aborting = consumer(hub, 0), producer(hub), producer(hub)
    whole.send(frames.transfer(0))
    aborting.send(frames.transfer(0, more=True))
    whole.send(frames.transfer(1))
    aborting.send(frames.transfer(None, aborted=True))
    if lost == "connection":
        slow.kill()
    else:
        slow.send(frames.detach())
    assert states(whole) == [RELEASED]
    assert (core_of(hub).forwarder.multicast.gone, core_of(hub).budget.kept) == ({}, 0)


@pytest.mark.parametrize("ready", [0, 1])
def test_each_copy_that_is_dropped_counts(hub: Hub, ready: int) -> None:
    """Also if all consumers are too slow, so that the message is dropped as a whole."""
    sender = producer(hub)
    for _ in range(3):
        consumer(hub, 0)
    if ready:
        fast = hub.peer().open().begin(incoming_window=2000)
        fast.send(frames.attach_receiver(), frames.credit(2000, incoming_window=2000))
    core = core_of(hub)
    limit = PRESETTLED_WAITING * core.addresses["M0q"].producers[0].capacity
    for number in range(limit + 10):
        sender.send(frames.transfer(number, settled=True))
    links = [core.addresses["M0q"].consumers[place] for place in range(3)]
    assert [(link.undelivered(), link.dropped_presettled) for link in links] == [(limit, 10)] * 3
    assert core.counters.dropped_presettled == 30
    assert core.addresses["M0q"].producers[0].dropped_presettled == (0 if ready else 10)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("lost", ["link", "connection"])
def test_pre_settled_copies_for_a_consumer_that_goes_are_counted(hub: Hub, lost: str, settled: bool) -> None:
    late, sender = consumer(hub, 0), producer(hub)
    consumer(hub, 0)
    (link, _) = core_of(hub).addresses["M0q"].consumers
    sender.send(*[frames.transfer(number, settled=settled) for number in range(3)])
    if lost == "link":
        late.send(frames.detach())
    else:
        late.kill()
    assert link.dropped_presettled == core_of(hub).counters.dropped_presettled == (3 if settled else 0)


def test_consumers_with_credit_lose_nothing_though_more_arrives_in_a_turn_than_is_sent_on_from_queues(hub: Hub) -> None:
    """Their queues begin when they have no credit once, and end after they have some."""
    core, sender = core_of(hub), producer(hub)
    consumers = [consumer(hub, 0) for _ in range(30)]
    a_turn, turns = 200, 10
    assert a_turn * len(consumers) > 4 * A_TURN  # else the portions alone suffice
    for turn in range(turns):
        sender.send(*[frames.transfer(a_turn * turn + n, frames.message(b"x"), settled=True) for n in range(a_turn)])
        if turn == 0:
            for peer in consumers:
                peer.end.feed(frames.credit(a_turn * turns, incoming_window=a_turn * turns))
        if core.expiry.busy:
            core.credit.end_expired()
        hub.turn()
    while core.expiry.busy and core.credit.end_expired():
        hub.turn()
    assert core.counters.dropped_presettled == 0
    assert [len(bodies(peer)) for peer in consumers] == [a_turn * turns] * len(consumers)
