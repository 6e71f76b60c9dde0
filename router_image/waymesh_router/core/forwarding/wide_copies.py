"""Multicast messages with thousands of consumers: their copies are made in portions. Decision 0061."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_router.core.portions import Portions, RoundsOfEach

if TYPE_CHECKING:
    from waymesh_router.core.model import Queued, RouterConnection, RouterLink

A_STEP = 16
"""Number of consumers that get their copy in one step."""
STEP_COST = 12


class WideCopies:
    """The messages whose copies are not all made yet.

    Until the last copy, no further frame of the sender's connection is handled: the next message could overtake a copy.
    """

    def __init__(
        self, portions: Portions, branch: Callable[[Queued, RouterLink], None], end: Callable[[Queued], None]
    ) -> None:
        """`branch` makes one copy; `end` is called after the last one, unless the message was aborted."""
        self._branch = branch
        self._end = end
        self._left: dict[Queued, tuple[RouterConnection | None, list[RouterLink]]] = {}
        self._rounds = RoundsOfEach(portions, "copies", self._consumers, self._copy_some)

    def __bool__(self) -> bool:
        return bool(self._left)

    def begin(self, q: Queued, consumers: list[RouterLink]) -> None:
        """Make the first copies now."""
        conn = None if q.link is None else q.link.connection
        self._left[q] = (conn, list(consumers))
        if conn is not None:
            conn.waits += 1
            conn.budget = 0
        self._rounds.begin(q)

    def _consumers(self, q: Queued) -> list[RouterLink]:
        return self._left[q][1]

    def _copy_some(self, q: Queued, left: list[RouterLink]) -> int:
        aborted = False
        try:
            for _ in range(min(A_STEP, len(left))):
                out = left.pop()
                if q.unstarted == 0:
                    aborted = True
                    left.clear()
                    break
                self._branch(q, out)
        finally:
            if not left:
                conn, _ = self._left.pop(q)
                if conn is not None:
                    conn.waits -= 1
                if not aborted:
                    self._end(q)
        return STEP_COST
