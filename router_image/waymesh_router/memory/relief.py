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
from waymesh_router.core.model import Address, Branch, RouterLink
from waymesh_router.core.portions import COPIED, COST_A_TURN
from waymesh_router.core.settlement.interruptions import drop_found, search_waiting
from waymesh_router.events.event import Event, Log
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import Queued, RouterConnection

AGAIN_S = 0.01
"""Minimum time between two searches for the client whose messages take the most memory."""
GONE_PART = 10
"""Messages whose senders are gone may take 1/GONE_PART of `maxMemory`."""
SEARCHED_A_STEP = 10_000
"""Links or addresses that a step searches: half a millisecond."""
DROPS_A_STEP = 500
"""Messages that a step drops, in about a millisecond, or measures."""
SECTION = 1_024
"""Numbers of arrival that are searched at once."""
STEP_COST = COST_A_TURN // 2
"""More than other walks do in a turn, because memory grows meanwhile."""
_ALL = (1 << 63) - 1
_ROUTERS = (INTER_ROUTER, "edge")
_MIB = 1 << 20


def _kept(conn: RouterConnection) -> int:
    return conn.kept


class Search:
    """A walk over all links and addresses, and what waits at them.

    What arrives meanwhile at those that it has passed is left out.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._links = list(core.links.values())
        self._addresses: list[Any] | None = None  # not yet copied: each copy takes time for all of them
        self._found: list[Any] = []

    def __str__(self) -> str:
        return "waiting messages"

    def step(self) -> int:
        """Look at some of what was found, or find what waits at some links and addresses."""
        cost = STEP_COST
        try:
            cost = 1 + int(STEP_COST * self._work())
        finally:
            left = bool(self._found or self._links or self._addresses is None or self._addresses)
            if not left:
                self._end()
        return cost if left else 0

    def _work(self) -> float:
        """Do a step; returns which part it is of the largest one."""
        if self._found:
            self._look_at_found()
            return 1.0 if self._found else 0.0
        if not self._links and self._addresses is None:
            self._addresses = list(self._core.addresses.values())
            return len(self._addresses) / COPIED / STEP_COST
        left = self._links or self._addresses or []
        some = left[-SEARCHED_A_STEP:]
        del left[-SEARCHED_A_STEP:]
        self._find(*(([], some) if self._addresses is not None else (some, [])))
        return len(some) / SEARCHED_A_STEP

    def _find(self, links: list[Any], addresses: list[Any]) -> None:
        """Add what waits at some links and addresses to `_found`."""
        raise NotImplementedError

    def _look_at_found(self) -> None:
        """Take DROPS_A_STEP messages, or fewer, from the end of `_found`."""
        raise NotImplementedError

    def _end(self) -> None:
        """Nothing is left."""
        raise NotImplementedError


class Dropping(Search):
    """Drops the waiting messages of a client; None: of all senders that are gone, the oldest up to `until`. Until it
    ends, no further frame of the client is handled.

    `then` is called at the end, with the number of dropped bytes.
    """

    def __init__(self, core: Core, conn: RouterConnection | None, until: int, then: Callable[[int], object]) -> None:
        super().__init__(core)
        self._conn = conn
        self._until = until
        self._then = then
        self._dropped = 0
        if conn is not None:
            conn.waits += 1

    def _work(self) -> float:
        before = self._core.budget.kept
        try:
            return super()._work()
        finally:
            self._dropped += before - self._core.budget.kept

    def _find(self, links: list[Any], addresses: list[Any]) -> None:
        self._found = search_waiting(self._core.interruptions, self._conn, links, addresses, self._until)

    def _look_at_found(self) -> None:
        drop_found(self._core.interruptions, self._conn, self._found, self._until, DROPS_A_STEP)

    def _end(self) -> None:
        if self._conn is not None:
            self._conn.waits -= 1
        self._then(self._dropped)


class Measuring(Search):
    """Measures the waiting messages whose senders are gone.

    `then` is called at the end, with the last number of arrival to drop, so that they take at most `allowed` bytes; 0
    if they take no more.
    """

    def __init__(self, core: Core, allowed: int, then: Callable[[int], object]) -> None:
        super().__init__(core)
        self._allowed = allowed
        self._then = then
        self._gone: dict[int, dict[int, int]] = {}  # bytes by number of arrival, in sections of these numbers

    def _find(self, links: list[Any], addresses: list[Any]) -> None:
        self._found += [link for link in links if link.is_sender and link.partner is None and link.queue]
        self._found += [address for address in addresses if address.pending]

    def _look_at_found(self) -> None:
        count = DROPS_A_STEP
        while count > 0 and self._found:
            one = self._found.pop()
            count -= 1
            if isinstance(one, Address | RouterLink):  # what waits there is copied at once, and looked at in portions
                waiting = (one.pending if isinstance(one, Address) else one.queue) or ()
                count -= len(waiting) // COPIED
                self._found += waiting
                continue
            queued: Queued = one.queued if isinstance(one, Branch) else one
            if queued.came_from(None, _ALL):
                self._gone.setdefault(queued.arrival // SECTION, {})[queued.arrival] = queued.kept

    def _end(self) -> None:
        self._then(self._until())

    def _until(self) -> int:
        """Which are to be dropped: only the last section is searched."""
        sizes = {section: sum(found.values()) for section, found in self._gone.items()}
        beyond = sum(sizes.values()) - self._allowed
        until = 0
        for section in sorted(sizes):
            found = self._gone[section]
            if beyond >= sizes[section]:
                beyond -= sizes[section]
                until = max(found)
                continue
            for arrival in sorted(found):
                if beyond <= 0:
                    return until
                beyond -= found[arrival]
                until = arrival
        return until


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
        self._measuring: Measuring | None = None  # the walk, if it is under way

    def end_excess(self, now: float) -> None:
        """Free memory if the waiting messages exceed the budgets by far. Must be called in each turn of the event loop
        in which `BufferBudget.excess` is set: a client could fill the memory between two ticks."""
        if now < self._next or self._dropping:
            return
        self._next = now + AGAIN_S
        budget = self._core.budget
        budget.excess = False
        if budget.kept - sum(conn.kept for conn in self._connections() if conn.role in _ROUTERS) > budget.most:
            if self._measuring is not None:  # this cannot wait for it, and drops more
                self._core.context.portions.remove(self._measuring)
                self._measuring = None
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
        if self._dropping or self._measuring is not None:
            return
        allowed = limit // GONE_PART
        if self._core.budget.kept <= allowed:  # of all senders: a search of all links takes long
            self._end_too_large(full)
            return

        def measured(until: int) -> None:
            self._measuring = None
            if until:
                self._drop_of_gone(until, lambda: self._end_too_large(full))
            else:
                self._end_too_large(full)

        self._measuring = Measuring(self._core, allowed, measured)
        self._core.context.portions.begin(self._measuring)

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
