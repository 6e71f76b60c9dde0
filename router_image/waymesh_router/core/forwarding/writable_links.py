"""Connections with many links whose output has room again: their links are told in portions. Decision 0057."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.portions import RoundsOfEach

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.session import Session
    from waymesh_router.core.portions import Portions

A_STEP = 16
"""Number of links that a step looks at."""
STEP_COST = 3


class WritableLinks:
    """The connections whose links are still to be told."""

    def __init__(self, portions: Portions, tell: Callable[[Session, int, int], None]) -> None:
        """`tell` is called with a session, the handle of its first link to tell, and the number of handles."""
        self._tell = tell
        self._rounds = RoundsOfEach(portions, "links whose connection has room", _sessions, self._visit)
        self._handle = 0  # the next one, of the current session

    def begin(self, connection: Connection) -> None:
        """The output of a connection has room: tell the first links now."""
        self._rounds.begin(connection)

    def _visit(self, _connection: Connection, left: list[Session]) -> int:
        session, first = left[-1], self._handle
        self._handle += A_STEP
        if self._handle >= len(session.links):
            left.pop()
            self._handle = 0
        self._tell(session, first, A_STEP)
        return STEP_COST


def _sessions(connection: Connection) -> list[Session]:
    """Those with links to tell."""
    return [] if connection.over else list(connection.sessions.values())
