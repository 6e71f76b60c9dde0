"""Clients move to other routers: a router closes connections of clients until it has no more than its share.

The operator sets the share when a router has been added to the mesh, or has come back (`clientShare` of the entity
`router`). Only connections are closed that were open before (`clientShareSeconds`), so no client moves twice; only when
nothing is under way on them (emptying.py), so nothing is lost; the oldest first, and slowly. Source: docs/balance.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_router.core.core import Core
from waymesh_router.core.model import RouterConnection
from waymesh_router.core.unsettled import only_manages
from waymesh_router.emptying import Emptying
from waymesh_router.events import Log

PER_TICK = 3
"""Connections closed in one tick, of which there are four a second."""
AT_ONCE = 8
"""Connections that are emptied at the same time: messages of other clients may wait for one of them."""
TRIES = 3
"""A connection that did not come to rest so many times stays."""
AGAIN_S = 10.0
"""It is left in peace for so long in between."""
EXTRA_S = 30.0
"""Connections are closed for as many seconds as there are too many, and so many more."""
SETTLING_S = 10.0
"""Clients connect again within this time, and operators read the numbers of clients."""
MANAGER_LINKS = 8
"""A connection with more links is a client's: its links are not looked at, as there may be thousands."""
REASON = "moved to another router, which has fewer clients"


class ClientShare:
    """The share of one router, and the connections above it."""

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
        """By the ids of connections, as `_emptying` and `_tries`."""

    def configure(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """The entity `router` has these attributes now; `changed`: what is new of them."""
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
        """How long connections must have been open to be closed; it grows with time. Infinite: no share was set."""
        return self._core.now - self._opened_before

    def count(self) -> int:
        """Connections of clients, without those for management alone."""
        return sum(1 for _ in self._clients())

    @property
    def moving(self) -> bool:
        """Whether clients are being moved, or have been a moment ago: some have not connected again yet."""
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
            elif emptying.hopeless(now):
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
            self._ends = now  # all that may be closed had their turns, or no client has come back

    def _give_up(self, ids: Iterable[int], grant: bool) -> None:
        for id_ in ids:
            self._emptying.pop(id_).end(grant)
            self._again_at[id_] = self._core.now + AGAIN_S

    def _oldest(self) -> list[RouterConnection]:
        """Connections that may be closed, first those that had fewer turns, then the oldest."""
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
