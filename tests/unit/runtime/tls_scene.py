"""Two ends of a connection over TLS on one loop, which move to threads and back."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import time
from collections.abc import Callable

from tests.kit.certificates import Authority, KeyPair
from tests.kit.waiting import DEADLINE_S
from tests.unit.runtime.fakes import FakeConnection, FakeRouter
from tests.unit.runtime.test_connection_io_end import joined
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, Loop
from waymesh_router.runtime.tls.sockets import TlsSocket
from waymesh_router.runtime.transport.connection_io import ConnectionIO, continue_all_inputs
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer
from waymesh_router.runtime.transport.tls_threads import (
    RING_BYTES,
    MovingTlsIO,
    TlsThreads,
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


def all_heard(one: End, other: End) -> bool:
    return one.octets_heard == other.octets_said and other.octets_heard == one.octets_said


def other_of(scene: Scene, end: End) -> End:
    return scene.ends[scene.ends[0] is end]


