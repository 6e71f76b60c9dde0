"""Clients that connect again and again, send, receive, answer at random, and write down all of it.

They run on python-qpid-proton, in one thread: little CPU, and the order in which they write is that in which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import proton
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.chaos.client import Client
from tests.chaos.events import Event
from tests.chaos.through import Through
from tests.chaos.workload import Plan
from tests.kit.crowd import Transports
from tests.kit.garbage import GARBAGE, free

TICK_S = 0.05
STOP_S = 60.0


class Clients(proton.Handler):
    """All clients of a run. `events`: what they wrote, which other threads may copy."""

    def __init__(self, plans: dict[str, Plan], ports: dict[str, int], seed: int, idle_s: float) -> None:
        """`ports`: where each client connects; `idle_s`: after so long without a frame it drops a connection."""
        super().__init__()
        self.events: list[Event] = []
        self.problems: list[str] = []
        """Links that a router ended, and why: no violation, but good to know."""
        self.idle_s = idle_s
        self.sending = True
        self.through = Through(plans)
        self._stopping = False
        self._wake = EventInjector()
        self.container = Container(self, global_handler=Transports())
        self.container.selectable(self._wake)
        self.clients = [Client(self, name, plan, ports[name], seed) for name, plan in plans.items()]
        GARBAGE.hold()
        self._thread = threading.Thread(target=self.container.run, name="clients", daemon=True)
        self._thread.start()

    # ---- from other threads
    def are_attached(self) -> bool:
        """Whether all clients have all their links."""
        return all(client.is_attached() for client in self.clients)

    def are_done(self) -> bool:
        """Whether producers know all outcomes, and consumers have answered all; after `finish`."""
        return not self.sending and all(client.is_done() for client in self.clients)

    def finish(self) -> None:
        """Send nothing new."""
        self._wake.trigger(ApplicationEvent("finish"))

    def close(self) -> None:
        """Drop all connections, and end the thread."""
        self._wake.trigger(ApplicationEvent("leave"))
        self._wake.close()
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), "the thread of the clients does not end"
        for client in self.clients:
            if client.connection is not None:
                free(client.connection)
        GARBAGE.let_go()

    # ---- in the thread of the container
    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call it later."""
        self.container.schedule(delay_s, _Timer(action))

    def on_reactor_init(self, event: Any) -> None:
        for client in self.clients:
            client.connect()
        self._tick()

    def _tick(self) -> None:
        if not self._stopping:
            now = time.monotonic()
            for client in self.clients:
                client.tick(now)
            self.after(TICK_S, self._tick)

    def on_finish(self, event: Any) -> None:
        self.sending = False
        for client in self.clients:
            client.finish()

    def on_leave(self, event: Any) -> None:
        self._stopping = True
        self.container.stop()

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()

    def on_transport_closed(self, event: Any) -> None:
        if not self._stopping:
            event.connection.client.on_lost()

    def on_link_remote_open(self, event: Any) -> None:
        if _is_current(event.link):
            event.link.task.on_attached()

    def on_link_remote_close(self, event: Any) -> None:
        if _is_current(event.link):
            event.link.task.on_detached(str(event.link.remote_condition or ""))

    on_link_remote_detach = on_link_remote_close

    def on_link_flow(self, event: Any) -> None:
        if _is_current(event.link):
            event.link.task.on_flow()

    def on_delivery(self, event: Any) -> None:
        if _is_current(event.link):
            event.link.task.on_delivery(event.delivery)


def _is_current(link: Any) -> bool:
    """Whether it is not one that its task has replaced."""
    return bool(link == link.task.link)


class _Timer(proton.Handler):
    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__()
        self._action = action

    def on_timer_task(self, event: Any) -> None:
        self._action()
