"""A router on a thread of the test, whose objects the test can reach. Its listeners are real."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.kit.ports import free_port
from tests.kit.process import section
from tests.kit.waiting import wait_until
from waymesh_router.runtime.running import Running
from waymesh_schema.config import parse_conf

T = TypeVar("T")
WAIT_S = 120.0


class ThreadedRouter:
    """A standalone router `A` with a listener `clients`; more entities as configuration text."""

    def __init__(self, folder: Path, extra: str = "", router: dict[str, Any] | None = None, **listener: Any) -> None:
        self.port = free_port()
        self.url = f"amqp://127.0.0.1:{self.port}"
        self._log = folder / "router.log"
        text = section("router", id="A", mode="standalone", **(router or {}))
        text += section("log", module="DEFAULT", enable="info+", outputFile=self._log)
        text += section("listener", name="clients", host="127.0.0.1", port=self.port, **listener)
        self.running = Running(parse_conf(text + extra, "test"))
        self.router = self.running.router
        self.running.start()
        self._thread = threading.Thread(target=lambda: self.running.loop.run(self.running.host.turn), name="router")
        self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """Run in the router's thread: its result or exception."""
        done = threading.Event()
        result: list[T] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                result.append(function())
            except Exception as error:  # noqa: BLE001 - handed to the test
                failed.append(error)
            done.set()

        self.running.loop.call_from_thread(run)
        assert done.wait(WAIT_S), "the loop does not answer"
        if failed:
            raise failed[0]
        return result[0]

    def wait(self, function: Callable[[], T], what: str) -> T:
        """Wait until `function`, in the router's thread, is true."""
        return wait_until(lambda: self.call(function), WAIT_S, what)

    def log_text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def stop(self) -> None:
        self.running.loop.call_from_thread(lambda: self.running.host.stop("the test is over"))
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the router does not stop"
        self.running.log.close()
