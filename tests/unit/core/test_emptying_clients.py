"""Connections above the share of a router: how busy ones come to rest, and what happens to those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Container
from tests.kit.frames import Seen
from tests.kit.pump import Peer, core_hub, core_of
from waymesh_amqp.performatives import Disposition, Flow, Terminus, Transfer
from waymesh_router.clients.emptying import PROGRESS_S, TIME_LIMIT_S
from waymesh_router.clients.share import AGAIN_S, AT_ONCE, ClientShare
from waymesh_router.core.link_kinds import MULTICAST

TICK_S = 0.25


class Moving:
    """A router that is to move clients, in steps of virtual time."""

    def __init__(self) -> None:
        self.hub = core_hub()
        self.core = core_of(self.hub)
        self.share = ClientShare(self.core, lambda *line: None)

    def keep(self, share: int, older_s: int = 0) -> None:
        """Clients that have been connected for so long may move ten seconds later, so that this number is left."""
        self.core.now += 10
        attrs = {"clientShare": share, "clientShareSeconds": older_s + 9}
        self.share.configure(attrs, attrs)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.core.now += TICK_S
            self.share.tick(self.core.now)
            self.hub.turn()

    def until_given_up(self) -> None:
        self.tick(int(TIME_LIMIT_S / TICK_S) + 1)

    def client(self, *attaches: bytes) -> Peer:
        """The connection of a client opened later than those before it."""
        self.core.now += 0.001
        self.hub.now = self.core.now
        peer = self.hub.peer().open().begin()
        peer.send(*attaches)
        return peer

    def consumer(self, address: str = "q", credit: int = 100) -> Peer:
        return self.client(frames.attach_receiver(address=address), frames.credit(credit))

    def producer(self, address: str = "q") -> Peer:
        return self.client(frames.attach_sender(address=address))


@pytest.fixture
def moving() -> Moving:
    return Moving()


def seen(peer: Peer, kind: type) -> list[Any]:
    """The performatives of a kind that a peer was sent since the last look."""
    return [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, kind)]


def count(peer: Peer) -> int:
    """Deliveries that a peer was sent since the last look."""
    return len(seen(peer, Transfer))


def test_a_consumer_that_always_gets_messages_is_left_in_peace_and_moves(moving: Moving) -> None:
    first, other = moving.consumer(), moving.consumer()
    sender = moving.producer()
    sender.send(frames.transfer(0), frames.transfer(1))
    assert (count(first), count(other)) == (1, 1)
    moving.keep(2)
    moving.tick()
    sender.send(frames.transfer(2), frames.transfer(3))
    assert (count(first), count(other)) == (0, 2), "others get the messages"
    first.send(frames.disposition())
    moving.tick()
    assert first.conn.over
    assert not other.conn.over
    assert not sender.conn.over
    assert moving.share.moved == 1


def test_messages_wait_for_the_only_consumer_and_go_to_it_if_it_stays(moving: Moving) -> None:
    consumer, sender = moving.consumer(), moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    sender.send(frames.transfer(1))
    consumer.send(frames.credit(50, delivery_count=1))
    assert count(consumer) == 0, "new credit does not end the pause"
    moving.until_given_up()
    assert count(consumer) == 1
    assert consumer.session().links[0].credit == 49, "the credit that it gave meanwhile"
    assert not consumer.conn.over


def test_a_pause_ends_also_if_the_address_has_become_multicast(moving: Moving) -> None:
    consumer, sender = moving.consumer(), moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    (link,) = consumer.session().links
    assert link.paused
    link.address.treatment = MULTICAST
    moving.until_given_up()
    assert (link.paused, link.credit) == (False, 99)


def test_a_receiver_that_drains_is_answered_after_the_pause(moving: Moving) -> None:
    consumer, sender = moving.consumer(), moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    assert seen(consumer, Flow) == []
    consumer.send(frames.credit(50, delivery_count=1, drain=True))
    moving.until_given_up()
    assert [(flow.link_credit, flow.delivery_count) for flow in seen(consumer, Flow)] == [(0, 51)]


def test_what_waits_for_a_consumer_that_moves_comes_back(moving: Moving) -> None:
    consumer, sender = moving.consumer(), moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    sender.send(frames.transfer(1))
    consumer.send(frames.disposition())
    moving.tick()
    assert consumer.conn.over
    states = [(d.first, int(d.state.descriptor)) for d in seen(sender, Disposition)]
    assert states == [(0, 0x24), (1, 0x26)], "accepted and released"


def test_a_sender_that_always_has_messages_under_way_waits_for_outcomes(moving: Moving) -> None:
    sender, consumer = moving.producer(), moving.consumer()
    sender.send(frames.transfer(0), frames.transfer(1))
    moving.keep(1)
    moving.tick()
    assert [flow.drain for flow in seen(sender, Flow)] == [True]
    consumer.send(frames.disposition(0))
    moving.tick()
    assert seen(sender, Disposition) == [], "it would send another message"
    consumer.send(frames.disposition(1))
    moving.tick()
    outcomes = seen(sender, Disposition)
    assert [(d.first, d.last) for d in outcomes] == [(0, 1)], "written before the end"
    assert sender.conn.over


def test_a_client_that_needs_an_outcome_to_go_on_gets_it(moving: Moving) -> None:
    """A server sends its reply, and accepts the request after the reply was accepted."""
    server = moving.client(frames.attach_receiver(), frames.attach_sender("replies", 1, address="r"))
    server.send(frames.credit(10))
    requester, replies = moving.producer(), moving.consumer("r")
    requester.send(frames.transfer(0))
    moving.keep(2)
    moving.tick()
    server.send(frames.transfer(0, handle=1))
    replies.send(frames.disposition())
    moving.tick(2)
    assert seen(server, Disposition) == []
    moving.tick(4)
    assert len(seen(server, Disposition)) == 1
    server.send(frames.disposition())
    moving.tick()
    assert server.conn.over


def test_a_client_that_does_not_settle_gets_all_back(moving: Moving) -> None:
    client = moving.client(frames.attach_receiver(), frames.attach_sender("out", 1, address="r"), frames.credit(10))
    moving.core.now += 5
    moving.consumer("r")
    sender = moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(2, older_s=4)
    moving.tick(int(PROGRESS_S / TICK_S))
    client.take()
    sender.send(frames.transfer(1))
    assert count(client) == 0
    moving.tick(4)
    assert count(client) == 1
    receiver, producer = client.session().links
    assert (receiver.paused, producer.accepting, producer.drain) == (False, True, False)
    moving.tick(int(AGAIN_S / TICK_S) + 3)
    assert (receiver.paused, producer.accepting) == (True, False), "it has another turn"
    moving.tick(int(TIME_LIMIT_S / TICK_S))
    assert (receiver.paused, producer.accepting) == (False, True)
    assert not client.conn.over


@pytest.mark.parametrize("distribution", ["balanced", "multicast"])
def test_copies_of_multicasts_are_not_held_up(moving: Moving, distribution: str) -> None:
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    moving.core.address_table.add_pattern({"pattern": None, "prefix": "q", "distribution": distribution, **phases})
    consumer, sender = moving.consumer(), moving.producer()
    sender.send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    assert consumer.session().links[0].paused is (distribution == "balanced")


def test_replies_are_not_held_up(moving: Moving) -> None:
    client = moving.client(frames.attach_receiver(source=Terminus("source", dynamic=True)), frames.credit(10))
    address = client.session().links[0].source.address
    moving.producer(address).send(frames.transfer(0))
    moving.keep(1)
    moving.tick()
    assert not client.session().links[0].paused


def test_a_client_with_a_routed_link_is_not_held_up(moving: Moving) -> None:
    moving.core.linkroutes.add({
        "identity": "1", "prefix": "broker", "pattern": None, "direction": "out", "containerId": None,
        "connection": "broker", "delExternalPrefix": "", "addExternalPrefix": "",
    })  # fmt: skip
    Container(moving.hub)
    client = moving.client(frames.attach_receiver("a", 0, address="broker.x"), frames.attach_receiver("b", 1))
    client.send(frames.credit(10, 1))
    moving.producer().send(frames.transfer(0))
    moving.keep(1)
    moving.tick(8)
    assert not client.session().links[1].paused


def test_a_drain_takes_over(moving: Moving) -> None:
    """It ends all connections: receivers go on, and no sender gets credit back."""
    client = moving.client(frames.attach_receiver(), frames.attach_sender("out", 1, address="r"), frames.credit(10))
    moving.consumer("r")
    moving.producer().send(frames.transfer(0))
    moving.keep(2)
    moving.tick(3)
    receiver, producer = client.session().links
    assert receiver.paused
    moving.core.context.drain_from = moving.core.connection_table.next_id
    moving.tick()
    assert (receiver.paused, producer.accepting) == (False, False)


def test_few_are_emptied_at_the_same_time_and_each_has_its_turn(moving: Moving) -> None:
    busy = [moving.consumer(f"q{k}") for k in range(AT_ONCE + 2)]
    for k in range(len(busy)):
        moving.producer(f"q{k}").send(frames.transfer(0))
    moving.keep(1)
    moving.tick()

    def paused() -> list[int]:
        return [k for k, peer in enumerate(busy) if peer.session().links[0].paused]

    assert paused() == list(range(AT_ONCE)), "the oldest"
    moving.tick(int(PROGRESS_S / TICK_S) + 1)
    assert paused() == [AT_ONCE, AT_ONCE + 1], "those that had no turn come first"


def test_no_more_than_the_surplus_moves(moving: Moving) -> None:
    idle = [moving.consumer() for _ in range(12)]
    moving.keep(8)
    moving.tick(20)
    assert [peer.conn.over for peer in idle] == [True] * 4 + [False] * 8
    assert moving.share.moving
    moving.tick(int(10 / TICK_S))
    assert not moving.share.moving
