"""Warnings that the number of connections approaches a limit, each given once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waymesh_router.policy.decide import per_host_of, per_user_of
from waymesh_router.policy.rates import Arrivals
from waymesh_schema.rates import Rate

if TYPE_CHECKING:
    from waymesh_router.policy.settings import Group, Policy, Vhost
    from waymesh_router.policy.statistics import OpenConnections

Key = tuple[str, ...]
_CHARACTERS = 200
ONCE_A_MINUTE = Rate(1, 60)
"""Maximum rate of warnings about one limit: with a small limit, clients that reconnect would flood the log."""


@dataclass(frozen=True, slots=True)
class Level:
    """How much of a limit is used. `attribute`: sets the limit; `about`: what is limited."""

    key: Key
    about: str
    attribute: str
    count: int
    maximum: int
    percent: int
    """Percentage of the limit at which to warn; 0: never."""

    @property
    def text(self) -> str:
        """The text of the log line."""
        return f"{self.about}: {self.count} of {self.maximum} connections are open ({self.attribute})"

    @property
    def detail(self) -> dict[str, str]:
        """The details of the event."""
        return {"limit": self.attribute, "open": str(self.count), "maximum": str(self.maximum)}


class LimitWarnings:
    """Remembers which limits have been warned about."""

    def __init__(self) -> None:
        self._warned: set[Key] = set()
        self._pace: Arrivals[Key] = Arrivals()

    def is_due(self, level: Level, now: float) -> bool:
        """Whether to warn after a connection was opened; the warning is then recorded as given."""
        if level.key in self._warned or level.count < _threshold(level):
            return False
        if not self._pace.has_room(level.key, ONCE_A_MINUTE, now):
            return False  # the next connection may cause the warning
        self._pace.add(level.key, ONCE_A_MINUTE, now)
        self._warned.add(level.key)
        return True

    def connection_closed(self, level: Level) -> None:
        """A connection was closed. If the number is well below the threshold, another warning may be given."""
        if level.count <= max(_threshold(level) - max(2, level.maximum // 10), 0):
            self._warned.discard(level.key)


def _threshold(level: Level) -> float:
    """The number of connections at which the warning is due."""
    if not (level.percent and level.maximum):
        return float("inf")
    return -(-level.maximum * level.percent // 100)


def levels(
    policy: Policy, place: tuple[Vhost | None, Group | None], names: Key, now_open: OpenConnections
) -> Iterator[Level]:
    """Levels of the limits that apply to a client. `place`: as configured now; `names`: its vhost, user and host."""
    vhost, group = place
    percent = policy.warn_at_percent
    yield Level(("router",), "router", "maxConnections", now_open.total, policy.max_connections, percent)
    if not names:
        return
    name, user, host = names
    most = per_user = per_host = 0
    if vhost is not None and group is not None:
        most, per_user, per_host = vhost.max_connections, per_user_of(vhost, group), per_host_of(vhost, group)
        percent = policy.warn_at_percent if vhost.warn_at_percent is None else vhost.warn_at_percent
    about, who = f"vhost {name}", user[:_CHARACTERS]
    yield Level(("vhost", name), about, "maxConnections", now_open.vhosts[name], most, percent)
    count = now_open.users[name, user]
    yield Level(("user", name, user), f"{about}, user {who!r}", "maxConnectionsPerUser", count, per_user, percent)
    count = now_open.hosts[name, host]
    yield Level(("host", name, host), f"{about}, host {host}", "maxConnectionsPerHost", count, per_host, percent)
