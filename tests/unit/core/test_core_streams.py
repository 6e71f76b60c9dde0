"""Links for the long messages of one sender: when they are opened, what waits for them, and what a refusal does."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.answering import Attached
from tests.kit.pump import Hub, Peer, core_of
from tests.unit.core.interior_peer import Interior, edge_hub, states
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.performatives import ErrorInfo, Transfer
from waymesh_router.core.forwarding.stream_links import IDLE_S, OF_CLIENT

PIECE = bytes(15_000)
LONG = 10
"""Pieces of a long message."""


@pytest.fixture
def hub() -> Hub:
    return edge_hub()


def interior(hub: Hub) -> Interior:
    """It takes such links."""
    peer = Interior(hub, credit=10)
    peer.conn.streams = True
    return peer


def client(hub: Hub) -> Peer:
    """An anonymous sender."""
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=None))
    return peer


def begin(peer: Peer, pieces: int, number: int = 0, handle: int = 0) -> None:
    """The first pieces of a message."""
    head = encode_message(Message(to="elsewhere", body=PIECE))
    peer.send(frames.transfer(number, head, more=True, handle=handle))
    for _ in range(pieces - 1):
        peer.send(frames.transfer(None, PIECE, more=True, handle=handle))


def uplinks(peer: Interior) -> list[Attached]:
    """The senders of the edge router without an address: the one for all messages, and those for long ones."""
    return [link for link in peer.peer.active() if not link.attach.role and link.address is None]


def tick(hub: Hub, seconds: float = 1.0) -> None:
    core = core_of(hub)
    core.now += seconds
    core.credit.tick_streams(core.now)
    while core.context.portions:
        core.context.portions.run()
    hub.turn()


def parts(link: Attached) -> int:
    return len([seen for seen in link.transfers if isinstance(seen.performative, Transfer)])


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
