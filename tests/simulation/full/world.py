"""Virtual time, stations with connections, and the wires between them.

A `World` is a heap of events. A `Station` is whoever has engine connections: what the socket runtime does for them with
epoll is done here with `Wire`s: two queues of bytes with latency, a limit of bytes on their way, and chunks of random
size.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

from waymesh_amqp.connection import Connection

START = 1000.0
SEGMENT = 1448
"""Bytes that arrive together where the wire is slow."""
SLACK = bytes(64)
"""Behind the bytes that were read, as the runtime's receive buffer has."""


class World:
    """Virtual time, in seconds, and whatever happens in it."""

    def __init__(self, seed: int = 1) -> None:
        self.now = START
        self.rng = random.Random(seed)
        self.chunked = 0.1
        """Probability that what is written at once arrives in pieces."""
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = itertools.count()

    # ---- time
    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self._events, (when, next(self._count), call, args))

    def after(self, delay: float, call: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay, call, *args)

    def run(self, seconds: float) -> None:
        """Let this time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self._step()
        self.now = end

    def until(self, condition: Callable[[], bool], limit: float, step: float = 0.0) -> float:
        """Run until the condition holds, looked at after each event, or after each `step` seconds; the time it took."""
        start = self.now
        while not condition():
            assert self.now - start <= limit, f"not reached within {limit} virtual seconds"
            if step:
                self.run(step)
            else:
                self._step()
        return self.now - start

    def _step(self) -> None:
        self.now, _, call, args = heapq.heappop(self._events)
        call(*args)


class Wire:
    """A transport between two stations: `ends[0]` accepted, `ends[1]` dialled.

    `limit`: bytes a direction that may be on their way; `rate`: bytes a second; `silent`: it swallows what is written.
    """

    def __init__(self, world: World, latency: float, limit: int = 1 << 18) -> None:
        self.world = world
        self.latency = latency
        self.limit = limit
        self.rate = math.inf
        self.silent = False
        self.dead = False
        self.ends: list[End] = []

    def join(self, station: Station, conn: Connection, endpoint: str) -> End:
        end = End(station, conn, self, endpoint)
        self.ends.append(end)
        station.ends[conn] = end
        if len(self.ends) == 2:
            for one, other in (self.ends, self.ends[::-1]):
                one.peer = other
            for each in self.ends:
                each.write()
        station.wake()
        return end

    def cut(self) -> None:
        """The transport breaks: bytes on their way are lost, both ends notice a moment later."""
        if self.dead:
            return
        self.dead = True
        for end in self.ends:
            self.world.after(self.world.rng.uniform(0, self.latency), end.ended, "connection reset")


class End:
    """One side of a wire with its engine connection."""

    def __init__(self, station: Station, conn: Connection, wire: Wire, endpoint: str) -> None:
        self.station = station
        self.conn = conn
        self.wire = wire
        self.endpoint = endpoint
        self.peer: End | None = None
        self.open = True
        self.tail = b""
        self.in_flight = 0
        self.last_at = 0.0
        self.since = wire.world.now

    def flush(self) -> None:
        self.conn.flush()
        self.write()

    def write(self) -> None:
        """Put on the wire what is pending, as far as there is room."""
        if not self.open or self.peer is None:
            return
        conn = self.conn
        size = conn.end - conn.off
        room = self.wire.limit - self.in_flight
        count = min(size, room)
        if count < size and room * 4 < self.wire.limit:
            return  # as of kernels: who fills the room of each small piece goes on in small pieces for ever
        if count > 0:
            data = bytes(conn.pending()[:count])
            conn.sent(count)
            self._transmit(data)
        if count >= size and conn.done:
            self.close()

    def _transmit(self, data: bytes) -> None:
        world = self.wire.world
        self.in_flight += len(data)
        at = max(self.last_at, world.now + self.wire.latency)
        while self.wire.rate < math.inf and data:
            at += len(data[:SEGMENT]) / self.wire.rate
            world.at(at, self._arrive, data[:SEGMENT])
            data = data[SEGMENT:]
        if world.rng.random() < world.chunked:
            while len(data) > 1:
                size = min(len(data) - 1, int(world.rng.expovariate(0.01)) + 1)
                world.at(at, self._arrive, data[:size])
                data = data[size:]
                at += self.wire.latency * world.rng.random() * 0.1
        if data:
            world.at(at, self._arrive, data)
        self.last_at = at

    def _arrive(self, data: bytes) -> None:
        """The other end reads what this one wrote."""
        wire = self.wire
        self.in_flight -= len(data)
        if wire.dead:
            return
        if self.conn.end > self.conn.off and self.open:
            self.write()
            self.station.wake()
        if self.peer is not None and not wire.silent:
            self.peer.feed(data)

    def feed(self, data: bytes) -> None:
        if not self.takes_input():
            return
        data = self.tail + data
        used = self.conn.receive(memoryview(data + SLACK), len(data))
        self.tail = data[used:]
        if not self.takes_input():
            self.write()
        self.station.wake()

    def takes_input(self) -> bool:
        """Whether both our side and the connection are open."""
        return self.open and not self.conn.done

    def close(self) -> None:
        """All is said: our side ends, the peer learns of it behind the last byte."""
        self._end_peer()
        self.ended("closed")

    def _end_peer(self) -> None:
        world = self.wire.world
        if self.peer is not None and not self.wire.silent:
            world.at(max(self.last_at, world.now + self.wire.latency), self.peer.ended, "closed by the peer")

    def ended(self, reason: str) -> None:
        """The transport is gone for this side."""
        if not self.open:
            return
        self.open = False
        if self.station.ends.pop(self.conn, None) is not None:
            if not self.wire.dead:
                self._end_peer()
            self.station.lost(self, reason)
            self.station.wake()


class Station:
    """Somebody with connections: what arrives is served in turns, each with its timers and its writes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ends: dict[Connection, End] = {}
        self.alive = True
        self._awake = False
        self._alarm = math.inf

    def wake(self) -> None:
        """A turn is due, behind all else of this instant that is known already."""
        if not self._awake:
            self._awake = True
            self.world.at(self.world.now, self.turn)

    def turn(self) -> None:
        self._awake = False
        if not self.alive:
            return
        deadline = max(self.tick(self.world.now), self.world.now)
        dirty = self.dirty_connections()
        for conn in dirty:
            end = self.ends.get(conn)
            if end is not None:
                end.flush()
        dirty.clear()
        if deadline < self._alarm:
            self._alarm = deadline
            self.world.at(deadline, self._ring, deadline)

    def _ring(self, deadline: float) -> None:
        if deadline == self._alarm:
            self._alarm = math.inf
            self.turn()

    def tick(self, now: float) -> float:
        """Timers; the next deadline."""
        raise NotImplementedError

    def dirty_connections(self) -> list[Connection]:
        raise NotImplementedError

    def lost(self, end: End, reason: str) -> None:
        """A transport ended."""
