"""A client that sends but does not read: above a limit of unsent output, nothing more is read from it."""

from __future__ import annotations

import contextlib
import select
import socket

import pytest

from tests.kit.waiting import wait_until
from tests.unit.runtime.fakes import FakeConnection, FakeRouter, running
from tests.unit.runtime.test_connection_io_end import RecordingOwner, joined
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime import host
from waymesh_router.runtime.transport.connection_io import MAX_UNSENT, ConnectionIO
from waymesh_router.runtime.transport.receive_buffer import BUFFER_BYTES, ReceiveBuffer

LINE = b"x" * 1023 + b"\n"
TOTAL = 64 << 20


class WaitingOwner(RecordingOwner):
    """Records the awaited events."""

    mask = select.EPOLLIN

    def await_events(self, fd: int, mask: int) -> None:
        self.mask = mask


class Scene:
    """A peer and a connection that echoes its lines. A step serves the connection once, as the loop does."""

    def __init__(self, limited: bool) -> None:
        self.ours, self.theirs = joined()
        self.theirs.setblocking(False)
        self.owner = WaitingOwner()
        self.conn = FakeConnection(FakeRouter(), Peer("peer"))
        self.io = ConnectionIO(self.owner, self.ours, self.conn, ReceiveBuffer())
        self.said = 0
        self.heard = 0
        if limited:
            self.io.limit_unsent()

    def say(self) -> None:
        """The peer sends as much as the kernel takes."""
        rest = LINE[self.said % len(LINE) :] + LINE * 64
        with contextlib.suppress(BlockingIOError):
            self.said += self.theirs.send(rest)

    def hear(self) -> None:
        """The peer reads what has arrived."""
        with contextlib.suppress(BlockingIOError):
            self.heard += len(self.theirs.recv(1 << 20))

    def step(self) -> None:
        poll = select.poll()
        poll.register(self.ours, self.owner.mask)
        for _, mask in poll.poll(0):
            self.io.on_event(mask)
        self.io.flush()

    def unsent(self) -> int:
        return len(self.conn.pending())

    def close(self) -> None:
        for sock in (self.ours, self.theirs):
            sock.close()


def fill(scene: Scene) -> None:
    """The peer sends and does not read, until nothing more is read from it."""
    while scene.owner.mask & select.EPOLLIN and scene.said < TOTAL:
        scene.say()
        scene.step()


def test_nothing_is_read_from_a_client_that_does_not_read() -> None:
    scene = Scene(limited=True)
    fill(scene)
    assert scene.owner.mask == select.EPOLLOUT
    assert MAX_UNSENT < scene.unsent() <= MAX_UNSENT + BUFFER_BYTES
    assert scene.conn.unread
    scene.close()


def test_it_gets_all_answers_as_soon_as_it_reads() -> None:
    scene = Scene(limited=True)
    fill(scene)

    def goes_on() -> bool:
        scene.hear()
        scene.step()
        return scene.owner.mask == select.EPOLLIN and scene.heard == scene.said - scene.said % len(LINE)

    wait_until(goes_on, what="all answers")
    assert not scene.conn.unread
    scene.close()


def test_its_reset_is_noticed() -> None:
    scene = Scene(limited=True)
    fill(scene)
    scene.theirs.close()  # with unread input: the kernel sends a reset

    def noticed() -> bool:
        scene.step()
        return bool(scene.owner.reasons)

    wait_until(noticed, what="the end of the connection")
    scene.close()


def test_other_peers_are_read_without_this_limit() -> None:
    scene = Scene(limited=False)
    while scene.unsent() <= MAX_UNSENT + BUFFER_BYTES:
        scene.say()
        scene.step()
    assert scene.owner.mask == select.EPOLLIN | select.EPOLLOUT
    scene.close()


@pytest.mark.parametrize("role", ["normal", "edge", "inter-router", "route-container"])
def test_the_limit_is_for_clients(role: str) -> None:
    """Two routers or a router and a broker may both not read until the other does."""
    with running() as one, socket.create_connection(("127.0.0.1", one.listen(role=role))) as client:
        wait_until(lambda: one.router.connections, what="a connection")
        _, conn = one.router.connections[0]
        one.call(conn.say, b"x" * (MAX_UNSENT + (32 << 20)))
        one.call(lambda: None)  # the turn with the write is over
        assert one.call(lambda: conn.unread) == (role == "normal")
        client.close()


def test_a_closed_connection_does_not_wait_for_a_peer_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "UNREAD_S", 0.2)
    with running() as one, socket.create_connection(("127.0.0.1", one.listen())) as client:
        client.sendall(b"hello\n")
        assert client.recv(6) == b"hello\n"
        _, conn = one.router.connections[0]
        one.call(conn.say, b"x" * (32 << 20))
        one.call(conn.close)
        wait_until(lambda: one.router.losses, what="the end of the connection")
        assert one.router.losses == [(conn, "the peer does not read")]
