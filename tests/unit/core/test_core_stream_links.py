"""Links for the long messages of one sender: how many, when they end, and what a refusal does."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, core_of
from tests.unit.core.interior_peer import edge_hub, states
from tests.unit.core.long_messages import LONG, PIECE, begin, client, interior, parts, tick, uplinks
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import ErrorInfo
from waymesh_router.core.forwarding.stream_links import IDLE_S, OF_CLIENT


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def test_an_unused_link_ends(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    begin(sender, LONG)
    sender.send(frames.transfer(None, PIECE))
    tick(hub, 2 * IDLE_S)
    assert not peer.peer.ends, "its delivery is not settled"
    peer.settle(uplinks(peer)[1])
    tick(hub)
    tick(hub, IDLE_S)
    assert len(peer.peer.ends) == 1
    assert not core_of(hub).streams.links.users


def test_a_link_stays_that_was_used_since_the_last_look(hub: Hub) -> None:
    """A router that was stopped for long gets messages and looks for unused links in one turn."""
    peer, sender = interior(hub), client(hub)
    begin(sender, LONG)
    sender.send(frames.transfer(None, PIECE))
    peer.settle(uplinks(peer)[1])
    tick(hub)
    tick(hub)
    sender.send(frames.transfer(1, encode_message(Message(to="elsewhere")), settled=True))
    tick(hub, IDLE_S)
    assert not peer.peer.ends
    assert [parts(link) for link in uplinks(peer)] == [0, LONG + 2]


def test_a_refusal_leaves_the_links_for_all_messages(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    peer.peer.refusal = ErrorInfo("amqp:unauthorized-access", "no")
    begin(sender, LONG)
    assert not peer.conn.streams
    assert parts(uplinks(peer)[0]) == LONG
    answers = sender.send(frames.transfer(None, PIECE))
    assert parts(uplinks(peer)[0]) == LONG + 1
    assert states(answers) == []
    assert core_of(hub).budget.kept == 0


def test_a_link_that_ends_with_its_sender_is_no_refusal(hub: Hub) -> None:
    peer, sender = interior(hub), client(hub)
    peer.peer.credit = 0
    begin(sender, LONG)
    sender.kill()
    tick(hub)
    tick(hub)
    assert len(uplinks(peer)) == 2
    assert (len(peer.peer.ends), peer.conn.streams) == (1, True)


def test_a_session_without_a_link_ends(hub: Hub) -> None:
    """The attach is longer than the frames of the peer."""
    peer, sender = interior(hub), client(hub)
    peer.conn.peer_max = 512
    core_of(hub).context.router_id = "E" * 512
    begin(sender, LONG)
    assert len(peer.peer.ends) == 1
    assert not core_of(hub).streams.links.users


def test_a_client_has_a_maximum_of_links_and_shares_one_more(hub: Hub) -> None:
    peer, many, other = interior(hub), client(hub), client(hub)
    last = OF_CLIENT + 2
    for handle in range(1, last + 1):
        many.send(frames.attach_sender(f"more{handle}", handle, address=None))
    for handle in range(last + 1):
        begin(many, LONG, handle, handle)
        many.send(frames.transfer(None, PIECE, handle=handle))
    own, shared = uplinks(peer)[1:-1], uplinks(peer)[-1]
    assert [parts(link) for link in own] == [LONG + 1] * OF_CLIENT
    assert parts(shared) == 3 * (LONG + 1)
    begin(other, LONG)
    assert parts(uplinks(peer)[-1]) == LONG, "another client has links of its own"
    later = encode_message(Message(to="elsewhere"))
    many.send(frames.transfer(last + 1, later, handle=last))
    assert parts(shared) == 3 * (LONG + 1) + 1, "on the same link, so that it does not overtake"
    many.kill()
    for link in own:
        peer.settle(link)
    for number in range(0, parts(shared), LONG + 1):
        peer.settle(shared, number)
    tick(hub)
    tick(hub)
    assert len(peer.peer.ends) == OF_CLIENT + 1
    assert len(core_of(hub).streams.links.users) == 1
