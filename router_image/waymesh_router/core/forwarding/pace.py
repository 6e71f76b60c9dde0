"""What one incoming link of a container may take in advance: see pacing.py."""

from __future__ import annotations

import math
from typing import Any

import cython

AHEAD_S = cython.declare(cython.double, 0.25)
"""The look-ahead is what consumers settle in this time: more than a round trip to a broker, even a distant one."""
SPAN_S = cython.declare(cython.double, 0.02)
"""Speeds are measured over at least this time. The lower one of the last two counts: many workers that end at the same
time are not fast."""
ENOUGH = cython.declare(cython.longlong, 8)
"""With fewer accepted deliveries, over AHEAD_S."""
REST_S = cython.declare(cython.double, 1.0)
"""Without anything for this time, what was measured counts no longer."""


class Pace:
    """Of one link. `changed`: the list of links that `Pacing` looks at in this turn of the event loop."""

    def __init__(self, now: cython.double, changed: list[Any]) -> None:
        self.room = 0  # deliveries that consumers can take now, as far as these are known
        self.ahead = 1  # deliveries that may be here, or on their way, before a consumer is ready for them
        self.seen = 0  # delivery-count of the link at the last tick
        self._since = now  # when `_done` was 0
        self._done = 0  # deliveries that were accepted since then
        self._speed = 0.0  # of those before, a second
        self._changed = changed
        self._listed = False

    def touch(self, lk: object) -> None:
        """What waits, or what consumers can take, has changed: look at the link in this turn."""
        if not self._listed:
            self._listed = True
            self._changed.append(lk)

    def sent(self, lk: object) -> None:
        """A delivery of the link was sent to a consumer, or to another router."""
        if self.room > 0:
            self.room -= 1
        self.touch(lk)

    def accepted(self) -> None:
        """A consumer has accepted one."""
        self._done += 1

    def look(self, now: cython.double) -> None:
        """The link is looked at: adapt the look-ahead if enough time has gone by since the last accepted delivery."""
        self._listed = False
        took: cython.double = now - self._since
        if took < SPAN_S or self._done == 0 or (self._done < ENOUGH and took < AHEAD_S):
            return
        speed: cython.double = self._done / took
        self.ahead = max(1, math.ceil(min(speed, self._speed) * AHEAD_S))
        self._speed = speed
        self._since = now
        self._done = 0

    def rest(self, now: cython.double) -> None:
        """Nothing has come for a while: what was measured may be no longer true."""
        if self._done == 0 and now - self._since > REST_S:
            self.ahead = 1
