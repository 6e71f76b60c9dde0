"""Refused links keep only their handles until the peer's detach, and not without a limit. Spec: 2.6.3, 2.6.5"""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub
from waymesh_amqp.handler import Handler
from waymesh_amqp.link import Link
from waymesh_amqp.performatives import Attach, Close, Detach, End
from waymesh_amqp.session import Session
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.model import RouterLink

LINKS = 200
LINK_BYTES = 400
"""Of a refused link, with room for the growth of tables; a link object takes over 1,000."""


def refused(first: int, count: int) -> bytes:
    """Attaches without an address, which the core refuses."""
    return b"".join(frames.attach_receiver(f"r{n}", n, address=None) for n in range(first, first + count))


@pytest.fixture
def peer() -> Peer:
    return core_hub().peer().open().begin()


def limited(most: int) -> Peer:
    return core_hub().peer(ConnectionSettings("engine", max_refused=most)).open().begin()


def link_objects() -> int:
    gc.collect()
    return sum(isinstance(each, RouterLink) for each in gc.get_objects())


def test_no_link_object_is_left(peer: Peer) -> None:
    before = link_objects()
    answers = peer.send(refused(0, LINKS))
    assert [type(a) for a in answers] == [Attach, Detach] * LINKS
    assert link_objects() == before
    assert peer.conn.links == LINKS


class Refusing(Handler):
    """Refuses all links, and stores nothing."""

    def new_link(self, session: Session) -> Link:
        return Link(session)

    def on_attach(self, link: Link, performative: Attach) -> None:
        link.refuse("amqp:not-found", "")


def test_little_memory_is_left() -> None:
    peer = Hub(Refusing()).peer().open().begin()
    peer.send(refused(0, 10))
    tracemalloc.start()
    try:
        peer.send(refused(10, LINKS))
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < LINKS * LINK_BYTES


def test_the_handles_are_free_after_the_answer(peer: Peer) -> None:
    first, _ = peer.send(refused(0, 1))
    again, _ = peer.send(frames.attach_receiver("r0", 1, address=None))
    assert again.handle != first.handle, "the peer may still refer to the first one"
    assert peer.send(frames.detach(0), frames.detach(1)) == []
    assert peer.conn.links == peer.conn.refused == 0
    third, _ = peer.send(refused(0, 1))
    assert third.handle == first.handle


def test_frames_on_the_handle_are_discarded_until_the_answer(peer: Peer) -> None:
    peer.send(frames.attach_sender("s", 3, address=7))
    assert peer.send(frames.credit(10, 3), frames.transfer(0, handle=3)) == []
    assert peer.send(frames.detach(3)) == []
    assert any(isinstance(a, End) for a in peer.send(frames.transfer(1, handle=3)))


def test_a_handle_in_use_cannot_be_attached(peer: Peer) -> None:
    peer.send(refused(0, 1))
    (end,) = peer.send(frames.attach_receiver("other", 0))
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == "amqp:session:handle-in-use"


@pytest.mark.parametrize("sessions", [1, 3])
def test_too_many_end_the_connection(sessions: int) -> None:
    peer = limited(6)
    for channel in range(1, sessions):
        peer.begin(channel)
    for n in range(6):
        peer.send(frames.attach_receiver(f"r{n}", n, channel=n % sessions, address=None))
    answers = peer.send(frames.attach_receiver("r6", 6, address=None))
    assert [type(a) for a in answers] == [Attach, Detach, Close]
    assert answers[-1].error.condition == "amqp:resource-limit-exceeded"
    assert answers[-1].error.description == "6 links were refused, and the peer has not answered their detaches"
    assert peer.conn.refused == 0


def test_answered_ones_do_not_count() -> None:
    peer = limited(3)
    for n in range(20):
        answers = peer.send(refused(n, 1), frames.detach(n))
        assert [type(a) for a in answers] == [Attach, Detach]


def test_they_end_with_their_session() -> None:
    peer = limited(3)
    for _ in range(4):
        peer.send(refused(0, 3))
        peer.send(frames.end())
        assert peer.conn.links == peer.conn.refused == 0
        peer.begin()


def test_they_end_with_many_links() -> None:
    hub: Hub = core_hub()
    peer = hub.peer(ConnectionSettings("engine", links_at_once=5)).open().begin()
    peer.send(refused(0, 20))
    peer.send(frames.end())
    while hub.handler.ending:
        for conn in list(hub.handler.ending):
            if conn.end_links(8):
                del hub.handler.ending[conn]
    assert peer.conn.links == peer.conn.refused == 0
