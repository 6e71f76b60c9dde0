"""A connection with many links ends: they are detached in portions, and the close is answered after the last one."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from tests.kit.recorder import Recorder
from waymesh_amqp.performatives import Close
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
    assert peer.handler.ending == [peer.conn]
    assert ended(peer) == 0
    assert not any(link.attached for link in peer.handler.links)
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
    assert peer.handler.ending == []
