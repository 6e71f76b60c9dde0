"""Reports outgoing links on which nothing goes on: their deliveries stay unsettled, or wait for the peer to take them.

The rounds of link_health.py call it for each link, so a message costs nothing more. Decision 0056.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from waymesh_router.core.link_kinds import CONTROL, DATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.model import RouterLink

DEFAULT_AFTER_S = 10.0
PERIOD_S = 60.0
"""Minimum time between two reports of the same kind about a link: a consumer may hold its deliveries for hours."""
COUNTED_ADDRESSES = 100
"""Maximum number of addresses whose deliveries are counted for a link between routers."""


class Late:
    """Deliveries of one link that have been unsettled for too long."""

    __slots__ = ("count", "link", "oldest_s")

    def __init__(self, link: RouterLink) -> None:
        self.link = link
        self.count = 0
        self.oldest_s = 0.0

    def add(self, age_s: float) -> None:
        """Count a delivery that has been unsettled for `age_s` seconds."""
        self.count += 1
        self.oldest_s = max(self.oldest_s, age_s)


class Stall:
    """What is known of one link."""

    __slots__ = ("blocked_at", "sent", "since", "stuck_at")

    def __init__(self) -> None:
        self.since = math.inf  # since when it takes nothing although deliveries wait
        self.sent = 0  # `sent_on` then
        self.stuck_at = self.blocked_at = -math.inf  # the last reports


class StalledLinks:
    """`after_s`: the time after which a delivery or link is reported; 0: nothing is reported."""

    def __init__(self, context: CoreContext) -> None:
        self.after_s = DEFAULT_AFTER_S
        self._context = context
        self._links: dict[int, Stall] = {}
        self._next: dict[int, Stall] = {}  # those that this round has seen

    def configure(self, attrs: Mapping[str, Any]) -> None:
        """Apply `stuckAfterSeconds` of the router."""
        self.after_s = float(attrs["stuckAfterSeconds"])

    def look_at(self, link: RouterLink, now: float) -> None:
        """Report a link if deliveries wait for it and it has taken none for too long."""
        stall = self._links.get(link.id)
        waiting = undelivered(link) if self.after_s and takes_none(link) else 0
        if not waiting:
            if stall is not None and now - max(stall.stuck_at, stall.blocked_at) < self._period:
                stall.since = math.inf
                self._next[link.id] = stall
            return
        stall = self._next[link.id] = stall or Stall()
        sent = sent_on(link)
        if stall.since == math.inf or sent != stall.sent:
            stall.since, stall.sent = now, sent
        if now - stall.since > self.after_s and now - stall.blocked_at >= self._period:
            stall.blocked_at = now
            self._context.telemetry.link_blocked(link, waiting, now - stall.since)

    def is_late(self, age_s: float) -> bool:
        """Whether a delivery that has been unsettled for `age_s` seconds is to be reported."""
        return 0 < self.after_s < age_s

    def report(self, late: Late, now: float) -> None:
        """Report the late deliveries of a link, unless that was done lately. Its call of `look_at` was before."""
        stall = self._next.setdefault(late.link.id, Stall())
        if now - stall.stuck_at >= self._period:
            stall.stuck_at = now
            self._context.telemetry.deliveries_stuck(late.link, late.count, late.oldest_s)

    def end_round(self) -> None:
        """All links have been seen: forget the others."""
        self._links, self._next = self._next, {}

    @property
    def _period(self) -> float:
        return max(PERIOD_S, self.after_s)


def takes_none(link: RouterLink) -> bool:
    """Whether no delivery can begin on an outgoing link, nor the current one go on, because of its peer: it has issued
    no credit or no session window, or does not read from its socket."""
    if not link.is_sender or link.kind == CONTROL or not link.usable() or link.paused:
        return False
    return link.backlog is not None if link.busy else not link.ready()


def undelivered(link: RouterLink) -> int:
    """Number of deliveries that wait for an outgoing link, and perhaps for others of the same address."""
    waiting = int(link.backlog is not None) + int(link.undelivered())
    if link.partner is not None:
        return waiting
    connection = link.connection
    if link.kind == DATA and link.address is None:
        addresses = list(islice(connection.waiting, COUNTED_ADDRESSES))
    else:
        addresses = [link.address] if link.address is not None else []
    queues = (address.pending for address in addresses)
    return waiting + sum(queue.free_for(connection) for queue in queues if queue is not None)


def sent_on(link: RouterLink) -> int:
    """A number that changes whenever something is sent on an outgoing link."""
    return int(link.session.next_outgoing_id if link.busy else link.delivery_count)
