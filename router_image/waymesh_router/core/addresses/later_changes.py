"""Changes of addresses that another router announces, applied in portions if there are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from waymesh_router.core.portions import COST_A_TURN

CHANGES_AT_ONCE = 25
"""Maximum number of changes of another router that are applied at once: about 0.1 ms of work."""


class LaterChanges:
    """The changes of one other router that wait. They are applied in order."""

    def __init__(self, apply: Callable[[Any], None]) -> None:
        self.waiting: deque[Any] = deque()
        self._apply = apply

    def __str__(self) -> str:
        return "addresses of another router"

    def step(self) -> int:
        """Apply the next change, see core/portions.py."""
        if not self.waiting:
            return 0
        self._apply(self.waiting.popleft())
        return COST_A_TURN // CHANGES_AT_ONCE
