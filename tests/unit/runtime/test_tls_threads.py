"""Connections over TLS move to threads and back: every byte arrives once and in order, whatever happens meanwhile."""

from __future__ import annotations

import _ssl
import contextlib
import ctypes
import hashlib
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import DEADLINE_S
from tests.unit.runtime.fakes import FakeConnection, FakeRouter
from tests.unit.runtime.test_connection_io_end import joined
from waymesh_amqp.performatives import Open
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, Loop
from waymesh_router.runtime.tls.sockets import MAX_WITHOUT_DATA, TlsSocket
from waymesh_router.runtime.transport.connection_io import ConnectionIO, continue_all_inputs
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tls_threads import (
    RING_BYTES,
    MovingTlsIO,
    TlsThreads,
    added_threads,
    object_of,
    why_not,
)

TURN_S = 0.001


class End(FakeConnection):
    """One end of a connection: digests of what it said and heard, and how it ended."""

    def __init__(self, buffer: ReceiveBuffer, loop: Loop) -> None:
        super().__init__(FakeRouter(), Peer("peer"))
        self.said, self.heard = hashlib.sha256(), hashlib.sha256()
        self.octets_said = self.octets_heard = 0
        self.deaf = False
        self.loop, self.shared = loop, buffer
        self.io: MovingTlsIO
        self.ends: list[str] = []

    def receive(self, view: memoryview, count: int) -> int:
        self.heard.update(view[:count])
        self.octets_heard += count
        return count

    def tell(self, data: bytes) -> None:
        """Say it to the other end now."""
        self.said.update(data)
        self.octets_said += len(data)
        self.put(data)
        self.io.flush()

    # ---- as the host
    def ended(self, io: ConnectionIO, reason: str) -> None:
        io.open = False
        self.loop.unregister(io.fd)
        io.sock.close()
        self.ends.append(reason)

    def finished(self, io: ConnectionIO) -> None:
        io.open = False
        self.loop.unregister(io.fd)
        plain = self.io.tls.end()
        plain.shutdown(socket.SHUT_WR)
        self.ends.append("finished")
        self._plain = plain  # stays open, as Lingering does

    def last_bytes_wait(self, io: ConnectionIO) -> None:
        """The peer is slow."""

    def failed(self, io: ConnectionIO, error: Exception) -> None:
        raise error

    def await_events(self, fd: int, mask: int) -> None:
        if not self.deaf:
            self.loop.modify(fd, mask)

    def be_deaf(self) -> None:
        """Read and write no more, for a connection that is not with a thread."""
        self.deaf = True
        self.loop.unregister(self.io.fd)

    def hear_again(self) -> None:
        self.deaf = False
        self.loop.register(self.io.fd, self.io, EPOLLIN | EPOLLOUT)


class Enough(BaseException):
    """Ends a run of the loop, which may run again: not an error, which the loop would report."""


