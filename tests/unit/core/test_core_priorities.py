"""Deliveries go to the highest priority with room, here or at other routers that tell it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.demand import KEY, Told, ask, got, later, record, remote, send, tell_room
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.types import Symbol
from waymesh_router.core.link_kinds import BALANCED


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def told(hub: Hub) -> Told:
    return record(hub)


def consumer(hub: Hub, priority: int, credit: int) -> Peer:
    """A client with a consumer of `q` that has a priority."""
    core_of(hub).address_table.get(KEY, BALANCED)
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(properties={Symbol("priority"): priority}), frames.credit(credit))
    return peer


def test_a_higher_priority_elsewhere_comes_first_up_to_its_room(hub: Hub, told: Told) -> None:
    there = remote(hub, "B")
    here = consumer(hub, 2, 10)
    tell_room(hub, "B", [5, 3, 0, 4])
    send(hub, 12)
    assert (got(there), got(here)) == (3, 9)
    send(hub, 4)
    assert (got(there), got(here)) == (3, 1), "nobody above 0 has room"


def test_equal_priorities_share(hub: Hub, told: Told) -> None:
    there, here = remote(hub, "B"), consumer(hub, 5, 10)
    tell_room(hub, "B", [5, 10])
    send(hub, 10)
    assert got(there) + got(here) == 10
    core_of(hub).nodes["B"].cost = 1
    assert core_of(hub).addresses[KEY].targets["B"].outstanding in {4, 5}


def test_the_highest_of_several_routers(hub: Hub, told: Told) -> None:
    peers = [remote(hub, name) for name in "BCD"]
    tell_room(hub, "B", [1, 10])
    tell_room(hub, "C", [3, 4, -1, 10])
    send(hub, 8)
    assert [got(peer) for peer in peers] == [4, 4, 0], "D tells nothing: priority 0"


def test_what_nobody_has_room_for_waits_and_asks(hub: Hub, told: Told) -> None:
    peers = [remote(hub, name) for name in "BC"]
    tell_room(hub, "B", [5, 2])
    tell_room(hub, "C", [1, 1])
    send(hub, 10)
    assert [got(peer) for peer in peers] == [2, 1]
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 1), ("C", 1)]
    tell_room(hub, "C", [1, 4])
    assert [got(peer) for peer in peers] == [0, 3]
    tell_room(hub, "B", [5, 6])
    assert [got(peer) for peer in peers] == [4, 0]


def test_pre_settled_deliveries_do_not_wait_for_room(hub: Hub, told: Told) -> None:
    peers = [remote(hub, name) for name in "BC"]
    tell_room(hub, "B", [5, 0])
    tell_room(hub, "C", [1, 0])
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender())
    sender.send(*[frames.transfer(number, settled=True) for number in range(4)])
    assert sum(got(peer) for peer in peers) == 4


def test_flow_is_asked_for_before_anything_waits(hub: Hub, told: Told) -> None:
    """So that several routers that send share the room."""
    remote(hub, "B"), remote(hub, "C")
    tell_room(hub, "B", [5, 100])
    later(hub, 0.5)
    assert told.take() == []
    send(hub, 1)
    later(hub, 0.5)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 1), ("C", 1)]
    later(hub, 3.0)
    later(hub, 0.5)
    assert [(router, body["waits"]) for router, body in told.take()] == [("B", 0), ("C", 0)]
    assert core_of(hub).addresses[KEY].targets["B"].window.announced == 100.0


def test_priorities_are_forgotten_when_they_end_or_their_router_leaves(hub: Hub, told: Told) -> None:
    core = core_of(hub)
    remote(hub, "B"), remote(hub, "C")
    address = core.addresses[KEY]
    for end in ("told", "left"):
        tell_room(hub, "B", [5, 1])
        assert (address.prioritized, address.ranked) == (True, True)
        if end == "told":
            tell_room(hub, "B", [])
        else:
            core.remote_routers.remove_consumers("B", KEY)
            later(hub, 0.25)
        assert (address.prioritized, address.ranked) == (False, False)


def test_who_believes_in_priorities_here_by_mistake_is_told(hub: Hub, told: Told) -> None:
    remote(hub, "B")
    consumer(hub, 0, 1)
    tell_room(hub, "B", [0, 7])
    assert told.take() == [("B", {"address": KEY, "ranks": []})]


def test_local_consumers_are_not_held_back(hub: Hub, told: Told) -> None:
    """Priorities go by credit."""
    ask(hub, "B")
    peer = consumer(hub, 3, 100)
    send(hub, 80)
    assert got(peer) == 80
