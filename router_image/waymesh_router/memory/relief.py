"""Frees the memory of waiting messages when flow control is not enough.

A client whose sessions are held (core/forwarding/buffer_budget.py) may still send what their windows allow, and each of
its links may exceed the budgets a little. With many sessions and links, this can be more than the memory of the
process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import RESOURCE_LIMIT_EXCEEDED
from waymesh_router.core.links.mesh_links import INTER_ROUTER
from waymesh_router.core.portions import COPIED, COST_A_TURN
from waymesh_router.core.settlement.interruptions import drop_found, search_waiting
from waymesh_router.events.event import Event, Log
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection

AGAIN_S = 0.01
"""Minimum time between two searches for the client whose messages take the most memory."""
GONE_PART = 10
"""Messages whose senders are gone may take 1/GONE_PART of `maxMemory`."""
SEARCHED_A_STEP = 10_000
"""Links or addresses that a step searches: half a millisecond."""
DROPS_A_STEP = 500
"""Messages that a step drops: about a millisecond."""
STEP_COST = COST_A_TURN // 2
"""More than other walks do in a turn, because memory grows meanwhile."""
_ALL = (1 << 63) - 1
_ROUTERS = (INTER_ROUTER, "edge")
_MIB = 1 << 20


def _kept(conn: RouterConnection) -> int:
    return conn.kept


class Dropping:
    """A walk over all links and addresses that drops the waiting messages of a client; None: of all senders that are
    gone, the oldest up to `until`. Until it ends, no further frame of the client is handled.

    `then` is called at the end, with the number of dropped bytes.
    """

    def __init__(self, core: Core, conn: RouterConnection | None, until: int, then: Callable[[int], object]) -> None:
        self._core = core
        self._conn = conn
        self._until = until
        self._then = then
        self._links = list(core.links.values())
        self._addresses: list[Any] | None = None  # not yet copied: each copy takes time for all of them
        self._found: list[Any] = []  # see `search_waiting`
        self._dropped = 0
        if conn is not None:
            conn.waits += 1

    def __str__(self) -> str:
        return "waiting messages"

    def step(self) -> int:
        """Drop some of the messages that were found, or search some links and addresses. What arrives meanwhile at
        those that were searched stays."""
        before = self._core.budget.kept
        cost = STEP_COST
        try:
            cost = 1 + int(STEP_COST * self._search_or_drop())
        finally:
            self._dropped += before - self._core.budget.kept
            left = bool(self._found or self._links or self._addresses is None or self._addresses)
            if not left:
                self._end()
        return cost if left else 0

    def _search_or_drop(self) -> float:
        """Do a step; returns which part it is of the largest one."""
        parts = self._core.interruptions
        if self._found:
            drop_found(parts, self._conn, self._found, self._until, DROPS_A_STEP)
            return 1.0 if self._found else 0.0
        if not self._links and self._addresses is None:
            self._addresses = list(self._core.addresses.values())
            return len(self._addresses) / COPIED / STEP_COST
        left = self._links or self._addresses or []
        some = left[-SEARCHED_A_STEP:]
        del left[-SEARCHED_A_STEP:]
        links, addresses = ([], some) if self._addresses is not None else (some, [])
        self._found = search_waiting(parts, self._conn, links, addresses, self._until)
        return len(some) / SEARCHED_A_STEP

    def _end(self) -> None:
        if self._conn is not None:
            self._conn.waits -= 1
        self._then(self._dropped)


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
        self._dropping = False  # in a walk

    def end_excess(self, now: float) -> None:
        """Free memory if the waiting messages exceed the budgets by far. Must be called in each turn of the event loop
        in which `BufferBudget.excess` is set: a client could fill the memory between two ticks."""
        if now < self._next or self._dropping:
            return
        self._next = now + AGAIN_S
        budget = self._core.budget
        budget.excess = False
        if budget.kept - sum(conn.kept for conn in self._connections() if conn.role in _ROUTERS) > budget.most:
            self._drop_of_gone(_ALL, self._end_worst)

    def _end_worst(self) -> None:
        """Disconnect the client with the most waiting bytes if those of senders that are gone were not enough."""
        clients = self._clients()
        if sum(conn.kept for conn in clients) > self._core.budget.most:
            self._disconnect(max(clients, key=_kept))

    def when_short(self, full: bool, limit: int) -> None:
        """Free memory while its level is HIGH or, with `full`, FULL (core/memory_levels.py); new clients wait for this.

        `limit`: `maxMemory`. If messages whose senders are gone take more than a tenth of it, the oldest of them are
        dropped until they do not: fewer are hardly the reason for the shortage, and more would lock out new clients.

        A client is only disconnected if the messages of all clients together exceed the budget of the router or, while
        memory is full, its own messages exceed its budget.
        """
        if self._dropping:
            return
        until = self._oldest_beyond(limit // GONE_PART)
        if until:
            self._drop_of_gone(until, lambda: self._end_too_large(full))
        else:
            self._end_too_large(full)

    def _end_too_large(self, full: bool) -> None:
        budget = self._core.budget
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
        if core.budget.kept <= allowed:  # of all senders: a search of all links takes long
            return 0
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

    def _drop_of_gone(self, until: int, then: Callable[[], object]) -> None:
        """Drop the waiting messages of all senders that are gone, the oldest up to `until`."""

        def told(dropped: int) -> None:
            if dropped:
                self._tell(f"{dropped} bytes of waiting messages whose senders are gone are dropped")
            then()

        self._drop(None, until, told)

    def _disconnect(self, conn: RouterConnection) -> None:
        reason = f"{max(1, conn.kept // _MIB)} MiB of its messages wait, and the router is short of memory"

        def close(_dropped: int) -> None:
            if not conn.over:
                self._tell(f"[C{conn.id}] disconnected: {reason}")
                conn.fail(RESOURCE_LIMIT_EXCEEDED, f"{reason} (maxBufferedBytes)")

        self._drop(conn, _ALL, close)

    def _drop(self, conn: RouterConnection | None, until: int, then: Callable[[int], object]) -> None:
        def done(dropped: int) -> None:
            self._dropping = False
            then(dropped)

        self._dropping = True
        self._core.context.portions.begin(Dropping(self._core, conn, until, done))

    def _tell(self, text: str) -> None:
        detail: dict[str, str | int] = {"limit": "maxBufferedBytes", "maximum": self._core.budget.per_router}
        self._log("SERVER", "warning", text, Event(LogEvent.LIMIT_REACHED, {}, detail))