class Scene:
    """Two ends of a connection over TLS, both on one loop, which may use threads."""

    def __init__(
        self, authority: Authority, server: KeyPair, threads: int = 2, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> None:
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(server.cert, server.key)
        ours.maximum_version = version
        trust = ssl.create_default_context(cafile=str(authority.cert))
        one, other = joined()
        other.setblocking(False)
        socks = TlsSocket(ours, one, server=True), TlsSocket(trust, other, server=False, host="localhost")
        _shake(*socks)
        self.loop, self.buffer = Loop(), ReceiveBuffer()
        self.errors: list[str] = []
        self.loop.on_error = lambda where, error: self.errors.append(f"{where}: {error!r}")
        self.threads = TlsThreads(self.loop, threads, 64 * RING_BYTES)
        self.ends = [End(self.buffer, self.loop) for _ in socks]
        for end, sock in zip(self.ends, socks):
            end.io = MovingTlsIO(end, sock, end, self.buffer, self.threads)
            self.loop.register(end.io.fd, end.io, EPOLLIN)

    @property
    def moved(self) -> int:
        return sum(len(thread.moved) for thread in self.threads.threads)

    def run(self, until: Callable[[], bool]) -> None:
        """Turns of the loop until then."""
        limit = time.monotonic() + DEADLINE_S
        late = False

        def turn(now: float) -> float:
            nonlocal late
            if self.buffer.ready:
                continue_all_inputs(self.buffer)
            late = time.monotonic() > limit
            if until() or late or self.errors:
                raise Enough
            return now if self.buffer.ready else now + TURN_S

        with contextlib.suppress(Enough):
            self.loop.run(turn)
        assert not self.errors
        assert not late, [(end.octets_said, end.octets_heard, end.ends) for end in self.ends]

    def turns(self, count: int) -> None:
        """So many turns of the loop."""
        left = iter(range(count))
        self.run(lambda: next(left, None) is None)

    def close(self) -> None:
        for end in self.ends:
            if end.io.open:
                end.ended(end.io, "the test is over")
        self.threads.stop()
        self.loop.close()


def _shake(*socks: TlsSocket) -> None:
    waiting = [*socks]
    while waiting:
        sock = waiting.pop(0)
        try:
            sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            waiting.append(sock)


@pytest.fixture
def scene(authority: Authority, server: KeyPair) -> Iterator[Scene]:
    with contextlib.closing(Scene(authority, server)) as scene:
        yield scene


def all_heard(one: End, other: End) -> bool:
    return one.octets_heard == other.octets_said and other.octets_heard == one.octets_said


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("seed", range(6))
def test_connections_that_move_at_random_lose_nothing(
    authority: Authority, server: KeyPair, seed: int, version: ssl.TLSVersion
) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server, version=version)) as scene:
        one, other = scene.ends
        steps = 400

        def step() -> bool:
            nonlocal steps
            if steps:
                steps -= 1
                end = rng.choice(scene.ends)
                what = rng.random()
                if what < 0.5 and end.octets_said - _other(scene, end).octets_heard < 4 << 20:
                    end.tell(rng.randbytes(rng.choice((1, 100, 5000, 40_000, 300_000))))
                elif what < 0.7:
                    scene.threads.move(end.io)
                elif what < 0.8:
                    end.io.give_back()
            return not steps and all_heard(one, other)

        scene.run(step)
        assert [one.heard.digest(), other.heard.digest()] == [other.said.digest(), one.said.digest()]
        assert not one.ends + other.ends


def _other(scene: Scene, end: End) -> End:
    return scene.ends[scene.ends[0] is end]


@pytest.mark.parametrize("seed", range(12))
def test_an_end_that_closes_in_order_delivers_all_it_said(authority: Authority, server: KeyPair, seed: int) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server)) as scene:
        closing = rng.choice(scene.ends)
        staying = _other(scene, closing)
        for end in scene.ends:
            if rng.random() < 0.7:
                scene.threads.move(end.io)
        said = 0

        def step() -> bool:
            nonlocal said
            if said < 6:
                said += 1
                closing.tell(rng.randbytes(rng.choice((10, 10_000, 900_000))))
                if rng.random() < 0.3:
                    scene.threads.move(rng.choice(scene.ends).io)
                if said == 6:
                    closing.done = True
                    closing.io.flush()
            return bool(staying.ends)

        scene.run(step)
        assert staying.heard.digest() == closing.said.digest()
        assert (staying.ends, closing.ends) == (["closed by the peer"], ["finished"])
        assert not scene.moved


@pytest.mark.parametrize("seed", range(12))
def test_an_end_that_is_cut_leaves_the_beginning_of_what_it_said(
    authority: Authority, server: KeyPair, seed: int
) -> None:
    rng = random.Random(seed)
    with contextlib.closing(Scene(authority, server)) as scene:
        cut = rng.choice(scene.ends)
        staying = _other(scene, cut)
        for end in scene.ends:
            scene.threads.move(end.io)
        data = rng.randbytes(3_000_000)
        told = 0

        def step() -> bool:
            nonlocal told
            if cut.io.open and told < len(data):
                size = rng.choice((1, 1000, 100_000, 500_000))
                cut.tell(data[told : told + size])
                told += size
                staying.tell(data[told : told + size])
                if rng.random() < 0.2:
                    cut.ended(cut.io, "cut")
            elif cut.io.open:
                cut.ended(cut.io, "cut")
            return bool(staying.ends)

        scene.run(step)
        assert hashlib.sha256(data[: staying.octets_heard]).digest() == staying.heard.digest()
        assert not scene.moved


