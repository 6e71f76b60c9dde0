"""Frees the memory of messages that wait, when holding their senders back is not enough.

A client that is held may still send what its session windows allow, and each of its links may keep a little beyond the
budgets (core/forwarding/budget.py). With many sessions and links, this can be more than the memory of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.events import Event, Log
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection

AGAIN_S = 0.01
"""Minimum time between two searches for the client whose messages take the most memory."""
_ROUTERS = (INTER_ROUTER, "edge")
_MIB = 1 << 20


class MemoryRelief:
    """Drops the waiting messages of clients that are gone, and disconnects the client with the most waiting bytes.

    No sender is told that such a message was accepted: unsettled ones are released, or their sender is gone without an
    outcome. Messages that came from other routers and edge routers stay: credit limits them, and they are not this
    router's clients.
    """

    def __init__(self, core: Core, log: Log) -> None:
        self._core = core
        self._log = log
        self._next = 0.0

    def end_excess(self, now: float) -> None:
        """Act if the waiting messages exceed the budgets by far. To be called in each turn of the loop in which
        `Budget.excess` is set: a client must not fill the memory between two ticks."""
        if now < self._next:
            return
        self._next = now + AGAIN_S
        budget = self._core.budget
        budget.excess = False
        if self._of_clients() > budget.most:
            self._drop_abandoned()
        if self._of_clients() > budget.most:
            self._disconnect(self._worst())

    def when_short(self, full: bool) -> None:
        """Act while memory is high or `full`, see memory_watermark.py: new clients are not served until then.

        A client is only disconnected if the messages of all clients together exceed the budget of the router or, while
        memory is full, its own messages exceed its budget.
        """
        budget = self._core.budget
        self._drop_abandoned()
        worst = self._worst()
        if worst is None:
            return
        if self._of_clients() > budget.per_router or (full and worst.kept > budget.per_connection):
            self._disconnect(worst)

    def _of_clients(self) -> int:
        """Waiting bytes that clients sent, also those that are gone."""
        routers = (conn.kept for conn in self._core.connections.values() if conn.role in _ROUTERS)
        return self._core.budget.kept - sum(routers)

    def _drop_abandoned(self) -> None:
        """Drop the waiting messages of clients that are gone."""
        before = self._core.budget.kept
        self._core.interruptions.drop_abandoned(list(self._core.addresses.values()))
        dropped = before - self._core.budget.kept
        if dropped:
            self._tell(f"{dropped} bytes of waiting messages whose senders are gone are dropped")

    def _worst(self) -> RouterConnection | None:
        """The client with the most waiting bytes."""
        there = self._core.connections.values()
        clients = [conn for conn in there if conn.role not in _ROUTERS and not conn.over and not conn.done]
        return max(clients, key=lambda conn: conn.kept, default=None)

    def _disconnect(self, conn: RouterConnection | None) -> None:
        if conn is None or not conn.kept:
            return
        reason = f"{max(1, conn.kept // _MIB)} MiB of its messages wait, and the router is short of memory"
        core = self._core
        core.interruptions.drop_waiting(conn, list(core.links.values()), list(core.addresses.values()))
        self._tell(f"[C{conn.id}] disconnected: {reason}")
        conn.fail(RESOURCE_LIMIT_EXCEEDED, f"{reason} (maxBufferedBytes)")

    def _tell(self, text: str) -> None:
        detail: dict[str, str | int] = {"limit": "maxBufferedBytes", "maximum": self._core.budget.per_router}
        self._log("SERVER", "warning", text, Event(LogEvent.LIMIT_REACHED, {}, detail))
