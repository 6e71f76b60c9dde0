"""Credit, window or room on an outgoing link: what waits for it goes out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Flow, Transfer
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.portions import AT_ONCE, COST_A_TURN


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def producer(hub: Hub, address: str = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def sent(peer: Peer) -> list[Any]:
    """Handles of transfers and the flows of links that a peer was sent since the last look."""
    seen = [f.performative for f in peer.frames() if isinstance(f, Seen)]
    return [p for p in seen if isinstance(p, Transfer) or (isinstance(p, Flow) and p.handle is not None)]


def transfers(peer: Peer) -> int:
    """How many a peer was sent since the last look."""
    return count(sent(peer))


def count(found: list[Any]) -> int:
    return len([p for p in found if isinstance(p, Transfer)])


def test_credit_of_one_link_does_not_serve_another_address(hub: Hub) -> None:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver("a", 0, address="a"), frames.attach_receiver("b", 1, address="b"))
    for address in "ab":
        producer(hub, address).send(frames.transfer(0), frames.transfer(1))
    peer.end.feed(frames.credit(10, 1))
    assert [p.handle for p in sent(peer) if isinstance(p, Transfer)] == [1, 1]
    peer.end.feed(frames.credit(1, 0))
    assert [p.handle for p in sent(peer) if isinstance(p, Transfer)] == [0]


def test_a_drain_ends_after_what_waits_was_sent(hub: Hub) -> None:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver())
    producer(hub).send(frames.transfer(0), frames.transfer(1))
    peer.end.feed(frames.credit(5, drain=True))
    first, second, flow = sent(peer)
    assert isinstance(first, Transfer)
    assert isinstance(second, Transfer)
    assert (flow.link_credit, flow.delivery_count) == (0, 5)


def test_a_wider_session_window_lets_deliveries_out(hub: Hub) -> None:
    peer = hub.peer().open().begin(incoming_window=0)
    peer.send(frames.attach_receiver(), frames.credit(10, incoming_window=0))
    producer(hub).send(frames.transfer(0), frames.transfer(1), frames.transfer(2))
    assert count(sent(peer)) == 0
    peer.end.feed(frames.flow(incoming_window=2))
    assert count(sent(peer)) == 2
    peer.end.feed(frames.flow(next_incoming_id=2, incoming_window=2))
    assert count(sent(peer)) == 1


def test_credit_of_another_router_serves_all_addresses_that_wait_for_it(hub: Hub) -> None:
    peer = neighbour(hub, "B", credit=0)
    core = core_of(hub)
    for address in "ab":
        core.remote_routers.add_consumers("B", f"M0{address}", BALANCED)
        producer(hub, address).send(frames.transfer(0), frames.transfer(1))
    assert count(sent(peer)) == 0
    assert {address.key for address in peer.conn.waiting} == {"M0a", "M0b"}
    peer.end.feed(frames.credit(3, 2))
    assert count(sent(peer)) == 3
    peer.end.feed(frames.credit(10, 2, 3))
    assert count(sent(peer)) == 1
    assert peer.conn.waiting == {}


def test_only_data_links_carry_messages_to_another_router(hub: Hub) -> None:
    peer = neighbour(hub, "B", credit=0)
    core_of(hub).remote_routers.add_consumers("B", "M0q", BALANCED)
    producer(hub).send(frames.transfer(0))
    peer.end.feed(frames.credit(10, 0))
    assert count(sent(peer)) == 0


def test_a_connection_whose_backlog_shrank_goes_on(hub: Hub) -> None:
    peer = hub.peer().open().begin(incoming_window=100_000)
    peer.send(frames.attach_receiver(), frames.credit(10_000, incoming_window=100_000))
    sender = producer(hub)
    body = bytes(15_000)
    taken, number = 0, 0
    while core_of(hub).budget.kept == 0:
        assert number < 1000, "the output has no limit"
        credit = next(link.credit for link in sender.session().links if link is not None)
        assert credit > 0
        sender.end.feed(frames.transfer(number, body, settled=True))  # the peer reads nothing meanwhile
        number += 1
    for _ in range(number):
        taken += count(sent(peer))
        if taken == number:
            break
    assert taken == number
    assert core_of(hub).budget.kept == 0


def test_waiting_deliveries_are_shared_if_several_consumers_become_ready_at_once(hub: Hub) -> None:
    peer = hub.peer().open().begin(incoming_window=0)
    peer.send(frames.attach_receiver("a", 0), frames.attach_receiver("b", 1))
    peer.send(frames.credit(10, 0, incoming_window=0), frames.credit(10, 1, incoming_window=0))
    producer(hub).send(*(frames.transfer(n) for n in range(8)))
    peer.end.feed(frames.flow(incoming_window=100))
    handles = [p.handle for p in sent(peer) if isinstance(p, Transfer)]
    assert (handles.count(0), handles.count(1)) == (4, 4)


@pytest.mark.parametrize("queued_before", [False, True])
def test_they_are_shared_also_if_another_consumer_has_taken_some_meanwhile(hub: Hub, queued_before: bool) -> None:
    """The two have credit all the time, but no window: that no other consumer was ready must not be remembered."""
    other, peer = hub.peer().open().begin(), hub.peer().open().begin(incoming_window=0)
    other.send(frames.attach_receiver())
    peer.send(frames.attach_receiver("a", 0), frames.attach_receiver("b", 1))
    sender = producer(hub)
    taken = 0
    if queued_before:  # while nobody else has credit
        sender.send(frames.transfer(100), frames.transfer(101))
        other.end.feed(frames.credit(1))
        other.end.feed(frames.credit(1, delivery_count=1))
        taken = count(sent(other))
        assert taken == 2
    peer.send(frames.credit(10, 0, incoming_window=0), frames.credit(10, 1, incoming_window=0))
    sender.send(*(frames.transfer(n) for n in range(9)))
    for n in range(3):
        other.end.feed(frames.credit(1, delivery_count=taken + n))
        assert count(sent(other)) == 1
    peer.end.feed(frames.flow(incoming_window=100))
    handles = [p.handle for p in sent(peer) if isinstance(p, Transfer)]
    assert (handles.count(0), handles.count(1)) == (3, 3)


def test_the_consumer_that_has_become_ready_gets_what_waits_in_order(hub: Hub) -> None:
    peers = [hub.peer().open().begin() for _ in range(3)]
    for peer in peers:
        peer.send(frames.attach_receiver())
    producer(hub).send(*(frames.transfer(n, frames.message(b"%d" % n)) for n in range(5)))
    bodies: list[bytes] = []
    for peer, amount, gets in ((peers[1], 2, 2), (peers[0], 1, 1), (peers[2], 9, 2)):
        peer.end.feed(frames.credit(amount))
        found = [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
        assert len(found) == gets
        bodies += [f.payload for f in found]
    assert bodies == [frames.message(b"%d" % n) for n in range(5)]


def test_where_many_addresses_wait_credit_is_used_in_portions(hub: Hub) -> None:
    many = AT_ONCE + 100
    peer = neighbour(hub, "B", credit=0)
    core = core_of(hub)
    sender = hub.peer().open().begin()
    for number in range(many):
        core.remote_routers.add_consumers("B", f"M0q.{number}", BALANCED)
        sender.send(frames.attach_sender(f"s{number}", number, address=f"q.{number}"))
        sender.send(frames.transfer(number, handle=number))
    assert len(peer.conn.waiting) == many
    peer.end.feed(frames.credit(many - 1, 2))
    assert 0 < many - len(peer.conn.waiting) <= COST_A_TURN
    while core.context.portions:
        core.context.portions.run()
    assert len(peer.conn.waiting) == 1
    assert transfers(peer) == many - 1
    peer.end.feed(frames.credit(1, 2, delivery_count=many - 1))
    assert not peer.conn.waiting


def test_a_lost_neighbour_ends_the_use_of_its_credit(hub: Hub) -> None:
    peer = neighbour(hub, "B", credit=0)
    core = core_of(hub)
    sender = hub.peer().open().begin()
    for number in range(AT_ONCE + 100):
        core.remote_routers.add_consumers("B", f"M0q.{number}", BALANCED)
        sender.send(frames.attach_sender(f"s{number}", number, address=f"q.{number}"))
        sender.send(frames.transfer(number, handle=number))
    peer.end.feed(frames.credit(5, 2))
    peer.conn.eof("killed")
    while core.context.portions:
        core.context.portions.run()
    assert not peer.conn.waiting
