"""How many new connections there were lately, by listener, vhost, user and host."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Generic, TypeVar

from waymesh_schema.rates import Rate

MOST_KEYS = 16384
"""Of one table; half of them are forgotten when there are more."""
_ROUNDING = 1e-6

Key = TypeVar("Key", bound=Hashable)


class Arrivals(Generic[Key]):
    """New connections by key. Of each one time is kept: when all that its rate allows at once will be allowed again.

    This is the generic cell rate algorithm: `connections` at once, then one each `seconds / connections`. A key without
    a connection for `seconds` need not be kept. Another rate of a key starts afresh.
    """

    __slots__ = ("_full", "_most")

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._full: dict[Key, tuple[float, Rate]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._full)

    def has_room(self, key: Key, rate: Rate | None, now: float) -> bool:
        """Whether one more connection is within the rate. Changes nothing."""
        if rate is None:
            return True
        counting = (self._full_at(key, rate, now) - now) * rate.connections / rate.seconds
        # Without the allowance for rounding, a connection that comes exactly in time is refused.
        return counting <= rate.connections - 1 + _ROUNDING

    def add(self, key: Key, rate: Rate | None, now: float) -> None:
        """Count a connection, if there is room for it."""
        if rate is None or not self.has_room(key, rate, now):
            return
        if key not in self._full and len(self._full) >= self._most:
            self._forget(now)
        self._full[key] = (self._full_at(key, rate, now) + rate.seconds / rate.connections, rate)

    def _full_at(self, key: Key, rate: Rate, now: float) -> float:
        known = self._full.get(key)
        return now if known is None or known[1] != rate else max(known[0], now)

    def _forget(self, now: float) -> None:
        """Drop keys that need not be kept; if more than half remain, also those that are needed for the least time."""
        kept = {key: full for key, full in self._full.items() if full[0] > now}
        if len(kept) > self._most // 2:
            kept = {key: kept[key] for key in nlargest(self._most // 2, kept, key=lambda key: kept[key][0])}
        self._full = kept


@dataclass(slots=True)
class RecentConnections:
    """New client connections that were allowed: by listener, by vhost, by (vhost, user) and by (vhost, host)."""

    listeners: Arrivals[str] = field(default_factory=Arrivals)
    vhosts: Arrivals[str] = field(default_factory=Arrivals)
    users: Arrivals[tuple[str, str]] = field(default_factory=Arrivals)
    hosts: Arrivals[tuple[str, str]] = field(default_factory=Arrivals)