def test_a_connection_moves_after_three_large_reads_or_writes(scene: Scene) -> None:
    one, other = scene.ends
    for end in scene.ends:
        end.remote = Open("peer")
    one.tell(b"x" * 100)
    scene.run(lambda: all_heard(one, other))
    assert scene.moved == 0
    for _ in range(3):
        one.tell(b"x" * 8192)
        scene.run(lambda: all_heard(one, other))
    assert scene.moved == 2


def test_a_connection_that_has_not_opened_does_not_move(scene: Scene) -> None:
    one, other = scene.ends
    for _ in range(5):
        one.tell(b"x" * 8192)
        scene.run(lambda: all_heard(one, other))
    assert scene.moved == 0


def test_no_more_connections_move_than_there_is_memory_for(authority: Authority, server: KeyPair) -> None:
    with contextlib.closing(Scene(authority, server)) as scene:
        few = TlsThreads(scene.loop, 1, RING_BYTES + 1)
        for end in scene.ends:
            few.move(end.io)
        assert len(few.threads[0].moved) == few.most == 1
        few.stop()


def test_a_quiet_connection_returns(scene: Scene) -> None:
    one, other = scene.ends
    for end in scene.ends:
        scene.threads.move(end.io)
    one.tell(b"x" * 100_000)
    scene.run(lambda: all_heard(one, other) and not scene.moved)
    other.tell(b"y" * 100)
    scene.run(lambda: all_heard(one, other))


