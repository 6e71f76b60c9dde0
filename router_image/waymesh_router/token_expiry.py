"""Closes connections whose token expires. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from waymesh_amqp.errors import UNAUTHORIZED_ACCESS

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.host import Host


class TokenExpiry:
    """The open connections of clients that logged in by a token with an expiry."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._connections: set[RouterConnection] = set()

    def opened(self, conn: RouterConnection) -> None:
        """A connection is open."""
        if conn.expires_at < math.inf:
            self._connections.add(conn)

    def gone(self, conn: RouterConnection) -> None:
        """A connection has ended."""
        self._connections.discard(conn)

    def tick(self, _now: float) -> None:
        """Close those whose time has come, by the clock that tokens are checked with; the loop's may differ from it."""
        if not self._connections:
            return
        now = self._host.tokens.now()
        for conn in [conn for conn in self._connections if now >= conn.expires_at]:
            self._connections.discard(conn)
            conn.close(UNAUTHORIZED_ACCESS, "token expired")
