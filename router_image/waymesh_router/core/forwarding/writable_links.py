"""Connections with many links whose output has room again: their links are told in portions. Decision 0057."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.core.portions import Portions

A_STEP = 16
"""Number of links that a step looks at."""
STEP_COST = 3


class _Place:
    """How far a walk over the links of a connection has come."""

    __slots__ = ("again", "handle", "sessions")

    def __init__(self) -> None:
        self.sessions: list[Any] = []  # the current one last
        self.handle = 0
        self.again = True  # the output has got room since


class WritableLinks:
    """The connections whose links are still to be told."""

    def __init__(self, portions: Portions, tell: Callable[[Any, int, int], None]) -> None:
        """`tell` is called with a session, the handle of its first link to tell, and the number of handles."""
        self._portions = portions
        self._tell = tell
        self._left: dict[Connection, _Place] = {}

    def __str__(self) -> str:
        return "links whose connection has room"

    def begin(self, connection: Connection) -> None:
        """The output of a connection has room: tell the first links now."""
        self._left.setdefault(connection, _Place()).again = True
        self._portions.begin(self)

    def step(self) -> int:
        """Tell some links of one connection, see core/portions.py."""
        if not self._left:
            return 0
        connection, place = next(iter(self._left.items()))
        if place.sessions:
            session, first = place.sessions[-1], place.handle
            place.handle += A_STEP
            if place.handle >= len(session.links):
                place.sessions.pop()
                place.handle = 0
            self._tell(session, first, A_STEP)
        elif place.again and not connection.over:
            place.again = False
            place.sessions = list(connection.sessions.values())[::-1]
        else:
            del self._left[connection]
        return STEP_COST
