"""When a connector tries again: soon at first, and the later the longer its peer has been away. Pure."""

from __future__ import annotations

from collections.abc import Callable

FIRST_S = 0.05
SHARE = 0.1
"""Of the time that the peer has been away: a peer that was away for 5 s is found again within 0.5 s."""
LAST_S = 2.0
"""A peer that is there again is noticed, and its links are, within 5 s, even if it refuses one try while it starts."""
STABLE_S = 1.0
"""A connection that lived this long was a success. A peer that refuses us ends it sooner."""


class Retries:
    """The delays of one connector. Times are seconds of one clock that never goes back."""

    def __init__(self, rng: Callable[[], float], now: float) -> None:
        """`rng()` gives a float in [0, 1): delays spread, so that connectors of many routers do not come in step."""
        self._rng = rng
        self._away_since = now
        self._connected_at = now

    def connected(self, now: float) -> None:
        """The transport is up."""
        self._connected_at = now

    def lost(self, now: float) -> None:
        """The transport ended."""
        if now - self._connected_at >= STABLE_S:
            self._away_since = now

    def delay(self, now: float) -> float:
        """Seconds until the next try."""
        longest = min(max(FIRST_S, (now - self._away_since) * SHARE), LAST_S)
        return longest * (0.5 + 0.5 * self._rng())
