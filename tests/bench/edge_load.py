"""Clients of many edge routers in one process: each edge has one producer and one consumer, the mesh has the others.

Producers at the edges send to one consumer at an interior router, a producer there sends to each of them. All messages
are unsettled; what was accepted must have arrived.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

UP = "fleet/up"
PACE_S = 0.1
STEP_S = 0.005
END_S = 30.0


class Flow:
    """Messages of one producer, one at a time. `name` is in each of them, with a number."""

    def __init__(self, name: str, sender: Any) -> None:
        self.name = name
        self.sender = sender
        self.sent = 0
        self.under_way: Any = None
        self.next_at = 0.0
        self.accepted: dict[str, float] = {}
        self.others: Counter[str] = Counter()

    def pump(self, now: float) -> None:
        if self.under_way is None and now >= self.next_at and self.sender.credit > 0:
            self.sent += 1
            self.next_at = now + PACE_S
            body = f"{self.name}/{self.sent}"
            self.under_way = self.sender.send(Message(body=body))

    def ended(self, state: str, now: float) -> None:
        """The message under way has its outcome."""
        if state == "ACCEPTED":
            self.accepted[f"{self.name}/{self.sent}"] = now
        else:
            self.others[state] += 1
        self.under_way = None

    def gap(self, since: float) -> float:
        """The longest time between two accepted messages of which the later one came after `since`."""
        times = list(self.accepted.values())
        return max((b - a for a, b in pairwise(times) if b >= since), default=float("inf"))


class Load(MessagingHandler):
    """All clients; they act while `run` or another method of waiting is called."""

    def __init__(self, edges: list[int], interior: int) -> None:
        MessagingHandler.__init__(self, prefetch=50, auto_accept=True)
        self.flows: dict[Any, Flow] = {}
        self.received: Counter[str] = Counter()
        self._container = Container(self)
        self._container.timeout = STEP_S
        self._container.start()
        self._quiet = False
        self._connections: list[Any] = []
        self._inner = self._connect(interior)
        self._container.create_receiver(self._inner, UP)
        for port in edges:
            self.add_edge(port)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *exception: object) -> None:
        self._container.stop()
        for connection in self._connections:
            connection.close()
        self._work()

    def _connect(self, port: int) -> Any:
        connection = self._container.connect(f"127.0.0.1:{port}", reconnect=False, allowed_mechs="ANONYMOUS")
        self._connections.append(connection)
        return connection

    def add_edge(self, port: int) -> None:
        """An edge router's producer and consumer, and the producer in the mesh for the latter."""
        connection = self._connect(port)
        down = f"fleet/down/{port}"
        self._container.create_receiver(connection, down)
        for name, at, address in ((f"up/{port}", connection, UP), (f"down/{port}", self._inner, down)):
            sender = self._container.create_sender(at, address, name=name)
            self.flows[name] = Flow(name, sender)

    def _work(self) -> None:
        """Serve the sockets for a moment, and send what can be sent."""
        self._container.process()
        now = time.monotonic()
        if not self._quiet:
            for flow in self.flows.values():
                flow.pump(now)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._work()

    def all_flow(self) -> bool:
        """Whether each producer has had a message accepted; works meanwhile."""
        self.run(0.2)
        return all(flow.accepted for flow in self.flows.values())

    def all_accepted(self) -> bool:
        """The same, looked at more often."""
        self.run(0.01)
        return all(flow.accepted for flow in self.flows.values())

    def first_accepted(self) -> float:
        """When the first message from an edge router was accepted."""
        return min(next(iter(f.accepted.values())) for f in self.flows.values() if f.name.startswith("up/"))

    def end(self) -> None:
        """No more messages: until each has its outcome."""
        self._quiet = True
        end = time.monotonic() + END_S
        while any(flow.under_way is not None for flow in self.flows.values()) and time.monotonic() < end:
            self._work()
        self.run(0.2)

    def summary(self, since: float) -> str:
        flows = list(self.flows.values())
        accepted = {body for flow in flows for body in flow.accepted}
        others: Counter[str] = Counter()
        for flow in flows:
            others.update(flow.others)
        open_still = sum(flow.under_way is not None for flow in flows)
        lines = [f"{len(accepted)} accepted, {len(accepted - self.received.keys())} of them lost"]
        twice = sum(count > 1 for count in self.received.values())
        lines.append(f"{twice} received twice, other outcomes: {dict(others)}")
        lines.append(f"{open_still} without an outcome")
        for way in ("up", "down"):
            gaps = sorted(flow.gap(since) for flow in flows if flow.name.startswith(way + "/"))
            lines.append(f"longest gap {way}: median {gaps[len(gaps) // 2]:.2f} s, most {gaps[-1]:.2f} s")
        return "\n".join(lines)

    # ---- events
    def on_message(self, event: Any) -> None:
        self.received[str(event.message.body)] += 1

    def on_accepted(self, event: Any) -> None:
        self._ended(event, "ACCEPTED")

    def on_rejected(self, event: Any) -> None:
        self._ended(event, "REJECTED")

    def on_released(self, event: Any) -> None:
        self._ended(event, "MODIFIED" if event.delivery.remote_state == event.delivery.MODIFIED else "RELEASED")

    def _ended(self, event: Any, state: str) -> None:
        flow = self.flows[event.link.name]
        if flow.under_way == event.delivery:
            flow.ended(state, time.monotonic())
