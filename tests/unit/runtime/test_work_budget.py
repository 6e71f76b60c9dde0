"""A connection does a limited amount of work per turn; the rest waits while others are served."""

from __future__ import annotations

import select
import socket
import struct
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub
from tests.kit.recorder import Recorder
from tests.unit.runtime.test_connection_io_end import joined
from waymesh_amqp.connection import Connection
from waymesh_amqp.negotiation import AMQP_HEADER
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.runtime.transport.connection_io import ConnectionIO, continue_all_inputs
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer

OPENED = AMQP_HEADER + frames.open_() + frames.begin()
FRAME_LIMIT = 400_000
WAIT_S = 30.0
TURN_BUDGET = 256


class Owner:
    """Records how connections end."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def ended(self, io: ConnectionIO, reason: str) -> None:
        io.open = False
        self.reasons.append(reason)

    finished = failed = ended

    def await_events(self, fd: int, mask: int) -> None:
        """Does nothing: the test writes little."""


class Client:
    """A transport with the engine at the other end, driven by the test: `read` is one epoll event."""

    def __init__(self, buffer: ReceiveBuffer, handler: Recorder, **settings: Any) -> None:
        ours, self.sock = joined()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        conn = Connection(ConnectionSettings("e", **settings), handler, 0.0)
        self.owner = Owner()
        self.handler = handler
        self.io = ConnectionIO(self.owner, ours, conn, buffer)  # type: ignore[arg-type]
        self.io.info = SimpleNamespace()
        self.send(OPENED)
        while not handler.named("begin"):
            self.read()
            continue_all_inputs(buffer)

    def send(self, data: bytes) -> None:
        """All of it is in the router's receive queue, or on its way."""
        self.sock.sendall(data)

    def read(self) -> None:
        if not self.io.paused:
            assert select.select([self.io.sock], [], [], WAIT_S)[0], "nothing has come"
        self.io.on_event(select.EPOLLIN)

    def take(self, links: int) -> None:
        """Run turns until this many links are attached."""
        while self.attached() < links:
            if not self.io.paused:
                self.read()
            continue_all_inputs(self.io.buffer)

    def paused(self) -> bool:
        return self.io.paused

    def attached(self) -> int:
        return len(self.handler.named("attach"))

    def close(self) -> None:
        self.sock.close()
        self.io.sock.close()


@pytest.fixture
def buffer() -> ReceiveBuffer:
    return ReceiveBuffer()


def attaches(count: int) -> bytes:
    return b"".join(frames.attach_sender(f"link-{number}", number) for number in range(count))


def test_attaches_of_one_write_are_taken_a_few_a_turn_with_others_in_between(buffer: ReceiveBuffer) -> None:
    flooding, other = Client(buffer, Recorder()), Client(buffer, Recorder())
    flooding.send(attaches(200))
    flooding.read()
    first = flooding.attached()
    assert 0 < first <= 5
    assert flooding.paused()
    other.send(attaches(1))
    other.read()
    assert other.attached() == 1, "while the flood is not done"
    assert flooding.attached() == first
    seen = [first]
    while flooding.attached() < 200:
        if not flooding.paused():
            flooding.read()
            seen.append(flooding.attached())
        continue_all_inputs(buffer)
        seen.append(flooding.attached())
    assert seen[-1] == 200
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 5
    assert not buffer.ready
    flooding.close()
    other.close()


def test_two_floods_take_turns(buffer: ReceiveBuffer) -> None:
    floods = [Client(buffer, Recorder()), Client(buffer, Recorder())]
    for flood in floods:
        flood.send(attaches(50))
        flood.read()
    while all(flood.io.paused for flood in floods):
        continue_all_inputs(buffer)
        one, other = (flood.attached() for flood in floods)
        assert abs(one - other) <= 5
    for flood in floods:
        flood.take(50)
    assert [flood.attached() for flood in floods] == [50, 50]
    for flood in floods:
        flood.close()


def test_nothing_is_read_while_something_is_left(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder())
    client.send(attaches(20))
    client.read()
    before = client.io.conn.octets_in
    client.send(frames.attach_sender("later", 30))
    client.read()
    assert client.io.conn.octets_in == before
    client.take(21)
    assert client.attached() == 21
    client.close()


@pytest.mark.parametrize("fragment", [1, 7, 1000])
def test_frames_in_pieces_are_all_taken_once(buffer: ReceiveBuffer, fragment: int) -> None:
    client = Client(buffer, Recorder())
    data = attaches(20)
    for start in range(0, len(data), fragment):
        client.send(data[start : start + fragment])
        client.read()
        while client.paused():
            continue_all_inputs(buffer)
    client.take(20)
    client.close()


