"""Calls the parts of a router regularly. An error in one part, or about one connection, affects only that part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from waymesh_amqp.states import OPENED
from waymesh_router.core.portions import COST_A_TURN

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.host import Host
    from waymesh_router.management.service import ManagementService

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0
"""Pause of a part after an error; it doubles with each error, because the next call may fail as well."""

TICK_S = 0.25
"""Interval in seconds at which time-outs of connections are checked; none needs a shorter one."""
QUIET_TICKS = 40
"""Most ticks between two checks of a connection on which nothing moves. A share of the time until its next deadline is
the limit, too: what moves after a check is only noticed, and dated, at the next one."""
SHARE = 4
NEW = -1

LINKS_A_STEP = 8
"""Number of links of a closed connection that are ended in one step: about 0.1 ms of work."""


class Part:
    """One part of the router; `call(now)` runs it, and may return the time of the next call."""

    def __init__(self, name: str, call: Callable[[float], float | None], host: Host) -> None:
        self._name = name
        self._call = call
        self._host = host
        self._pause = FIRST_PAUSE_S
        self._resume = -math.inf

    def run(self, now: float) -> float:
        """Run the part unless it is paused. Returns the time of the next call; math.inf if the part has none."""
        if now < self._resume:
            return self._resume
        try:
            following = self._call(now)
        except Exception as error:  # noqa: BLE001 - the edge of timers
            self._resume = now + self._pause
            self._host.internal_error(f"in the timers of {self._name}, which pause for {self._pause:g} s", error)
            self._pause = min(self._pause * 2, LAST_PAUSE_S)
            return self._resume
        self._pause = FIRST_PAUSE_S
        return math.inf if following is None else following


class Ticks:
    """All parts that are called several times a second, and the time-outs of connections."""

    def __init__(self, core: Core, host: Host, parts: Iterable[Part]) -> None:
        self._core = core
        self._host = host
        self._parts = list(parts)
        self._count = 0
        self._end = 0  # ids of connections below it are known
        # By tick: id, octets that had moved at the last one, id, … without objects for the garbage collector
        self._waiting: dict[int, list[int]] = {}

    def run(self, now: float) -> None:
        """Run all parts and the timers of connections that are due. Called every TICK_S."""
        for part in self._parts:
            part.run(now)
        self._check_open(now)
        core = self._core
        for conn in list(core.closing.values()):
            self._tick(conn, now)
            if conn.done:
                core.closing.pop(conn.id, None)

    def _check_open(self, now: float) -> None:
        """Run the timers of the connections that are due: those on which something moves in each tick."""
        connections, waiting = self._core.connections, self._waiting
        self._count += 1
        due = waiting.pop(self._count, [])
        end = self._core.connection_table.next_id
        for number in range(self._end, end):
            due += number, NEW
        self._end = end
        numbers = iter(due)
        for number, before in zip(numbers, numbers):
            conn = connections.get(number)
            if conn is None:
                continue
            following = self._tick(conn, now)
            moved = conn.octets_in + conn.unfinished + conn.octets_out
            ticks = 1
            if moved == before and conn.state == OPENED and not conn.unread:
                ticks = max(int(min((following - now) / (SHARE * TICK_S), QUIET_TICKS)), 1)
                ticks -= number % (ticks // 2 + 1)  # not all of them in one tick
            at = self._count + ticks
            if at not in waiting:
                waiting[at] = []
            waiting[at] += number, moved

    def _tick(self, conn: RouterConnection, now: float) -> float:
        """Run the timers of a connection; returns when it is due."""
        try:
            if conn.unread:  # its frames wait in the kernel; also, its TCP window may be full
                conn.progress = self._host.segments_in(conn) + conn.octets_out
            due: float = conn.tick(now)
        except Exception as error:  # noqa: BLE001 - the edge of timers
            self._host.internal_error(f"in the timers of the connection with {conn.peer.host}", error)
            self._host.drop(conn, "internal error")
            self._core.connections.pop(conn.id, None)
            self._core.closing.pop(conn.id, None)
            return now
        return due


class EndingLinks:
    """Ends some links of one of the connections that are closed, or have closed sessions, in each step."""

    def __init__(self, core: Core, host: Host) -> None:
        self._core = core
        self._host = host

    def step(self) -> int:
        core, host = self._core, self._host
        if not core.ending:
            return 0
        conn: Any = next(iter(core.ending))
        try:
            finished = conn.end_links(LINKS_A_STEP)
        except Exception as error:  # noqa: BLE001 - the edge of timers
            host.internal_error(f"while links of {conn.peer.host} were ended", error)
            if not conn.over:
                host.drop(conn, "internal error")
            finished = not conn.losing
            if finished:
                core.connections.pop(conn.id, None)
        del core.ending[conn]
        if not finished:
            core.ending[conn] = None
        return COST_A_TURN


class LongWork:
    """The work that each turn of the event loop does a portion of."""

    def __init__(self, core: Core, host: Host, management: ManagementService) -> None:
        self._core = core
        self._management = management
        self._ending = EndingLinks(core, host)
        self._portions = core.context.portions
        self._host = host
        self._portions.on_error = self._on_error

    def _on_error(self, where: str, error: Exception) -> None:
        """A step has failed. The host's method is looked up only now: the host of a mere check has none."""
        self._host.internal_error(where, error)

    def run(self, now: float) -> float:
        """Do a portion. Returns the time of the next call; math.inf if nothing is left to do."""
        if self._core.ending:
            self._portions.add(self._ending)
        if self._management.busy:
            self._portions.add(self._management)
        if not self._portions:
            return math.inf
        self._portions.run()
        return now
