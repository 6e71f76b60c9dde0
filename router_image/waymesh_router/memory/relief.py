"""Frees the memory of waiting messages when flow control is not enough.

A client whose sessions are held (core/forwarding/buffer_budget.py) may still send what their windows allow, and each of
its links may exceed the budgets a little. With many sessions and links, this can be more than the memory of the
process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.core.settlement.interruptions import drop_waiting
from waymesh_router.events.event import Event, Log
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection

AGAIN_S = 0.01
"""Minimum time between two searches for the client whose messages take the most memory."""
GONE_PART = 10
"""Messages whose senders are gone may take 1/GONE_PART of `maxMemory`."""
_ALL = (1 << 63) - 1
_ROUTERS = (INTER_ROUTER, "edge")
_MIB = 1 << 20


def _kept(conn: RouterConnection) -> int:
    return conn.kept


class MemoryRelief:
    """Drops waiting messages whose senders are gone, and disconnects the client with the most waiting bytes.

    Unsettled messages are released; if their sender has disconnected, nobody gets an outcome. Pre-settled messages are
    lost, among them the copies that exchanges made. Messages from routers and edge routers that are connected stay:
    credit limits them, and those routers are not clients of this one.
    """

    def __init__(self, core: Core, log: Log) -> None:
        self._core = core
        self._log = log
        self._next = 0.0

    def end_excess(self, now: float) -> None:
        """Free memory if the waiting messages exceed the budgets by far. Must be called in each turn of the event loop
        in which `BufferBudget.excess` is set: a client could fill the memory between two ticks."""
        if now < self._next:
            return
        self._next = now + AGAIN_S
        budget = self._core.budget
        budget.excess = False
        if budget.kept - sum(conn.kept for conn in self._connections() if conn.role in _ROUTERS) <= budget.most:
            return
        self._drop_waiting(None)
        clients = self._clients()
        if sum(conn.kept for conn in clients) > budget.most:
            self._disconnect(max(clients, key=_kept))

    def when_short(self, full: bool, limit: int) -> None:
        """Free memory while its level is HIGH or, with `full`, FULL (core/memory_levels.py); new clients wait for this.

        `limit`: `maxMemory`. If messages whose senders are gone take more than a tenth of it, the oldest of them are
        dropped until they do not: fewer are hardly the reason for the shortage, and more would lock out new clients.

        A client is only disconnected if the messages of all clients together exceed the budget of the router or, while
        memory is full, its own messages exceed its budget.
        """
        budget = self._core.budget
        until = self._oldest_beyond(limit // GONE_PART)
        if until:
            self._drop_waiting(None, until)
        clients = self._clients()
        worst = max(clients, key=_kept, default=None)
        if worst is None:
            return
        if sum(conn.kept for conn in clients) > budget.per_router or (full and worst.kept > budget.per_connection):
            self._disconnect(worst)

    def _connections(self) -> Collection[RouterConnection]:
        return self._core.connections.values()

    def _clients(self) -> list[RouterConnection]:
        """Connected clients. The messages of disconnected ones are no reason to disconnect another client."""
        return [conn for conn in self._connections() if conn.role not in _ROUTERS and not conn.over and not conn.done]

    def _oldest_beyond(self, allowed: int) -> int:
        """The last number of arrival to drop, so that messages whose senders are gone take at most `allowed` bytes;
        0 if they take no more."""
        core = self._core
        waiting = [queued for address in core.addresses.values() for queued in address.pending or ()]
        for link in core.links.values():
            if link.is_sender and link.partner is None:
                waiting += [branch.queued for branch in link.queue or ()]
        gone = {queued.arrival: queued.kept for queued in waiting if queued.came_from(None, _ALL)}
        beyond = sum(gone.values()) - allowed
        until = 0
        for arrival in sorted(gone):
            if beyond <= 0:
                break
            beyond -= gone[arrival]
            until = arrival
        return until

    def _drop_waiting(self, conn: RouterConnection | None, until: int = _ALL) -> None:
        """Drop the waiting messages of a client; None: of all senders that are gone, the oldest up to `until`."""
        core = self._core
        before = core.budget.kept
        drop_waiting(core.interruptions, conn, list(core.links.values()), list(core.addresses.values()), until)
        dropped = before - core.budget.kept
        if conn is None and dropped:
            self._tell(f"{dropped} bytes of waiting messages whose senders are gone are dropped")

    def _disconnect(self, conn: RouterConnection) -> None:
        reason = f"{max(1, conn.kept // _MIB)} MiB of its messages wait, and the router is short of memory"
        self._drop_waiting(conn)
        self._tell(f"[C{conn.id}] disconnected: {reason}")
        conn.fail(RESOURCE_LIMIT_EXCEEDED, f"{reason} (maxBufferedBytes)")

    def _tell(self, text: str) -> None:
        detail: dict[str, str | int] = {"limit": "maxBufferedBytes", "maximum": self._core.budget.per_router}
        self._log("SERVER", "warning", text, Event(LogEvent.LIMIT_REACHED, {}, detail))
