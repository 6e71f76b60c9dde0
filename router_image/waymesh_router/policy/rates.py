"""Rates of new connections, by listener, vhost, user and host."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Generic, TypeVar

from waymesh_schema.rates import Rate

MAX_KEYS = 16384
"""Maximum number of keys in one table; before it grows beyond, half of them are dropped."""
_ROUNDING = 1e-6

Key = TypeVar("Key", bound=Hashable)


class Arrivals(Generic[Key]):
    """New connections by key. Stores one time per key: when its full burst will be allowed again.

    This is the generic cell rate algorithm: `connections` at once, then one each `seconds / connections`. Keys whose
    time has passed need not be stored. If the rate of a key changes, counting starts again.
    """

    __slots__ = ("_full", "_most")

    def __init__(self, most: int = MAX_KEYS) -> None:
        self._full: dict[Key, tuple[float, Rate]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._full)

    def has_room(self, key: Key, rate: Rate | None, now: float) -> bool:
        """Whether one more connection is within the rate. Changes nothing."""
        if rate is None:
            return True
        counting = (self._full_at(key, rate, now) - now) * rate.connections / rate.seconds
        # Without this tolerance, rounding could refuse a connection that comes exactly in time.
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
        """Drop keys whose time has passed; if more than half of the maximum remain, also those that end first."""
        kept = {key: full for key, full in self._full.items() if full[0] > now}
        if len(kept) > self._most // 2:
            kept = {key: kept[key] for key in nlargest(self._most // 2, kept, key=lambda key: kept[key][0])}
        self._full = kept


@dataclass(slots=True)
class RecentConnections:
    """Allowed new client connections by listener, by vhost, by (vhost, user) and by (vhost, host)."""

    listeners: Arrivals[str] = field(default_factory=Arrivals)
    vhosts: Arrivals[str] = field(default_factory=Arrivals)
    users: Arrivals[tuple[str, str]] = field(default_factory=Arrivals)
    hosts: Arrivals[tuple[str, str]] = field(default_factory=Arrivals)
