"""Retry delays of a connector, which grow while the peer is unreachable. Pure."""

from __future__ import annotations

from collections.abc import Callable

FIRST_S = 0.05
SHARE = 0.1
"""The delay as a fraction of the peer's downtime so far: after 5 s, the next try comes within 0.5 s."""
LAST_S = 2.0
"""Maximum delay: a peer that is back has its links within 5 s, even if it refuses one try while it starts."""
DOUBLINGS = 6
"""A peer that accepts connections and ends them at once is tried after twice the delay each time, up to LAST_S."""
STABLE_S = 1.0
"""A connection that lasted this long counts as a success. A peer that refuses the router ends it sooner."""


class Retries:
    """The delays of one connector. Times are in seconds of a monotonic clock."""

    def __init__(self, rng: Callable[[], float], now: float) -> None:
        """`rng()` returns a float in [0, 1): with this jitter, routers do not all retry at the same time."""
        self._rng = rng
        self._away_since = now
        self._connected_at = now
        self._refusals = 0  # connections in a row that did not last

    def connected(self, now: float) -> None:
        """The transport is connected."""
        self._connected_at = now

    def lost(self, now: float) -> None:
        """The transport ended."""
        if now - self._connected_at >= STABLE_S:
            self._away_since, self._refusals = now, 0
        else:
            self._refusals += 1

    def delay(self, now: float) -> float:
        """Seconds until the next try."""
        refused_s = FIRST_S * float(1 << min(self._refusals, DOUBLINGS))
        longest = min(max(refused_s, (now - self._away_since) * SHARE), LAST_S)
        return longest * (0.5 + 0.5 * self._rng())
