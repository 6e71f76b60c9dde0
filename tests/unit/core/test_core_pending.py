"""Deliveries that wait at their address: for whom, in which order, and how they go back.

The queues are compiled: frames drive them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import Address, RouterLink

CAPACITY = 250
"""The credit of a client's sender, see RouterConnection.link_capacity."""


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, credit: int = 0) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender())
    return peer


def address_of(hub: Hub) -> Address:
    return core_of(hub).addresses["M0q"]


def link_of(hub: Hub, peer: Peer) -> RouterLink:
    return next(link for link in core_of(hub).links.values() if link.connection is peer.conn)


def waiting(hub: Hub) -> int:
    queue = address_of(hub).pending
    return 0 if queue is None else len(queue)


def bodies(peer: Peer) -> list[bytes]:
    return [f.payload for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def states(peer: Peer) -> list[Any]:
    found = []
    for d in peer.take():
        if isinstance(d, Disposition):
            found += [d.state] * ((d.first if d.last is None else d.last) - d.first + 1)
    return found


def send(peer: Peer, count: int, first: int = 0, **over: Any) -> None:
    peer.send(*(frames.transfer(first + i, frames.message(b"%d" % (first + i)), **over) for i in range(count)))


def test_there_is_no_queue_while_nothing_waits(hub: Hub) -> None:
    reader, sender = consumer(hub, 1), producer(hub)
    send(sender, 1)
    assert address_of(hub).pending is None
    send(sender, 2, 1)
    assert waiting(hub) == 2
    reader.send(frames.credit(5, delivery_count=1))
    assert address_of(hub).pending is None


def test_what_waits_goes_out_in_the_order_in_which_it_came(hub: Hub) -> None:
    reader = consumer(hub)
    one, other = producer(hub), producer(hub)
    send(one, 1, 0)
    send(other, 1, 1)
    send(one, 1, 2)
    reader.end.feed(frames.credit(10))
    assert bodies(reader) == [frames.message(b"%d" % number) for number in range(3)]


def test_a_delivery_that_comes_later_does_not_pass_those_that_wait(hub: Hub) -> None:
    """The credit of a neighbour is known before what waits for it is sent."""
    other, sender = neighbour(hub, "B", credit=0), producer(hub)
    core_of(hub).remote_routers.add_consumers("B", "M0q", BALANCED)
    send(sender, 2)
    other.end.feed(frames.credit(2, 2))
    send(sender, 1, 2)
    assert [body[-1:] for body in bodies(other)] == [b"0", b"1"]
    assert waiting(hub) == 1


def test_presettled_deliveries_beyond_a_limit_are_dropped(hub: Hub) -> None:
    consumer(hub)
    sender = producer(hub)
    for first in range(0, 4 * CAPACITY, 50):  # credit comes back as they come
        send(sender, 50, first, settled=True)
    send(sender, 3, 4 * CAPACITY, settled=True)
    assert waiting(hub) == 4 * CAPACITY
    assert core_of(hub).counters.dropped_presettled == 3
    assert link_of(hub, sender).dropped_presettled == 3


def test_a_waiting_presettled_delivery_does_not_hold_the_credit_of_its_sender(hub: Hub) -> None:
    consumer(hub)
    sender = producer(hub)
    for first in range(0, 2 * CAPACITY, 50):
        send(sender, 50, first, settled=True)
    assert waiting(hub) == 2 * CAPACITY
    assert link_of(hub, sender).credit > 0


def test_what_a_consumer_leaves_waiting_is_released_and_not_dropped_if_it_is_unsettled(hub: Hub) -> None:
    reader, sender = consumer(hub), producer(hub)
    send(sender, 2)
    send(sender, 1, 2, settled=True)
    reader.send(frames.detach())
    assert states(sender) == [RELEASED, RELEASED]
    assert core_of(hub).counters.dropped_presettled == 1


def test_only_unsettled_deliveries_of_the_link_go_back(hub: Hub) -> None:
    reader, one, other = consumer(hub), producer(hub), producer(hub)
    send(one, 1, 0)
    send(one, 1, 1, settled=True)
    send(other, 1, 2)
    core_of(hub).endpoint_links.retire(link_of(hub, one))
    hub.turn()
    assert (states(one), states(other)) == ([RELEASED], [])
    reader.end.feed(frames.credit(10))
    assert bodies(reader) == [frames.message(b"1"), frames.message(b"2")]


def test_the_rest_of_a_released_delivery_is_ignored(hub: Hub) -> None:
    reader, sender = consumer(hub), producer(hub)
    sender.send(frames.transfer(0, frames.message(b"x" * 10)[:-5], more=True))
    reader.send(frames.detach())
    assert states(sender) == [RELEASED]
    reader = consumer(hub)
    sender.send(frames.transfer(None, b"x" * 5))
    send(sender, 1, 1)
    reader.end.feed(frames.credit(10))
    assert bodies(reader) == [frames.message(b"1")]


def test_what_waits_for_a_router_that_is_unreachable_now_goes_to_the_consumer_that_is_left(hub: Hub) -> None:
    other, sender = neighbour(hub, "B", credit=0), producer(hub)
    core = core_of(hub)
    core.remote_routers.add_consumers("B", "M0q", BALANCED)
    send(sender, 1)
    assert list(other.conn.waiting) == [address_of(hub)]
    reader = consumer(hub)
    core.remote_routers.node_down("B")
    reader.end.feed(frames.credit(1))
    assert bodies(reader) == [frames.message(b"0")]
    reader.send(frames.disposition(0))
    assert states(sender) == [ACCEPTED]
