"""Moves clients to other routers: closes client connections until the router has no more than its share.

The operator sets the share (`clientShare` of the entity `router`) when a router was added to the mesh or has returned.
Only connections that were open before that (`clientShareSeconds`) are closed, so that no client moves twice; only when
no delivery is in progress on them (emptying.py), so that nothing is lost; the oldest first, and at a limited rate.
Source: docs/balance.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_router.clients.emptying import Emptying
from waymesh_router.core.core import Core
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.unsettled import only_manages
from waymesh_router.events.event import Log

PER_TICK = 3
"""Maximum number of connections closed in one tick. There are four ticks a second."""
AT_ONCE = 8
"""Maximum number of connections emptied at the same time: messages of other clients may wait for their receivers."""
TRIES = 3
"""Maximum number of attempts to empty a connection. If all fail, it stays open."""
AGAIN_S = 10.0
"""Time between two attempts for a connection."""
EXTRA_S = 30.0
"""The time limit for closing connections is one second for each surplus connection, plus this time."""
SETTLING_S = 10.0
"""Time for the moved clients to connect to other routers, and for the operator to read the new numbers of clients."""
MANAGER_LINKS = 8
"""A connection with more links counts as that of a client; its links, maybe thousands, are not examined."""
REASON = "moved to another router, which has fewer clients"


class ClientShare:
    """Applies the share of one router."""

    def __init__(self, core: Core, log: Log) -> None:
        self._core = core
        self._log = log
        self.share = 0
        """Connections of clients to keep; 0: all."""
        self.moved = 0
        """Connections closed so far."""
        self._opened_before = -math.inf
        self._ends = -math.inf
        self._moved_at = -math.inf
        self._emptying: dict[int, Emptying] = {}
        self._tries: Counter[int] = Counter()
        self._again_at: dict[int, float] = {}
        """As in `_emptying` and `_tries`, the keys are the ids of connections."""

    def configure(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Apply the attributes of the entity `router`; `changed`: those whose values are new."""
        if "clientShare" not in changed and "clientShareSeconds" not in changed:
            return
        now = self._core.now
        self.share = int(attrs["clientShare"])
        self._opened_before = now - float(attrs["clientShareSeconds"])
        self._tries.clear()
        self._again_at.clear()
        surplus = self.count() - self.share
        self._ends = now + EXTRA_S + surplus if self.share and surplus > 0 else now
        if self.share and surplus > 0:
            text = f"{surplus} clients above the share of this router, {self.share}: moving them to other routers"
            self._log("ROUTER", "notice", text)

    @property
    def age_s(self) -> float:
        """Minimum age in seconds of connections to close. It grows as they get older; infinite if no share was set."""
        return self._core.now - self._opened_before

    def count(self) -> int:
        """Number of client connections, without those that are only used for management."""
        return sum(1 for _ in self._clients())

    @property
    def moving(self) -> bool:
        """Whether clients are being moved, or were moved so recently that some may not have connected again."""
        return self._core.now < max(self._ends, self._moved_at + SETTLING_S)

    def tick(self, now: float) -> None:
        """Close some connections; to be called several times a second."""
        if self._core.context.drain_from:  # the drain ends all connections, or gives all credit back
            self._ends = now
            self._give_up(list(self._emptying), grant=False)
        if now >= self._ends and not self._emptying:
            return
        surplus = self.count() - self.share if now < self._ends else 0
        closed = 0
        for id_, emptying in list(self._emptying.items()):
            if emptying.conn.over:
                del self._emptying[id_]
            elif surplus <= closed:
                self._give_up([id_], grant=True)
            elif emptying.at_rest(now):
                if closed < PER_TICK:
                    del self._emptying[id_]
                    closed += 1
                    emptying.close(REASON)
            elif emptying.is_overdue(now):
                self._give_up([id_], grant=True)
        if closed:
            self.moved += closed
            self._moved_at = now
            surplus -= closed
        left = self._oldest() if surplus > 0 else []
        ready = [conn for conn in left if self._again_at.get(conn.id, now) <= now]
        for conn in ready[: max(0, min(surplus, AT_ONCE) - len(self._emptying))]:
            self._tries[conn.id] += 1
            self._emptying[conn.id] = Emptying(conn, now)
            self._emptying[conn.id].at_rest(now)
        if not (self._emptying or left) and (surplus > 0 or now >= self._moved_at + SETTLING_S):
            self._ends = now  # no attempts are left, or no closed client has returned

    def _give_up(self, ids: Iterable[int], grant: bool) -> None:
        for id_ in ids:
            self._emptying.pop(id_).end(grant)
            self._again_at[id_] = self._core.now + AGAIN_S

    def _oldest(self) -> list[RouterConnection]:
        """Connections that may be closed, those with fewer attempts first, then the oldest."""
        found = [
            conn
            for conn in self._clients()
            if conn.opened_at < self._opened_before and conn.id not in self._emptying and self._tries[conn.id] < TRIES
        ]
        return sorted(found, key=lambda conn: (self._tries[conn.id], conn.opened_at))

    def _clients(self) -> Iterable[RouterConnection]:
        for conn in self._core.connections.values():
            if conn.role != "normal" or conn.settings.client or conn.remote is None or conn.over:
                continue
            few = sum(len(session.links) for session in conn.sessions.values()) <= MANAGER_LINKS
            if not (few and only_manages(conn)):
                yield conn
