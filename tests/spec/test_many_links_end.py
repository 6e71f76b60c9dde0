"""A connection with many links ends: they are detached in portions, and the close is answered after the last one."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.lost_links import SESSIONS_A_LINK
from waymesh_amqp.performatives import Attach, Close, End
from waymesh_amqp.settings import ConnectionSettings

LINKS = 25


@pytest.fixture
def peer() -> Peer:
    """It has 25 links in two sessions, where more than 10 are not ended at once."""
    peer = Hub(Recorder()).peer(ConnectionSettings("engine", links_at_once=10)).open().begin(0).begin(1)
    for n in range(LINKS):
        peer.send(frames.attach_receiver(f"r{n}", n, channel=n % 2))
    return peer


def ended(peer: Peer) -> int:
    """Links whose end the handler has heard of."""
    return len(peer.handler.named("detach"))


def portions(peer: Peer) -> list[int]:
    """End the links by tens; how many were ended after each portion."""
    counts = []
    while not peer.conn.end_links(10):
        counts.append(ended(peer))
    return [*counts, ended(peer)]


def test_close_is_answered_behind_the_last_link(peer: Peer) -> None:
    assert peer.send(frames.close()) == []
    assert list(peer.handler.ending) == [peer.conn]
    assert ended(peer) == 0
    assert not any(link.usable() for link in peer.handler.links)
    assert not peer.conn.end_links(24)
    assert peer.send() == []
    assert peer.handler.named("close") == []
    assert peer.conn.end_links(24)
    assert [type(answer) for answer in peer.send()] == [Close]
    assert peer.handler.named("close") == [("",)]
    assert ended(peer) == LINKS
    assert peer.conn.done


def test_links_end_in_portions_when_the_transport_is_gone(peer: Peer) -> None:
    peer.kill()
    assert portions(peer) == [10, 20, 25]
    assert {error for _, error in peer.handler.named("detach")} == {"amqp:connection:forced"}
    assert peer.handler.named("close") == [("amqp:connection:forced",)]


def test_a_transport_that_goes_meanwhile_changes_nothing(peer: Peer) -> None:
    peer.send(frames.close())
    assert not peer.conn.end_links(10)
    peer.kill()
    assert portions(peer) == [20, 25]
    assert len(peer.handler.named("close")) == 1
    assert peer.send() == []


def test_nothing_is_written_behind_our_own_close(peer: Peer) -> None:
    peer.conn.close("amqp:connection:forced", "enough")
    assert [type(frame) for frame in peer.send()] == [Close]
    for link in peer.handler.links:
        link.detach()
        link.session.report(True, 0, True, b"")
    assert peer.send() == []
    assert portions(peer) == [25, 25, 25]
    assert peer.conn.done is False
    peer.send(frames.close())
    assert peer.conn.done


def test_few_links_end_at_once() -> None:
    peer = Hub(Recorder()).peer(ConnectionSettings("engine", links_at_once=10)).open().begin()
    for n in range(10):
        peer.send(frames.attach_receiver(f"r{n}", n))
    assert [type(answer) for answer in peer.send(frames.close())] == [Close]
    assert ended(peer) == 10
    assert list(peer.handler.ending) == []


def test_many_sessions_without_links_are_given_up_in_portions() -> None:
    peer = Hub(Recorder()).peer(ConnectionSettings("engine", links_at_once=2)).open()
    for channel in range(2 * SESSIONS_A_LINK + 1):
        peer.begin(channel)
    assert peer.send(frames.close()) == []
    assert not peer.conn.end_links(1)
    assert len(peer.conn.sessions) == SESSIONS_A_LINK + 1
    assert not peer.conn.end_links(1)
    assert (len(peer.conn.sessions), peer.handler.named("close"), peer.send()) == (1, [], [])
    assert peer.conn.end_links(1)
    assert [type(answer) for answer in peer.send()] == [Close]
    assert len(peer.handler.named("close")) == 1
    assert peer.conn.done


# ---- sessions


def test_the_end_of_a_session_is_answered_behind_its_last_link(peer: Peer) -> None:
    assert peer.send(frames.end(0)) == []
    assert list(peer.handler.ending) == [peer.conn]
    assert [link.usable() for link in peer.handler.links] == [n % 2 == 1 for n in range(LINKS)]
    assert not peer.conn.end_links(12)
    assert (ended(peer), peer.send()) == (12, [])
    assert peer.conn.end_links(12)
    assert ended(peer) == 13
    assert [type(answer) for answer in peer.send()] == [End]
    assert peer.handler.named("close") == []
    assert not peer.conn.done
    assert {error for _, error in peer.handler.named("detach")} == {""}


def test_names_of_a_session_that_ends_are_free_at_once(peer: Peer) -> None:
    peer.send(frames.end(0))
    peer.begin(5)
    (answer,) = peer.send(frames.attach_receiver("r0", 0, channel=5))
    assert isinstance(answer, Attach)
    assert peer.conn.end_links(100)
    assert ended(peer) == 13
    assert peer.handler.links[-1].attached
    assert [type(answer) for answer in peer.send()] == [End]
    (answer,) = peer.send(frames.attach_receiver("r2", 1, channel=5))
    assert isinstance(answer, Attach)


@pytest.mark.parametrize("how", ["close", "kill"])
@pytest.mark.parametrize("both", [False, True])
def test_a_connection_may_end_while_links_of_its_sessions_do(peer: Peer, how: str, both: bool) -> None:
    peer.send(frames.end(0) + (frames.end(1) if both else b""))
    assert not peer.conn.end_links(5)
    peer.send(frames.close()) if how == "close" else peer.kill()
    assert portions(peer) == [15, 25]
    assert len({link for link, _ in peer.handler.named("detach")}) == LINKS
    assert len(peer.handler.named("close")) == 1
    assert [type(answer) for answer in peer.send()] == ([Close] if how == "close" else [])
    assert peer.conn.done


@pytest.mark.parametrize("answered", [False, True])
def test_a_session_that_we_end_has_its_links_ended_in_portions(peer: Peer, answered: bool) -> None:
    peer.handler.links[0].session.end("amqp:not-allowed", "enough")
    assert [type(frame) for frame in peer.send()] == [End]
    if answered:
        assert peer.send(frames.end(0)) == []
    assert portions(peer) == [10, 13]
    assert {error for _, error in peer.handler.named("detach")} == {"amqp:not-allowed"}
    assert peer.send() == []
    peer.kill()
    assert portions(peer)[-1] == LINKS if peer.conn.losing else ended(peer) == LINKS


def test_a_session_of_which_we_wait_for_the_end_loses_no_link_with_its_connection(peer: Peer) -> None:
    peer.handler.links[0].session.end("amqp:not-allowed", "enough")
    peer.send(frames.end(0))
    assert not peer.conn.end_links(3)
    peer.kill()
    portions(peer)
    assert len({link for link, _ in peer.handler.named("detach")}) == ended(peer) == LINKS
    assert len(peer.handler.named("close")) == 1
