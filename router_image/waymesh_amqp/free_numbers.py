"""Numbers for channels and handles: the lowest free one, found without a search."""

from __future__ import annotations

import heapq


class FreeNumbers:
    """Gives out 0, 1, 2 … and takes numbers back; `used`: how many are taken.

    Low numbers first: sessions keep their links in a list by handle, and peers may do the same.
    """

    def __init__(self) -> None:
        self.used = 0
        self._fresh = 0
        self._returned: list[int] = []

    def lowest(self) -> int:
        """The number that `take` would give."""
        return self._returned[0] if self._returned else self._fresh

    def take(self) -> int:
        """The lowest number that is free, in use from now on."""
        self.used += 1
        if self._returned:
            return heapq.heappop(self._returned)
        self._fresh += 1
        return self._fresh - 1

    def give(self, number: int) -> None:
        """A number that was taken is free again. To be called once for each `take`."""
        self.used -= 1
        if self.used:
            heapq.heappush(self._returned, number)
        else:  # nothing is out: start again, and keep no list of what was
            self._fresh = 0
            self._returned.clear()
