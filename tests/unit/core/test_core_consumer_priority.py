"""Priorities of consumers: who has a lower one gets a message while nobody with a higher one has credit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.test_core_choice import handles, local, producer, remote, send
from waymesh_amqp.performatives import Attach, Detach, Transfer
from waymesh_amqp.types import Byte, Int, Symbol
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, MULTICAST

TREATMENTS = pytest.mark.parametrize("treatment", [BALANCED, CLOSEST], ids=["balanced", "closest"])


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, priority: Any, credit: int = 10) -> Peer:
    """A receiver with the link property `priority`."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(properties={Symbol("priority"): priority}))
    if credit:
        peer.send(frames.credit(credit))
    return peer


def sender_to(hub: Hub, treatment: int) -> Peer:
    peer = producer(hub)
    core_of(hub).addresses["M0q"].treatment = treatment
    peer.frames()
    return peer


def counts(*peers: Peer) -> list[int]:
    return [len(handles(peer)) for peer in peers]


@TREATMENTS
def test_the_highest_priority_with_credit_gets_each_message(hub: Hub, treatment: int) -> None:
    peers = [consumer(hub, priority, 3) for priority in (Byte(-1), Int(5), 2)] + [local(hub, 3)]
    sender = sender_to(hub, treatment)
    sent = 0
    for wanted in ([0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [3, 0, 0, 0]):
        sender.send(*[frames.transfer(number) for number in range(sent, sent + 3)])
        sent += 3
        assert counts(*peers) == wanted


@TREATMENTS
def test_waiting_messages_go_to_the_first_that_has_credit_again(hub: Hub, treatment: int) -> None:
    low, high = consumer(hub, 1, 0), consumer(hub, 9, 0)
    send(sender_to(hub, treatment), 3)
    assert [type(answer) for answer in low.send(frames.credit(1))] == [Transfer]
    assert [type(answer) for answer in high.send(frames.credit(10))] == [Transfer] * 2
    assert counts(low, high) == [0, 0]


@TREATMENTS
def test_consumers_of_equal_priority_share(hub: Hub, treatment: int) -> None:
    peers = [consumer(hub, priority) for priority in (4, 4, 1)]
    send(sender_to(hub, treatment), 6)
    assert counts(*peers) == [3, 3, 0]


def test_the_fewest_unsettled_deliveries_decide_among_equals_of_a_balanced_address(hub: Hub) -> None:
    first, second = consumer(hub, 4), consumer(hub, 4, 0)
    sender = sender_to(hub, BALANCED)
    send(sender, 2)
    second.send(frames.credit(10))
    sender.send(frames.transfer(2), frames.transfer(3))
    assert counts(first, second) == [2, 2]


def test_multicast_reaches_all(hub: Hub) -> None:
    peers = [consumer(hub, 5), local(hub)]
    sender = sender_to(hub, MULTICAST)
    sender.send(frames.transfer(0, settled=True))
    assert counts(*peers) == [1, 1]


@pytest.mark.parametrize(
    ("priority", "cost", "wanted"),
    [(1, 1, [6, 0]), (-1, 50, [0, 6]), (0, 50, [6, 0])],
    ids=["higher is local", "lower comes behind", "0 is balanced"],
)
def test_a_balanced_consumer_of_another_router_has_priority_0(
    hub: Hub, priority: int, cost: int, wanted: list[int]
) -> None:
    peer = remote(hub, "B", BALANCED, cost)
    here = consumer(hub, priority)
    marked = consumer(hub, -7)
    send(sender_to(hub, BALANCED), 6)
    assert counts(here, peer, marked) == [*wanted, 0]


def test_a_balanced_message_leaves_the_router_when_nobody_here_has_credit(hub: Hub) -> None:
    peer = remote(hub, "B", BALANCED, 50)
    here = consumer(hub, 9, 2)
    send(sender_to(hub, BALANCED), 3)
    assert counts(here, peer) == [2, 1]


def test_a_closest_message_stays_with_the_local_consumers(hub: Hub) -> None:
    peer = remote(hub, "B", CLOSEST)
    here = consumer(hub, -9, 2)
    send(sender_to(hub, CLOSEST), 3)
    assert counts(here, peer) == [2, 0]


def test_priorities_end_with_the_last_link_that_has_one(hub: Hub) -> None:
    plain, high, higher = local(hub), consumer(hub, 5), consumer(hub, 6)
    sender_to(hub, BALANCED)
    address = core_of(hub).addresses["M0q"]
    prioritized = [address.prioritized]
    for peer in (high, higher):
        peer.send(frames.detach())
        prioritized.append(address.prioritized)
    assert prioritized == [True, True, False]
    assert len(address.consumers) == 1
    assert counts(plain) == [0]


@pytest.mark.parametrize("priority", ["high", True, 1.5, 2**31, [1]])
def test_a_priority_that_is_no_number_is_refused_and_leaves_no_address(hub: Hub, priority: Any) -> None:
    peer = hub.peer().open().begin()
    answers = peer.send(frames.attach_receiver(properties={Symbol("priority"): priority}))
    (detach,) = [one for one in answers if isinstance(one, Detach)]
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert detach.error.description == "the link property priority must be a whole number of 32 bits"
    assert any(isinstance(one, Attach) and one.source is None for one in answers)
    assert "M0q" not in core_of(hub).addresses


@pytest.mark.parametrize("properties", [None, {}, {Symbol("priority"): None}, {Symbol("other"): "x"}])
def test_a_link_without_a_priority_costs_nothing(hub: Hub, properties: Any) -> None:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(properties=properties), frames.credit(10))
    send(producer(hub), 2)
    assert counts(peer) == [2]
    assert not core_of(hub).addresses["M0q"].prioritized
