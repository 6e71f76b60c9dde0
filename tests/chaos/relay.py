"""TCP relays through which all connections of a run go: cut, silenced, delayed and slowed, each way separately.

A `Wire` is a port that leads to another one, for one connector or client. All wires of a `Relay` run in one thread. A
relay also writes down when connections end, whoever ended them: excuses of a run rest on what really happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.kit.ports import free_port

T = TypeVar("T")
PIECE = 16384
SLOW_PIECE = 512
LOOK_S = 0.02
WAIT_S = 60.0
OTHER = {"there": "back", "back": "there"}


@dataclass(slots=True)
class Terms:
    """What happens to bytes of one way. `rate`: bytes a second, 0: as many as come."""

    held: bool = False
    delay_s: float = 0.0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """A connection through a wire has ended."""

    at: float
    wire: str


class Wire:
    """A relayed port. `there`: from who connects to who listens; `back`: the other way. `host`: where the target is."""

    def __init__(self, name: str, target: int) -> None:
        self.name = name
        self.host = "127.0.0.1"
        self.target = target
        self.port = free_port()
        self.terms = {"there": Terms(), "back": Terms()}
        self.pairs: set[Pair] = set()


class Pair:
    """One connection through a wire: its two TCP connections."""

    def __init__(
        self, client: asyncio.StreamWriter, server: asyncio.StreamWriter, on_end: Callable[[], None]
    ) -> None:
        """`on_end`: called once, when the first of the two has ended."""
        self._on_end: Callable[[], None] | None = on_end
        self.ends = {"there": server, "back": client}
        """Where the bytes of each way go."""
        self.gone: set[str] = set()
        """Ways whose receiving end was aborted, while the other one knows nothing of it: bytes are dropped."""

    def tell_end(self) -> None:
        """One of the two has ended."""
        told, self._on_end = self._on_end, None
        if told is not None:
            told()

    def abort(self, way: str) -> None:
        """Reset the connection to which the bytes of a way go."""
        self.ends[way].transport.abort()

    def halve(self, way: str) -> None:
        """Reset one end; the other one stays open and gets no answer."""
        self.gone.add(way)
        self.abort(way)


class Relay:
    """The wires of a run and their thread."""

    def __init__(self) -> None:
        self.wires: dict[str, Wire] = {}
        self.ends: list[End] = []
        """All ends of connections so far, in order."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()

    def wire(self, name: str, target: int) -> Wire:
        """A new wire to a port of loopback."""
        wire = Wire(name, target)
        self.wires[name] = wire

        async def listen() -> None:
            await asyncio.start_server(lambda r, w: self._serve(wire, r, w), "127.0.0.1", wire.port, limit=PIECE)

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(WAIT_S)
        return wire

    def change(self, wire: Wire, way: str, **terms: float | bool) -> None:
        """Set terms of one way, or of both."""

        def run() -> None:
            for one in ("there", "back") if way == "both" else (way,):
                for key, value in terms.items():
                    setattr(wire.terms[one], key, value)

        self.call(run)

    def cut(self, wire: Wire) -> None:
        """Reset the wire's connections at both ends."""

        def run() -> None:
            for pair in wire.pairs:
                for way in OTHER:
                    pair.abort(way)

        self.call(run)

    def halve(self, wire: Wire, way: str) -> None:
        """Make them half open: the end to which the bytes of the way go is reset."""

        def run() -> None:
            for pair in wire.pairs:
                pair.halve(way)

        self.call(run)

    def heal(self) -> None:
        """Take back all terms. What is half open stays so until its end gives up."""
        for wire in self.wires.values():
            self.change(wire, "both", held=False, delay_s=0.0, rate=0.0)

    def is_whole(self) -> bool:
        """Whether each wire has one connection, and none is half open."""
        return self.call(
            lambda: all(
                len(wire.pairs) == 1 and not any(pair.gone for pair in wire.pairs) for wire in self.wires.values()
            )
        )

    def call(self, function: Callable[[], T]) -> T:
        """Run in the thread of the relay."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(WAIT_S)

    def close(self) -> None:
        """End the thread; connections are dropped."""

        async def end() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    async def _serve(self, wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_connection(wire.host, wire.target, limit=PIECE)
        except OSError:  # a router that was killed
            writer.transport.abort()
            return
        pair = Pair(writer, there, lambda: self.ends.append(End(time.monotonic(), wire.name)))
        wire.pairs.add(pair)
        try:
            await asyncio.gather(
                _pump(pair, "there", wire.terms["there"], reader), _pump(pair, "back", wire.terms["back"], there_reader)
            )
        except asyncio.CancelledError:  # the run is over
            pass
        finally:
            wire.pairs.discard(pair)
            for way in pair.ends:
                pair.abort(way)


async def _pump(pair: Pair, way: str, terms: Terms, reader: asyncio.StreamReader) -> None:
    """Pass on the bytes of one way until their source ends, then that end: orderly, or by a reset as it was."""
    writer, reset = pair.ends[way], False
    try:
        while data := await reader.read(SLOW_PIECE if terms.rate else PIECE):
            if terms.delay_s:
                await asyncio.sleep(terms.delay_s)
            if terms.rate:
                await asyncio.sleep(len(data) / terms.rate)
            await _while_held(pair, way, terms)
            if way not in pair.gone:
                writer.write(data)
                await writer.drain()
    except OSError:
        reset = True
    pair.tell_end()
    if OTHER[way] in pair.gone:
        return  # this end was reset by the relay, and the other one is to learn nothing
    await _while_held(pair, way, terms)
    if reset:
        pair.abort(way)
    else:
        with contextlib.suppress(OSError, RuntimeError):  # it has ended, too
            writer.write_eof()


async def _while_held(pair: Pair, way: str, terms: Terms) -> None:
    while terms.held and way not in pair.gone:
        await asyncio.sleep(LOOK_S)
