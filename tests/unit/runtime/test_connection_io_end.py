"""The end of a transport: input that the peer sent before the end is handled."""

from __future__ import annotations

import select
import socket
import struct

from tests.kit.waiting import DEADLINE_S
from tests.unit.runtime.fakes import FakeConnection, FakeRouter
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.transport.connection_io import ConnectionIO
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer


class RecordingConnection(FakeConnection):
    """Records its input."""

    got = b""

    def receive(self, view: memoryview, count: int) -> int:
        self.got += bytes(view[:count])
        return count


class RecordingOwner:
    """Records how the connection ended."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def ended(self, io: ConnectionIO, reason: str) -> None:
        io.open = False
        io.sock.close()
        self.reasons.append(reason)

    def finished(self, io: ConnectionIO) -> None:
        raise AssertionError("the engine connection is not closed")

    def last_bytes_wait(self, io: ConnectionIO) -> None:
        raise AssertionError("the engine connection is not closed")

    def failed(self, io: ConnectionIO, error: Exception) -> None:
        raise error

    def await_events(self, fd: int, mask: int) -> None:
        """Does nothing: the test calls."""


def joined() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection; ours is non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    ours.setblocking(False)
    return ours, theirs


def test_what_a_peer_sent_before_it_reset_the_connection_is_read() -> None:
    ours, theirs = joined()
    owner, conn = RecordingOwner(), RecordingConnection(FakeRouter(), Peer("peer"))
    buffer = ReceiveBuffer()
    buffer.resize(buffer.limit // 32)  # so that one read is not enough
    io = ConnectionIO(owner, ours, conn, buffer)
    sent = b"".join(b"%06d\n" % number for number in range(5000))
    theirs.sendall(sent)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    arrived = select.poll()
    arrived.register(ours, 0)  # for errors alone: the reset, behind all data
    assert arrived.poll(DEADLINE_S * 1000)
    conn.say(b"this finds nobody")
    io.flush()
    while io.open:
        assert not conn.pending(), "output that nobody takes is dropped"
        io.on_event(select.EPOLLIN | select.EPOLLHUP)
    assert conn.got == sent
    assert len(owner.reasons) == 1
