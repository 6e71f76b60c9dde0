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
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
        self.injected: Counter[str] = Counter()
        """How often what went wrong: bytes that arrived in pieces, writes that overtook others, crashes, disks."""
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


@dataclass(slots=True)
class Terms:
    """What happens to the bytes of one way. `held`: they wait; `delay_s`: they take so much longer; `jitter_s`: up to
    so much, each write, so that those on other wires overtake it; `rate`: bytes a second."""

    held: bool = False
    delay_s: float = 0.0
    jitter_s: float = 0.0
    rate: float = math.inf


class Ways:
    """Both ways of a wire; `there`: from who dialled to who accepted. `ended`: how many wires with these ways have
    ended, and `half_open`: of how many of them only one end knows."""

    def __init__(self) -> None:
        self.there, self.back = Terms(), Terms()
        self.ended = self.half_open = 0


class Wire:
    """A transport between two stations: `ends[0]` accepted, `ends[1]` dialled.

    `limit`: bytes a direction that may be on their way; `rate`: bytes a second; `silent`: it swallows what is written.
    `ways`: further terms, which can be those of many wires.
    """

    def __init__(self, world: World, latency: float, limit: int = 1 << 18, ways: Ways | None = None) -> None:
        self.ways = ways or Ways()
        self.world = world
        self.latency = latency
        self.limit = limit
        self.rate = math.inf
        self.silent = False
        self.dead = False
        self.over = False
        """One of its ends has ended."""
        self.halved = False
        """The other one does not know."""
        self.ends: list[End] = []

    def join(self, station: Station, conn: Connection, endpoint: str) -> End:
        end = End(station, conn, self, endpoint, self.ways.there if self.ends else self.ways.back)
        self.ends.append(end)
        station.ends[conn] = end
        if len(self.ends) == 2:
            for one, other in (self.ends, self.ends[::-1]):
                one.peer = other
            for each in self.ends:
                each.write()
        station.wake()
        return end

    def look(self) -> None:
        """A way is not held any more, or a station goes on: what waited arrives."""
        for end in self.ends:
            end.look()

    def halve(self, end: End) -> None:
        """One end is reset; the other one learns nothing, and gets no answer."""
        self.silent = True
        if end.open and end.peer is not None and end.peer.open:
            self.halved = True
            self.ways.half_open += 1
        end.ended("connection reset")

    def lose(self) -> None:
        """A station is gone at once: it does not matter any more that one end did not know."""
        if self.halved:
            self.halved = False
            self.ways.half_open -= 1
        self.cut()

    def cut(self) -> None:
        """The transport breaks: bytes on their way are lost, both ends notice a moment later."""
        if self.dead:
            return
        self.dead = True
        for end in self.ends:
            self.world.after(self.world.rng.uniform(0, self.latency), end.ended, "connection reset")


class End:
    """One side of a wire with its engine connection. `terms`: of the bytes that it writes."""

    def __init__(self, station: Station, conn: Connection, wire: Wire, endpoint: str, terms: Terms) -> None:
        self.terms = terms
        self.waiting: deque[tuple[Callable[..., None], Any]] = deque()
        """What arrives at the other end as soon as this way is not held and that station goes on."""
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
            data = self.station.let_out(bytes(conn.pending()[:count]))
            conn.sent(count)
            self._transmit(data)
        if count >= size and conn.done:
            self.close()

    def _transmit(self, data: bytes) -> None:
        world = self.wire.world
        self.in_flight += len(data)
        at = max(self.last_at, world.now + self.wire.latency + self.terms.delay_s)
        if self.terms.jitter_s:
            at += world.rng.uniform(0, self.terms.jitter_s)
        rate = min(self.wire.rate, self.terms.rate)
        while rate < math.inf and data:
            at += len(data[:SEGMENT]) / rate
            world.at(at, self._arrive, data[:SEGMENT])
            data = data[SEGMENT:]
        if world.rng.random() < world.chunked:
            world.injected["short read"] += len(data) > 1
            while len(data) > 1:
                size = min(len(data) - 1, int(world.rng.expovariate(0.01)) + 1)
                world.at(at, self._arrive, data[:size])
                data = data[size:]
                at += self.wire.latency * world.rng.random() * 0.1
        if data:
            world.at(at, self._arrive, data)
        self.last_at = at
        if self.terms.jitter_s and at < self.station.latest_at:
            world.injected["overtaking write"] += 1
        self.station.latest_at = max(self.station.latest_at, at)

    def _come(self, call: Callable[..., None], what: Any) -> None:
        """Something arrives at the other end, now or later."""
        self.waiting.append((call, what))
        self.look()

    def look(self) -> None:
        """What waits arrives, unless the way is held or that station is paused."""
        while self.waiting and not self.terms.held and not (self.peer is not None and self.peer.is_paused()):
            call, what = self.waiting.popleft()
            call(what)

    def is_paused(self) -> bool:
        """Whether it is open, and its station does nothing."""
        return self.open and self.station.paused

    def _arrive(self, data: bytes) -> None:
        """Bytes come to the other end."""
        self._come(self._read, data)

    def _read(self, data: bytes) -> None:
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
        self.station.woken(self.station.world.now)
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
            at = max(self.last_at, world.now + self.wire.latency)
            world.at(at, self._come, self.peer.ended, "closed by the peer")

    def ended(self, reason: str) -> None:
        """The transport is gone for this side."""
        if not self.open:
            return
        if self.station.paused:
            self.station.when_on.append(partial(self.ended, reason))
            return
        self.open = False
        if self.peer is not None:
            self.peer.look()
        wire = self.wire
        if not wire.over:
            wire.over = True
            wire.ways.ended += 1
        elif wire.halved:
            wire.halved = False
            wire.ways.half_open -= 1
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
        self.clock_off_s = 0.0
        """How far its system clock is off."""
        self.paused = False
        """Like a process that is stopped: it does nothing, and its connections stay."""
        self.latest_at = 0.0
        """When the last of what it wrote arrives, on any of its wires."""
        self._pauses = 0
        self.when_on: list[Callable[[], None]] = []
        """What it does first when it goes on."""
        self._awake = False
        self._alarm = math.inf

    def let_out(self, data: bytes) -> bytes:
        """What of a write gets out."""
        return data

    def wake(self) -> None:
        """A turn is due, behind all else of this instant that is known already."""
        if not self._awake:
            self._awake = True
            self.world.at(self.world.now, self.turn)

    def pause(self) -> None:
        """Do nothing until `go_on`, as often as this was called."""
        self._pauses += 1
        self.paused = True

    def go_on(self) -> None:
        """End a pause."""
        self._pauses = max(0, self._pauses - 1)
        if self._pauses:
            return
        self.paused = False
        due, self.when_on = self.when_on, []
        for action in due:
            action()
        for end in list(self.ends.values()):
            if end.peer is not None:
                end.peer.look()
        self.wake()

    def turn(self) -> None:
        self._awake = False
        if not self.alive or self.paused:
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

    def woken(self, now: float) -> None:
        """Bytes have arrived and are about to be handled."""

    def tick(self, now: float) -> float:
        """Timers; the next deadline."""
        raise NotImplementedError

    def dirty_connections(self) -> list[Connection]:
        raise NotImplementedError

    def lost(self, end: End, reason: str) -> None:
        """A transport ended."""
