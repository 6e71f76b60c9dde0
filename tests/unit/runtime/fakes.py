"""Fakes of the router and the engine connection: their "protocol" is lines, each echoed."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from tests.kit.waiting import DEADLINE_S
from waymesh_amqp.connection import Connection
from waymesh_amqp.handler import Handler
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.peers.peer import Peer
from waymesh_router.runtime.host import SocketHost
from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.loop import Loop


class FakeConnection(Connection):
    """Echoes complete lines. `bye` closes the connection in an orderly way, `crash` raises."""

    def __init__(self, router: FakeRouter, peer: Peer, greeting: bytes = b"") -> None:
        super().__init__(ConnectionSettings("fake"), router.handler, 0.0)
        self.peer = peer
        self.closed_with: tuple[str, str] | None = None
        self.say(greeting)

    def receive(self, view: memoryview, count: int) -> int:
        data = bytes(view[:count])
        used = data.rfind(b"\n") + 1
        for line in data[:used].splitlines(keepends=True):
            if line == b"crash\n":
                raise RuntimeError("a bug")
            self.say(line)
            if line == b"bye\n":
                self.done = True
        return used

    def close(self, condition: str = "", description: str = "") -> None:
        self.closed_with = (condition, description)
        self.say(f"closed: {description}\n".encode())
        self.done = True

    def say(self, data: bytes) -> None:
        """Write `data` to the peer."""
        self.put(data)
        self.mark_dirty()


class FakeRouter:
    """Records what the host reported."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.core = SimpleNamespace(now=0.0)
        self.connections: list[tuple[str, FakeConnection]] = []
        self.failures: list[tuple[str, str]] = []
        self.losses: list[tuple[FakeConnection, str]] = []
        self.greeting = b""
        self.refuse = False

    def accepted(self, listener: str, peer: Peer) -> FakeConnection:
        if self.refuse:
            raise RuntimeError("a bug")
        return self._add(listener, FakeConnection(self, peer))

    def connected(self, connector: str, peer: Peer) -> FakeConnection:
        return self._add(connector, FakeConnection(self, peer, self.greeting))

    def connect_failed(self, connector: str, reason: str) -> None:
        self.failures.append((connector, reason))

    def lost(self, conn: FakeConnection, reason: str) -> None:
        self.losses.append((conn, reason))

    def logged(self, module: str, level: str, text: str) -> None:
        """A line of level warning or above; ignored."""

    def tick(self, now: float) -> float:
        return math.inf

    @property
    def dirty(self) -> list[Connection]:
        return self.handler.dirty

    def _add(self, name: str, conn: FakeConnection) -> FakeConnection:
        self.connections.append((name, conn))
        return conn


class Running:
    """A host on a loop in a thread. `call` runs a function in the loop's thread and returns its result or raises its
    error."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.lines: list[str] = []
        log = Log(lambda: datetime.now(UTC), lambda *_: self)
        self.host = SocketHost(self.loop, log, lambda: 0.0)
        self.router = FakeRouter()
        self.host.attach(self.router)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=lambda: self.loop.run(self.host.turn))
        self._thread.start()

    def call(self, function: Any, *args: Any) -> Any:
        done = threading.Event()
        result: list[Any] = [None, None]

        def run() -> None:
            try:
                result[0] = function(*args)
            except Exception as error:  # noqa: BLE001 - handed to the test
                result[1] = error
            done.set()

        self.loop.call_from_thread(run)
        assert done.wait(DEADLINE_S), "the loop does not answer"
        if result[1] is not None:
            raise result[1]
        return result[0]

    def listen(self, **attrs: Any) -> int:
        """Start a listener on a port that the system chooses; returns the port."""
        attrs = {"name": "L", "host": "127.0.0.1", "port": "0", **attrs}
        self.call(self.host.listen, attrs)
        return int(self.call(self.host.ports, attrs["name"])[0])

    def connect(self, port: int, **attrs: Any) -> None:
        self.call(self.host.connect, {"name": "C", "host": "127.0.0.1", "port": str(port), **attrs})

    def log_text(self) -> str:
        return "\n".join(self.lines)

    def write(self, level: str, line: str) -> None:
        """Sink of the log."""
        self.lines.append(line)

    def close(self) -> None:
        """Sink of the log."""

    def stop(self) -> None:
        self.loop.call_from_thread(lambda: self.host.stop("the test is over"))
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        self.loop.close()


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Runs a `Running` host for the block."""
    host = Running()
    try:
        yield host
    finally:
        host.stop()
