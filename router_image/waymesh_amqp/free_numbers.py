"""Allocates channel and handle numbers: always the lowest free one, without a search."""

from __future__ import annotations

import heapq


class FreeNumbers:
    """Allocates the numbers 0, 1, 2 …; `used`: how many are in use.

    Low numbers come first because sessions index their links by handle in a list, and peers may do the same.
    """

    def __init__(self) -> None:
        self.used = 0
        self._fresh = 0
        self._returned: list[int] = []

    def lowest(self) -> int:
        """The number that `take` would return."""
        return self._returned[0] if self._returned else self._fresh

    def take(self) -> int:
        """Allocate the lowest free number."""
        self.used += 1
        if self._returned:
            return heapq.heappop(self._returned)
        self._fresh += 1
        return self._fresh - 1

    def give(self, number: int) -> None:
        """Free a number. Call it once for each `take`."""
        self.used -= 1
        if self.used:
            heapq.heappush(self._returned, number)
        else:  # no number is in use: start again, without the list of freed numbers
            self._fresh = 0
            self._returned.clear()
