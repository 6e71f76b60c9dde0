"""Long queries that wait for their next slice: a queue per connection, served round-robin."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from waymesh_amqp.message import Message
from waymesh_router.management.errors import unavailable

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterConnection
    from waymesh_router.management.agent import Agent
    from waymesh_router.management.query import Query

MOST = 16
"""Maximum number of long queries of one connection: each holds references to all entities that it reads."""


class LongQuery:
    """A query that has more rows than one slice."""

    def __init__(self, agent: Agent, request: Message, query: Query) -> None:
        self._agent = agent
        self._request = request
        self._query = query

    def step(self) -> Message | None:
        """Read one more slice; returns the reply, or None if there is more to read."""
        return self._agent.continue_query(self._request, self._query)


class LongQueries:
    """Long queries in progress. Connections take turns; the queries of one connection are answered in order."""

    def __init__(self) -> None:
        # None: requests of this router itself.
        self.waiting: dict[RouterConnection | None, deque[LongQuery]] = {}

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def add(self, connection: RouterConnection | None, query: LongQuery) -> None:
        """Queue a query. Raises ManagementError 503 when too many of this connection wait."""
        queue = self.waiting.get(connection, ())
        if len(queue) >= MOST:
            raise unavailable(f"{MOST} long queries of this connection are in progress; try again later")
        self.waiting.setdefault(connection, deque()).append(query)

    def step(self) -> Message | None:
        """Read one slice for the next connection. Returns the reply if it was the last slice of a query, else None."""
        connection, queue = next(iter(self.waiting.items()))
        del self.waiting[connection]
        if _gone(connection):
            return None
        reply = queue[0].step()
        if reply is not None:
            queue.popleft()
        if queue:
            self.waiting[connection] = queue
        return reply


def _gone(connection: RouterConnection | None) -> bool:
    """Whether replies are pointless because the client has disconnected. False for a lost connection to another router,
    through which clients sent requests: their replies can take another path."""
    return connection is not None and connection.over and connection.role != "inter-router"
