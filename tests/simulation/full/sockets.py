"""Connections of clients of the model, which make their frames themselves, to simulated routers."""

from __future__ import annotations

import math
from typing import Any

from tests.kit import frames
from tests.simulation.full.network import CLIENT_PORT, Network, SimRouter
from tests.simulation.full.world import End, Station
from waymesh_amqp.connection import Connection
from waymesh_amqp.performatives import Open


class Socket:
    """What a `Wire` needs of a connection, for a client that makes its frames itself."""

    def __init__(self) -> None:
        self.out = b""
        self.read = b""
        self.off = 0
        self.done = False

    @property
    def end(self) -> int:
        return len(self.out)

    def pending(self) -> bytes:
        return self.out

    def sent(self, count: int) -> None:
        self.out = self.out[count:]

    def flush(self) -> None:
        """All is pending already."""

    def receive(self, data: memoryview, size: int) -> int:
        self.read += bytes(data[:size])
        return size


class Sockets(Station):
    """The place of the sockets."""

    def tick(self, now: float) -> float:
        return math.inf

    def dirty_connections(self) -> list[Connection]:
        return []

    def lost(self, end: End, reason: str) -> None:
        end.conn.done = True


class Line:
    """A client's connection, with the methods of `tests.kit.pump.Peer` and its `End` that `Client` calls."""

    def __init__(self, network: Network, place: Sockets, router: SimRouter, hub: object) -> None:
        self.hub = hub
        self.router = router
        conn: Any = Socket()
        self.conn = conn
        found = network.dial(CLIENT_PORT + router.number, 0.0002)
        assert found is not None
        wire, host, listener = found
        host.accept(wire, listener, "client")
        self.wire = wire.join(place, conn, "client")

    @property
    def end(self) -> Line:
        return self

    def feed(self, data: bytes) -> None:
        if not self.conn.done:
            self.conn.out += data
            self.wire.write()

    def open(self, **over: Any) -> None:
        self.feed(frames.AMQP + frames.open_(**over))

    def frames(self) -> list[Any]:
        found, self.conn.read = frames.read_frames(self.conn.read)
        return [f for f in found if isinstance(f, frames.Seen) and not isinstance(f.performative, Open | None)]

    def kill(self, reason: str = "") -> None:
        self.wire.wire.cut()
