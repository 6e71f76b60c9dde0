"""One local router: its process, its management connection, and its way from start to end."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from waymesh_operator.cluster.observed import RouterState
from waymesh_operator.errors import LiveError
from waymesh_operator.routers.client import LiveClient
from waymesh_operator.routers.views import RouterView, unsettled

from .processes import Process

FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 10.0
STEADY_AFTER_S = 10.0
TERMINATE_S = 5.0
"""How long a router may take to end after SIGTERM before it is killed."""


@dataclass
class Drain:
    """How far a router is on its way out."""

    give_up_at: float
    closed: bool = False
    terminated_at: float | None = None
    killed: bool = False
    last_seen: int = 0


@dataclass
class LocalRouter:
    """A router of a local mesh. `started_at` and all other times are of one monotonic clock."""

    id: str
    ordinal: int
    client: LiveClient
    process: Process
    started_at: float
    state: RouterState = RouterState.STARTING
    reason: str = ""
    failures: int = 0
    retry_at: float = 0.0
    ask_at: float = 0.0
    changed: bool = False
    entities_at: float = 0.0
    view_at: float = 0.0
    view: RouterView = field(default_factory=RouterView)
    drain: Drain | None = None
    cpu: float | None = None
    cpu_seconds: float = 0.0
    cpu_at: float = 0.0
    rss_bytes: int | None = None

    def started(self, process: Process, client: LiveClient, now: float) -> None:
        """A new process has taken the place of one that ended."""
        self.process, self.client, self.started_at = process, client, now
        self.state, self.reason, self.view = RouterState.STARTING, "", RouterView()
        self.cpu, self.rss_bytes, self.cpu_at, self.ask_at = None, None, 0.0, 0.0

    def ended(self, reason: str, now: float) -> None:
        """The process is gone though nobody asked it to go: wait longer each time before the next start."""
        self.failures = 1 if now - self.started_at > STEADY_AFTER_S else self.failures + 1
        delay = min(FIRST_DELAY_S * 2 ** (self.failures - 1), LONGEST_DELAY_S)
        self.state, self.reason, self.retry_at = RouterState.WAITING, reason, now + delay
        self.view = RouterView()
        self.client.close()

    def begin_drain(self, timeout_s: float, now: float) -> None:
        """Start to leave: from now on it only loses work."""
        self.state = RouterState.DRAINING
        self.drain = Drain(now + timeout_s)

    def drain_step(self, listeners: list[str], now: float) -> str | None:
        """Go on with leaving; returns what to tell, once, when the time is up with deliveries left.

        `listeners` are the names of the client listeners, which close first, so that no new work arrives.
        """
        drain = self.drain
        assert drain is not None
        if drain.terminated_at is not None:
            if now - drain.terminated_at > TERMINATE_S and not drain.killed:
                drain.killed = True
                self.process.send(signal.SIGKILL)
                return f"{self.id} did not end within {TERMINATE_S:g} s and is killed"
            return None
        left = self._work_left(drain, listeners)
        if left and now < drain.give_up_at:
            return None
        self.client.close()
        self.process.send(signal.SIGTERM)
        drain.terminated_at = now
        return f"{self.id} ends with {left} deliveries unsettled: its time is up" if left else None

    def hurry(self, now: float) -> None:
        """Wait no longer for what is unsettled."""
        if self.drain:
            self.drain.give_up_at = min(self.drain.give_up_at, now)

    def _work_left(self, drain: Drain, listeners: list[str]) -> int:
        """Unsettled deliveries; 0 for a router that does not answer, which nothing can be said about."""
        try:
            if not drain.closed:
                drain.closed = True
                self._close_listeners(listeners)
            drain.last_seen = unsettled(self.client)
        except LiveError:
            drain.last_seen = 0
        return drain.last_seen

    def _close_listeners(self, listeners: list[str]) -> None:
        from waymesh_client.errors import ClientError

        for name in listeners:
            try:
                self.client.delete("listener", name=name)
            except ClientError as error:
                raise LiveError(str(error)) from error
