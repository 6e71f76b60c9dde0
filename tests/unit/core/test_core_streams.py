"""Long messages of one sender: when they get a link of their own, and what waits for it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.long_turns import SETTINGS
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import edge_hub
from tests.unit.core.long_messages import LONG, PIECE, begin, client, interior, parts, tick, uplinks
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.core.settlement.interruptions import MOVE_COST, MOVED_A_STEP

MANY = 1200
A_TURN = MOVED_A_STEP * (COST_A_TURN // MOVE_COST)
"""Deliveries that move in one turn."""


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def test_a_message_of_a_few_frames_goes_on_the_link_for_all_messages(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, 3)
    assert [parts(link) for link in uplinks(peer)] == [0]
    sender.send(frames.transfer(None, PIECE))
    assert [parts(link) for link in uplinks(peer)] == [4]


def test_one_that_is_not_complete_after_a_tick_gets_a_link_of_its_own(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, 3)
    tick(hub)
    assert [parts(link) for link in uplinks(peer)] == [0, 3]
    common, own = uplinks(peer)
    assert own.channel != common.channel
    sender.send(frames.transfer(None, PIECE))
    assert parts(own) == 4


def test_a_long_one_gets_it_at_once(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, LONG)
    assert [parts(link) for link in uplinks(peer)] == [0, LONG]


def test_what_waits_for_the_link_counts_for_its_sender_alone(hub: Hub) -> None:
    peer, sender, other = interior(hub), client(hub), client(hub)
    peer.peer.answers = False
    begin(sender, LONG)
    assert sender.conn.kept > LONG * len(PIECE)
    other.send(frames.transfer(0, encode_message(Message(to="elsewhere"))))
    assert [parts(link) for link in uplinks(peer)] == [1, 0]
    assert other.conn.kept == 0


def test_later_messages_of_the_sender_follow_on_its_link(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, LONG)
    sender.send(frames.transfer(None, PIECE), frames.transfer(1, encode_message(Message(to="elsewhere"))))
    assert [parts(link) for link in uplinks(peer)] == [0, LONG + 2]


def test_an_aborted_message_leaves_nothing(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, 3)
    sender.send(frames.transfer(None, b"", aborted=True))
    tick(hub)
    assert [parts(link) for link in uplinks(peer)] == [0]
    peer.peer.answers = False
    begin(sender, LONG, number=1)
    sender.send(frames.transfer(None, b"", aborted=True))
    core = core_of(hub)
    assert (core.budget.kept, len(core.credit.gathering.deliveries)) == (0, 0)


def test_what_waits_for_a_link_that_is_lost_goes_elsewhere_in_portions(hub: Hub) -> None:
    """In its order, on the link for all messages."""
    peer, sender = interior(hub), hub.peer(SETTINGS).open().begin()
    sender.conn.link_capacity = 2 * MANY
    sender.send(frames.attach_sender(address=None))
    begin(sender, LONG)
    sender.send(frames.transfer(None, PIECE))
    numbers = range(1, MANY)
    sender.send(*[frames.transfer(n, encode_message(Message(to="elsewhere", body=n))) for n in numbers])
    common, own = uplinks(peer)
    core = core_of(hub)
    (link,) = [link for link in core.links.values() if link.streaming]
    left = link.undelivered()
    assert left == MANY - peer.peer.credit
    peer.peer.end(own.channel)
    portions = 0
    while core.context.portions:
        assert left - A_TURN <= link.undelivered() <= left
        left = link.undelivered()
        core.context.portions.run()
        portions += 1
    assert (link.undelivered(), portions > MANY // A_TURN // 2) == (0, True)
    peer.peer.send(frames.credit(MANY, common.handle, channel=common.channel, incoming_window=2 * MANY))
    while core.expiry.busy:
        core.credit.end_expired()
        hub.turn()
    assert [decode_message(body).body for body in common.bodies] == list(range(peer.peer.credit, MANY))
