"""A frame of many MiB is copied about once while it arrives, and is whole; so are the frames around it."""

from __future__ import annotations

import random
import select
import socket
import threading
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.unit.runtime.fakes import FakeConnection, FakeRouter
from tests.unit.runtime.test_connection_io_end import RecordingOwner
from tests.unit.runtime.test_tls_connection_io import Scene
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.transport.connection_io import ConnectionIO, continue_all_inputs
from waymesh_router.runtime.transport.receive_buffer import BUFFER_BYTES, ReceiveBuffer

MIB = 1 << 20
HEAD = 4
PIECE = 65536
"""Octets that arrive between two reads."""


class Framed(FakeConnection):
    """Takes whole frames: their size in four octets, then a repeated octet. `seen`: size and octet of each."""

    def __init__(self) -> None:
        super().__init__(FakeRouter(), Peer("peer"))
        self.seen: list[tuple[int, int]] = []
        self.cost = 0
        self.waiting = False

    def receive(self, view: memoryview, count: int) -> int:
        at = 0
        if self.waiting:
            return 0
        while count - at >= HEAD:
            size = int.from_bytes(view[at : at + HEAD], "big")
            if count - at < size:
                break
            end = at + size
            assert view[at + HEAD] == view[end - 1], "the first and the last octet of the content are the same"
            self.seen.append((size, view[end - 1]))
            at = end
            self.budget -= self.cost
            if self.budget <= 0:
                break
        return at


def frame(size: int, octet: int) -> bytes:
    return size.to_bytes(HEAD, "big") + bytes([octet]) * (size - HEAD)


def of_sizes(sizes: Iterable[int]) -> tuple[bytes, list[tuple[int, int]]]:
    """Frames of these sizes, and what `Framed` sees of them."""
    all_frames = [(size, number % 251) for number, size in enumerate(sizes)]
    return b"".join(frame(*each) for each in all_frames), all_frames


class Plain:
    """A connection that the test feeds through a pair of sockets."""

    def __init__(self) -> None:
        ours, self.far = socket.socketpair()
        ours.setblocking(False)
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * PIECE)
        self.conn, self.buffer, self.owner = Framed(), ReceiveBuffer(), RecordingOwner()
        self.io = ConnectionIO(self.owner, ours, self.conn, self.buffer)
        self.copied = 0

    def pieces(self, data: bytes) -> None:
        """Let the data arrive a piece at a time; `copied` counts the octets that are allocated for it meanwhile."""
        for at in range(0, len(data), PIECE):
            self.far.sendall(data[at : at + PIECE])
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            self.io.on_event(select.EPOLLIN)
            _, peak = tracemalloc.get_traced_memory()
            self.copied += max(peak - before, 0)
            while self.buffer.ready:
                continue_all_inputs(self.buffer)


@pytest.fixture
def plain() -> Iterator[Plain]:
    plain = Plain()
    yield plain
    plain.io.sock.close()
    plain.far.close()


def test_a_frame_of_many_mebibytes_is_copied_about_once(plain: Plain) -> None:
    data, frames = of_sizes([16 * MIB, 100])
    tracemalloc.start()
    try:
        plain.pieces(data)
    finally:
        tracemalloc.stop()
    assert plain.conn.seen == frames
    assert plain.copied < 5 * len(data), "it was copied each time that a piece of it arrived"
    assert plain.buffer.limit < BUFFER_BYTES, "the buffer of the process is as large as before"


def test_frames_of_all_sizes_are_whole(plain: Plain) -> None:
    rng = random.Random(41)
    data, frames = of_sizes(rng.choice([5, 60, 7000, 130_000, 140_000, 300_000, MIB]) for _ in range(150))
    plain.pieces(data)
    assert plain.conn.seen == frames
    assert plain.io.rest() == b""


def test_frames_of_all_sizes_are_whole_with_little_work_in_a_turn(plain: Plain) -> None:
    plain.conn.cost = 100
    rng = random.Random(42)
    data, frames = of_sizes(rng.choice([5, 60, 7000, 130_000, 140_000, 300_000, MIB]) for _ in range(150))
    plain.pieces(data)
    assert plain.conn.seen == frames


def test_what_waits_for_an_answer_is_kept_however_long_it_is(plain: Plain) -> None:
    plain.conn.waiting = True
    data, frames = of_sizes([200_000, 5, 300_000, 700_000, 60])
    plain.pieces(data)
    assert plain.io.rest() == data
    plain.conn.waiting = False
    plain.io.resume(b"")
    assert plain.conn.seen == frames
    assert plain.io.rest() == b""


def test_frames_of_all_sizes_are_whole_over_tls(authority: Authority, server: KeyPair) -> None:
    scene = Scene(authority, server)
    conn = Framed()
    scene.io.conn = conn
    conn.cost = 30
    rng = random.Random(43)
    data, frames = of_sizes(rng.choice([5, 60, 7000, 130_000, 300_000, MIB]) for _ in range(40))
    records, at = [], 0
    while at < len(data):
        size = rng.choice([1, 50, 4000, 16384, 16384, 16384, 16384])
        records.append(data[at : at + size])
        at += size
    scene.far.setblocking(True)
    sender = threading.Thread(target=scene.far.sendall, args=(scene.records(*records),))
    sender.start()
    while conn.seen != frames:
        assert frames[: len(conn.seen)] == conn.seen
        assert scene.io.open
        if not scene.buffer.ready:
            select.select([scene.sock], [], [], 60)
        scene.turn()
    sender.join()
