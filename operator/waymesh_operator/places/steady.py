"""The last observation of a mesh in which there was nothing to do: while all that is observed stays equal, there is
nothing to do either.

With thousands of resources, plan and statuses take most of the time of a reconcile, also when nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

FULL_S = 120.0
"""At the latest after this time, by the monotonic or the wall clock, all is computed again: some of it depends on the
time, and the monotonic clock stands still while a machine is suspended."""


@dataclass(slots=True)
class SteadyState:
    """Compares all on which plan and statuses depend. `full_s`: see FULL_S."""

    clock: Callable[[], float]
    now: Callable[[], datetime]
    full_s: float = FULL_S
    _seen: object = None
    _until: tuple[float, float] = (float("-inf"), float("-inf"))

    def holds(self, seen: object) -> bool:
        """Return whether nothing has changed since `keep`; forgets what was kept if something has."""
        if self._seen is None:
            return False
        fresh = all(moment < end for moment, end in zip(self._moments(), self._until))
        if fresh and self._seen == seen:
            return True
        self._seen = None
        return False

    def keep(self, seen: object) -> None:
        """Keep what was observed in a reconcile with nothing to do, to change, to write or to try again."""
        self._seen = seen
        monotonic, wall = self._moments()
        self._until = monotonic + self.full_s, wall + self.full_s

    def _moments(self) -> tuple[float, float]:
        return self.clock(), self.now().timestamp()
