"""How fast a consumer, or another router with consumers, settles the deliveries of an address."""

from __future__ import annotations

import cython

WEIGHT = cython.declare(cython.double, 0.125)
"""Weight of a settlement in the average."""
SHORTEST_S = cython.declare(cython.double, 1e-6)
"""Several settlements can have the same time: that of the turn of the event loop."""


class Speed:
    """The time between settlements while deliveries are outstanding.

    Settlements with the same time form a group. How many of them share the time since the group before is known when
    the next group begins. Of a consumer that says how many it works on at a time, `each` is the time that it works on
    one (`took`).
    """

    def __init__(self) -> None:
        self.each = 0.0  # seconds a delivery; 0: unknown
        self._since = 0.0  # when the last group was, or the first delivery was sent
        self._gap = 0.0  # seconds before the last group
        self._group = 0  # its settlements

    def began(self, now: cython.double) -> None:
        """The only outstanding delivery was sent."""
        self._learn()
        self._since = now

    def settled(self, now: cython.double) -> None:
        """A delivery was settled."""
        if self._group > 0 and now <= self._since:
            self._group += 1
            return
        self._learn()
        gap: cython.double = now - self._since
        self._gap = gap if gap > SHORTEST_S else SHORTEST_S
        self._group = 1
        self._since = now
        if self.each == 0.0:
            self.each = self._gap

    def took(self, seconds: cython.double) -> None:
        """A delivery took so long: for a consumer of which it is known how many it works on at a time."""
        if seconds < SHORTEST_S:
            seconds = SHORTEST_S
        self.each = seconds if self.each == 0.0 else self.each + WEIGHT * (seconds - self.each)

    def _learn(self) -> None:
        """Take the last group into the average."""
        if self._group == 0:
            return
        weight: cython.double = self._group * WEIGHT
        if weight > 1.0:
            weight = 1.0
        self.each += (self._gap / self._group - self.each) * weight
        self._group = 0