def test_who_needs_the_object_of_openssl_gets_it_back(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    one.tell(b"x" * 700_000)
    assert scene.moved == 1
    assert one.io.tls.tls.version() == "TLSv1.3"
    assert scene.moved == 0
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def test_a_peer_that_does_not_read_is_waited_for(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    other.be_deaf()
    for _ in range(100):
        one.tell(b"x" * 100_000)
    assert one.pending(), "there is room without end"
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def test_who_does_not_read_from_the_thread_stops_the_peer(scene: Scene) -> None:
    one, other = scene.ends
    scene.threads.move(one.io)
    one.io.limit_unsent()
    other.be_deaf()
    while len(one.pending()) <= 2 << 20:
        one.tell(b"x" * 1_000_000)
    for _ in range(200):  # what it sends has no place
        other.tell(b"y" * 100_000)
    assert other.pending()
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert (one.heard.digest(), other.heard.digest()) == (other.said.digest(), one.said.digest())


def test_little_waits_for_a_slow_router_so_that_urgent_frames_overtake(scene: Scene) -> None:
    one, other = scene.ends
    one.io.keep_little_unsent()
    scene.threads.move(one.io)
    other.be_deaf()
    one.tell(b"x" * (24 << 20))
    taken = -1
    while taken != one.octets_out:
        taken = one.octets_out
        scene.turns(50)
    assert one.pending()
    other.hear_again()
    scene.run(lambda: all_heard(one, other))
    assert other.heard.digest() == one.said.digest()


def lent(scene: Scene) -> tuple[End, TlsSocket]:
    """The end that is with a thread, and the socket of the other one, which the test uses itself."""
    one, other = scene.ends
    scene.threads.move(one.io)
    assert scene.moved == 1
    other.be_deaf()
    return one, other.io.tls


def test_the_data_before_a_forged_record_is_read(scene: Scene) -> None:
    one, far = lent(scene)
    far.send(b"true")
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    scene.run(lambda: bool(one.ends))
    assert one.octets_heard == len(b"true")
    assert "bad record mac" in one.ends[0]


def test_a_record_that_is_too_long_ends_the_connection_at_once(scene: Scene) -> None:
    one, far = lent(scene)
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(b"\x17\x03\x03\xff\xff")
    scene.run(lambda: bool(one.ends))
    assert len(one.ends) == 1


@pytest.mark.parametrize("kind", [0, 1], ids=["own keys", "keys of both"])
@pytest.mark.parametrize("returns", [False, True])
def test_records_without_data_are_counted_wherever_the_connection_is(scene: Scene, kind: int, returns: bool) -> None:
    one, far = lent(scene)
    library, found = ctypes.CDLL(_ssl.__file__), ctypes.c_void_p(object_of(far.tls))
    for number in range(MAX_WITHOUT_DATA + 1):
        assert not one.ends
        assert library.SSL_key_update(found, kind) == 1
        far.tls.do_handshake()
        far.do_handshake()  # writes it
        if number % 256 == 255:
            scene.turns(20)
            if returns:
                one.io.give_back()
                scene.turns(20)
                scene.threads.move(one.io)
                assert scene.moved == 1
    scene.run(lambda: bool(one.ends))
    assert one.ends == ["too many TLS records without data"]


def test_a_few_records_without_data_before_others_do_no_harm(scene: Scene) -> None:
    one, far = lent(scene)
    library, found = ctypes.CDLL(_ssl.__file__), ctypes.c_void_p(object_of(far.tls))
    for _ in range(3 * MAX_WITHOUT_DATA):
        assert library.SSL_key_update(found, 0) == 1
        far.tls.do_handshake()
        far.do_handshake()
        far.send(b"x")
        scene.turns(1)
    scene.run(lambda: one.octets_heard == 3 * MAX_WITHOUT_DATA)
    assert not one.ends


@pytest.mark.parametrize("cut", [0, 1, 5, 6, 9000, 16388, 16389, 16406, 16407, 16410, 20_000])
def test_a_peer_that_is_cut_at_any_octet_ends_behind_its_whole_records(scene: Scene, cut: int) -> None:
    one, far = lent(scene)
    whole = 16384 + 22  # its header, type and tag
    records = records_of(far, b"a" * 16384, b"b" * 10_000)
    assert len(records) > 20_000
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        plain.sendall(records[:cut])
        plain.shutdown(socket.SHUT_WR)
    scene.run(lambda: bool(one.ends))
    assert one.octets_heard == (16384 if cut >= whole else 0)
    assert one.ends == ["closed by the peer"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_records_may_arrive_in_parts_while_the_connection_moves(scene: Scene, size: int) -> None:
    one, far = lent(scene)
    records = records_of(far, b"a" * 5, b"b" * 300, b"c")
    with socket.socket(fileno=os.dup(far.fileno())) as plain:
        for at in range(0, len(records), size):
            plain.sendall(records[at : at + size])
            scene.turns(2)
            if scene.moved:
                one.io.give_back()
            else:
                scene.threads.move(one.io)
    scene.run(lambda: one.octets_heard == 306)
    assert one.heard.digest() == hashlib.sha256(b"a" * 5 + b"b" * 300 + b"c").digest()


def records_of(far: TlsSocket, *data: bytes) -> bytes:
    """Records with this data, which are not sent: OpenSSL writes them into a pipe instead of the socket."""
    one, other = socket.socketpair()
    kept = os.dup(far.fileno())
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    os.dup2(other.fileno(), far.fileno())
    try:
        for each in data:
            far.send(each)
    finally:
        os.dup2(kept, far.fileno())
        os.close(kept)
        other.close()
    with one:
        found = b""
        while octets := one.recv(1 << 20):
            found += octets
        return found


@pytest.mark.parametrize("wanted", [1, 2, 64])
def test_how_many_threads_are_added(wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    monkeypatch.setattr("waymesh_router.runtime.transport.tls_threads.cores", lambda: 3)
    threads, reason = added_threads(loop, wanted, 1 << 20)
    count = 0 if threads is None else len(threads.threads)
    assert count == min(wanted, 3) - 1
    assert reason == ("only 3 have an effect: the process may use 3 cores" if wanted > 3 else "")
    if threads is not None:
        threads.stop()
    loop.close()


def test_the_objects_of_openssl_are_found() -> None:
    assert why_not() == ""
