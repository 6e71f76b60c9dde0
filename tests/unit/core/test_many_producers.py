"""Credit of an address with many producers."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_router.core.addresses.table import PRODUCERS_AT_ONCE
from waymesh_router.core.portions import COST_A_TURN

MANY = PRODUCERS_AT_ONCE + 2 * COST_A_TURN


def producers(hub: Hub, count: int) -> Peer:
    peer = hub.peer().open().begin()
    for number in range(count):
        peer.send(frames.attach_sender(f"out{number}", number))
    return peer


def accepting(hub: Hub) -> list[bool]:
    """Of each producer, whether it has credit."""
    return [bool(link.accepting) for link in core_of(hub).addresses["M0q"].producers]


def finish(hub: Hub) -> int:
    """Do all portions; how many there were."""
    portions = core_of(hub).context.portions
    turns = 0
    while portions:
        portions.run()
        turns += 1
    return turns


def test_few_producers_get_credit_at_once() -> None:
    hub = core_hub()
    producers(hub, PRODUCERS_AT_ONCE)
    hub.peer().open().begin().send(frames.attach_receiver())
    assert accepting(hub) == [True] * PRODUCERS_AT_ONCE
    assert finish(hub) == 0


def test_many_producers_get_credit_in_portions_and_lose_it_in_portions() -> None:
    hub = core_hub()
    producers(hub, MANY)
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver())
    some = sum(accepting(hub))
    assert 0 < some < MANY
    assert accepting(hub) == [True] * some + [False] * (MANY - some), "in the order in which they have attached"
    assert finish(hub) > 2
    assert accepting(hub) == [True] * MANY
    consumer.send(frames.detach())
    assert 0 < sum(accepting(hub)) < MANY
    finish(hub)
    assert accepting(hub) == [False] * MANY


def test_a_consumer_that_comes_and_goes_leaves_no_credit() -> None:
    hub = core_hub()
    producers(hub, MANY)
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver())
    consumer.send(frames.detach())
    finish(hub)
    assert accepting(hub) == [False] * MANY
    consumer.send(frames.attach_receiver("again", 1))
    finish(hub)
    assert accepting(hub) == [True] * MANY


def test_producers_that_leave_between_two_portions() -> None:
    hub = core_hub()
    peer = producers(hub, MANY)
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver())
    peer.send(*[frames.detach(number) for number in range(0, MANY, 2)])
    finish(hub)
    assert accepting(hub) == [True] * (MANY // 2)
    peer.kill()
    consumer.kill()
    finish(hub)
    assert "M0q" not in core_of(hub).addresses
