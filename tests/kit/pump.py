"""In-memory wires: a raw peer of an engine connection, or two engine connections joined, in chunks of a chosen size.

A `Hub` does for its handler what the socket runtime does: it feeds bytes, keeps the tail of an incomplete frame,
flushes the connections that are dirty and takes what they wrote.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.kit import frames
from tests.kit.frames import Seen, read_frames
from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.core import Core
from waymesh_router.core.link_kinds import WRITE_MANAGEMENT
from waymesh_router.core.model import RouterConnection
from waymesh_router.peers import peer

CHUNKS = (1, 2, 3, 7, 64, 1000, 10000)


class End:
    """The transport side of one engine connection. `chunk`: bytes a read; `on_bytes`: takes what the engine writes."""

    def __init__(self, hub: Hub, conn: Connection, chunk: int) -> None:
        self.hub = hub
        self.conn = conn
        self.chunk = chunk
        self.tail = b""
        self.written = b""
        self.on_bytes: Callable[[bytes], None] = self._keep

    def feed(self, data: bytes) -> None:
        """Present bytes as a transport would, until the connection is done."""
        for at in range(0, len(data), self.chunk):
            if self.conn.done:
                return
            self.tail += data[at : at + self.chunk]
            used = self.conn.receive(memoryview(self.tail), len(self.tail))
            assert 0 <= used <= len(self.tail)
            self.tail = self.tail[used:]

    def collect(self) -> None:
        """Flush, and take what the engine has written."""
        self.conn.flush()
        data = bytes(self.conn.pending())
        if data:
            self.conn.sent(len(data))
            self.on_bytes(data)

    def _keep(self, data: bytes) -> None:
        self.written += data


class Hub:
    """Connections of one handler, in virtual time. `chunk`: bytes a read of its peers."""

    def __init__(self, handler: Handler, chunk: int = 10000, now: float = 100.0) -> None:
        self.handler = handler
        self.chunk = chunk
        self.now = now
        self.ends: dict[int, End] = {}

    def join(self, conn: Connection) -> End:
        """Put a transport to a connection."""
        end = End(self, conn, self.chunk)
        self.ends[id(conn)] = end
        return end

    def peer(self, settings: ConnectionSettings | None = None) -> Peer:
        """A raw peer of a new connection; a server's unless the settings say otherwise."""
        settings = settings or ConnectionSettings("engine")
        if isinstance(self.handler, Core):
            known = RouterConnection(settings, self.handler, self.now)
            known.peer = peer.Peer("peer")
            known.management = WRITE_MANAGEMENT
            self.handler.connection_table.add(known)
            conn: Connection = known
        else:
            conn = Connection(settings, self.handler, self.now)
        return Peer(self.join(conn))

    def turn(self) -> None:
        """One turn of the loop: flush what is dirty until nothing is."""
        if isinstance(self.handler, Core):
            self.handler.demand.groups.soon()
            self.handler.credit.send_freed()
        while self.handler.dirty:
            batch, self.handler.dirty = self.handler.dirty, []
            for conn in batch:
                end = self.ends.get(id(conn))
                if end is not None:
                    end.collect()

    def finish(self) -> None:
        """What turns without input do: the work in portions."""
        portions = core_of(self).context.portions
        while portions:
            portions.run()
            self.turn()

    def tick(self, seconds: float) -> None:
        """Let time pass for all connections."""
        self.now += seconds
        for end in list(self.ends.values()):
            end.conn.tick(self.now)
        self.turn()


class Peer:
    """A raw peer: sends bytes that a test made, reads what the engine answers."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.conn: Any = end.conn
        self.hub = end.hub

    @property
    def handler(self) -> Any:
        return self.hub.handler

    def send(self, *data: bytes) -> list[Any]:
        """Send bytes; what the engine wrote since the last look: performatives, headers as bytes, None if empty."""
        self.end.feed(b"".join(data))
        self.hub.turn()
        return self.take()

    def exchange(self, *data: bytes) -> list[Seen | bytes]:
        """Like `send`, with channels, payloads and sizes."""
        self.end.feed(b"".join(data))
        return self.frames()

    def frames(self) -> list[Seen | bytes]:
        """What the engine wrote since the last look, with channels, payloads and sizes."""
        self.hub.turn()
        found, self.end.written = read_frames(self.end.written)
        return found

    def take(self) -> list[Any]:
        return [f.performative if isinstance(f, Seen) else f for f in self.frames()]

    def open(self, **over: Any) -> Peer:
        """Header and open exchanged."""
        answers = self.send(frames.AMQP, frames.open_(**over))
        assert [type(a).__name__ for a in answers] == ["bytes", "Open"], answers
        return self

    def begin(self, channel: int = 0, **over: Any) -> Peer:
        """A session begun on both sides."""
        answers = self.send(frames.begin(channel, **over))
        assert [type(a).__name__ for a in answers] == ["Begin"], answers
        return self

    def session(self, channel: int = 0) -> Any:
        """The engine's session on the peer's channel."""
        return self.conn.remote_sessions[channel]

    def kill(self, reason: str = "killed") -> None:
        """The transport breaks."""
        self.conn.eof(reason)
        self.hub.turn()


def core_hub(chunk: int = 10000, **over: Any) -> Hub:
    """A hub around a standalone router's core. Settings of `Core` may be given."""
    log: list[tuple[str, str, str]] = []
    settings = {"router_id": "R", "now": 100.0, "rng": random.Random(1), **over}
    core = Core(log=lambda *line: log.append(line), **settings)
    return Hub(core, chunk)


def core_of(hub: Hub) -> Core:
    """The core of a hub that `core_hub` made."""
    assert isinstance(hub.handler, Core)
    return hub.handler


def couple(a: End, b: End) -> None:
    """Join two engine connections: what one writes, the other reads."""
    a.on_bytes = b.feed
    b.on_bytes = a.feed
