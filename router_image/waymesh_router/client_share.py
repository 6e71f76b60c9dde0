"""Clients move to other routers: a router closes connections of clients until it has no more than its share.

The operator sets the share when a router has been added to the mesh, or has come back (`clientShare` of the entity
`router`). Only connections are closed that were open before (`clientShareSeconds`), so no client moves twice; only when
nothing is under way on them, so nothing is lost; the oldest first, and slowly. Source: docs/balance.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from waymesh_router.core.core import Core
from waymesh_router.core.hang_up import hang_up
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.unsettled import at_rest, client_senders, only_manages
from waymesh_router.drain import CREDIT_S, grant_again
from waymesh_router.events import Log

PER_TICK = 3
"""Connections closed in one tick, of which there are four a second."""
PATIENCE_S = 10.0
"""A connection that is not at rest for so long stays."""
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
        # Connections whose senders have no credit any more, by id: since when. Those that were not at rest stay.
        self._emptied: dict[int, float] = {}
        self._staying: set[int] = set()

    def configure(self, attrs: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """The entity `router` has these attributes now; `changed`: what is new of them."""
        if "clientShare" not in changed and "clientShareSeconds" not in changed:
            return
        now = self._core.now
        self.share = int(attrs["clientShare"])
        self._opened_before = now - float(attrs["clientShareSeconds"])
        self._staying.clear()
        surplus = self.count() - self.share
        self._ends = now + PATIENCE_S + surplus if self.share and surplus > 0 else now
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

    def tick(self, now: float) -> None:
        """Close some connections; to be called several times a second."""
        if self._core.context.drain_from:  # the drain ends all connections, or gives all credit back
            self._ends = now
            self._emptied.clear()
        if now >= self._ends and not self._emptied:
            return
        surplus = self.count() - self.share if now < self._ends else 0
        for id_, since in list(self._emptied.items()):
            surplus -= self._look(id_, since, now, surplus)
        left = min(surplus - len(self._emptied), PER_TICK - len(self._emptied))
        for conn in self._oldest(left):
            self._emptied[conn.id] = now
            for link in self._senders(conn):
                link.withdraw()

    def _look(self, id_: int, since: float, now: float, surplus: int) -> int:
        """Close one of the emptied connections if it is at rest. Returns how many were closed."""
        conn = self._core.connections.get(id_)
        if conn is None or conn.over:
            del self._emptied[id_]
            return 0
        senders = self._senders(conn)
        waits = now - since < CREDIT_S and any(link.credit for link in senders)
        if surplus > 0 and not waits and at_rest(conn):
            del self._emptied[id_]
            self.moved += 1
            hang_up(conn, REASON)
            return 1
        if surplus <= 0 or now - since >= PATIENCE_S:
            del self._emptied[id_]
            self._staying.add(id_)
            for link in senders:
                grant_again(link)
        return 0

    def _oldest(self, count: int) -> list[RouterConnection]:
        """Connections that may be closed, oldest first."""
        if count <= 0:
            return []
        found = [
            conn
            for conn in self._clients()
            if conn.opened_at < self._opened_before and conn.id not in self._emptied and conn.id not in self._staying
        ]
        return sorted(found, key=lambda conn: conn.opened_at)[:count]

    def _clients(self) -> Iterable[RouterConnection]:
        for conn in self._core.connections.values():
            if conn.role != "normal" or conn.settings.client or conn.remote is None or conn.over:
                continue
            few = sum(len(session.links) for session in conn.sessions.values()) <= MANAGER_LINKS
            if not (few and only_manages(conn)):
                yield conn

    def _senders(self, conn: RouterConnection) -> list[RouterLink]:
        links = (link for session in conn.sessions.values() for link in session.links if link is not None)
        return client_senders(links)  # type: ignore[arg-type]