def test_a_frame_longer_than_what_a_turn_copies_is_taken_after_a_pause(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder(grant=10), max_frame_size=FRAME_LIMIT)
    client.send(frames.attach_sender("first", 50))
    client.take(1)
    client.io.flush()
    transfer = frames.transfer(0, frames.message(bytes(100_000)), handle=50, settled=True)
    client.send(attaches(5) + transfer)
    client.take(6)
    while client.paused():
        continue_all_inputs(buffer)
    while client.io.conn.octets_in < len(OPENED + frames.attach_sender("first", 50) + attaches(5) + transfer):
        client.read()
    assert len(client.handler.named("transfer")) == 1
    assert not client.paused()
    client.close()


def test_transfers_are_not_held_up(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder(grant=1500))
    client.send(frames.attach_sender("a", 0))
    client.take(1)
    client.io.flush()
    data = b"".join(frames.transfer(number, b"", settled=True) for number in range(200))
    client.send(data)
    while len(client.handler.named("transfer")) < 200:
        assert not client.paused()
        client.read()
    assert not client.paused()
    client.close()


def test_many_transfers_of_one_write_are_taken_in_portions(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder(grant=1500), window=2000)
    client.send(frames.attach_sender("a", 0))
    client.take(1)
    client.io.flush()
    client.send(b"".join(frames.transfer(number, b"", settled=True) for number in range(600)))
    taken = [0]
    while taken[-1] < 600:
        if client.paused():
            continue_all_inputs(buffer)
        else:
            client.read()
        taken.append(len(client.handler.named("transfer")))
    assert max(later - earlier for earlier, later in pairwise(taken)) == 256
    client.close()


def test_what_a_peer_sent_before_it_went_is_taken_though_it_was_paused(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder())
    client.send(attaches(40))
    client.read()
    assert client.paused()
    client.sock.close()
    while client.io.open:
        if client.paused():
            continue_all_inputs(buffer)
        else:
            client.read()
    assert client.attached() == 40
    assert len(client.owner.reasons) == 1
    client.io.sock.close()


def reset(client: Client) -> None:
    """The client closes its socket without having read the answers; the router notices it when it writes."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.sock.close()
    arrived = select.poll()
    arrived.register(client.io.sock, 0)
    assert arrived.poll(WAIT_S * 1000), "no reset has come"
    client.io.conn.put(frames.EMPTY)
    client.io.flush()


def test_no_links_are_attached_for_a_peer_that_is_gone(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder())
    client.send(attaches(1000))
    client.read()
    before = client.attached()
    reset(client)
    turns = 0
    while client.io.open:
        turns += 1
        if client.paused():
            continue_all_inputs(buffer)
        else:
            client.read()
    assert client.attached() == before
    assert turns >= 1000 // TURN_BUDGET, "what is skipped is work, too"
    client.io.sock.close()


def test_messages_of_a_peer_that_is_gone_are_taken_in_portions(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder(grant=1500), window=2000)
    client.send(frames.attach_sender("a", 0))
    client.take(1)
    client.io.flush()
    client.send(b"".join(frames.transfer(number, b"", settled=True) for number in range(600)))
    reset(client)
    taken = [0]
    while client.io.open:
        if client.paused():
            continue_all_inputs(buffer)
        else:
            client.read()
        taken.append(len(client.handler.named("transfer")))
    assert taken[-1] == 600
    assert max(later - earlier for earlier, later in pairwise(taken)) == TURN_BUDGET
    client.io.sock.close()


def test_no_delivery_begins_for_a_peer_that_is_gone(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder())
    client.send(frames.attach_receiver("r", 0) + frames.credit(100))
    client.take(1)
    while client.paused():
        continue_all_inputs(buffer)
    link = client.handler.links[0]
    assert link.ready()
    client.send(frames.credit(200) + attaches(1))
    reset(client)
    assert not link.ready()
    while client.io.open:
        client.read()
        continue_all_inputs(buffer)
    assert not link.ready()
    client.io.sock.close()


def test_an_error_in_what_was_left_ends_the_connection(buffer: ReceiveBuffer) -> None:
    client = Client(buffer, Recorder())
    client.send(attaches(20) + frames.detach(900) + frames.begin(0) + attaches(20))
    while not client.io.conn.done:
        if not client.paused():
            client.read()
        continue_all_inputs(buffer)
    assert client.attached() == 20
    client.close()


def test_without_a_budget_everything_is_taken_at_once() -> None:
    peer = Hub(Recorder(), chunk=1 << 20).peer().open().begin()
    peer.send(attaches(100))
    assert len(peer.handler.named("attach")) == 100
