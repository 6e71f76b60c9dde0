"""Long messages of one sender: when they get a link of their own, and what waits for it."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import edge_hub
from tests.unit.core.long_messages import LONG, PIECE, begin, client, interior, parts, tick, uplinks
from waymesh_amqp.message import Message, encode_message


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
