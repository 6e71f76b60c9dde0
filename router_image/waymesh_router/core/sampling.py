"""What is found by looking now and then, so that the hot path need not note the time of each delivery.

Every second or so each connection is looked at: whether it carried deliveries, which links have no credit, which
deliveries are still unsettled since the last look. Times are therefore right to about a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_router.core.model import CONTROL, ENDPOINT, RouterConnection, RouterLink

if TYPE_CHECKING:
    from waymesh_amqp.delivery import DeliveryRing

EVERY_S = 1.0
BUDGET = 2000
"""Links and deliveries looked at in one go: about a millisecond."""
DELAYED_S = 1.0
STUCK_S = 10.0


class Delays:
    """Deliveries of one link, or of all clients' incoming links: `one_s`, `ten_s`: settled after 1 to 10 seconds and
    after more; `stuck`: unsettled now for more than 10."""

    __slots__ = ("one_s", "stuck", "ten_s")

    def __init__(self) -> None:
        self.one_s = 0
        self.ten_s = 0
        self.stuck = 0

    def settled(self, age_s: float) -> None:
        """A delivery was settled that was unsettled for at least so long."""
        if age_s > STUCK_S:
            self.ten_s += 1
        elif age_s >= DELAYED_S:
            self.one_s += 1


class Connections(Protocol):
    """Where to look."""

    connections: dict[int, RouterConnection]


_NONE = Delays()
_Ages = dict[int, tuple[float, RouterLink]]
"""Delivery-id → when it was first seen unsettled, and its link."""


class Sampler:
    """Looks at the connections of a router in turn. `total`: delays of all deliveries that clients sent."""

    def __init__(self, core: Connections) -> None:
        self.total = Delays()
        self._core = core
        self._due = 0.0
        self._todo: Iterator[RouterConnection] | None = None
        self._links: dict[int, Delays] = {}
        self._counts: dict[int, int] = {}
        self._next_counts: dict[int, int] = {}
        self._rings: dict[Any, tuple[float, _Ages]] = {}
        self._next_rings: dict[Any, tuple[float, _Ages]] = {}
        self._stuck = 0

    def of(self, link: RouterLink) -> Delays:
        """The delays of a link's deliveries."""
        return self._links.get(link.id, _NONE)

    def tick(self, now: float) -> None:
        """Look at some connections, if it is time; to be called several times a second."""
        if self._todo is None:
            if now < self._due:
                return
            self._due = now + EVERY_S
            self._todo = iter(list(self._core.connections.values()))
        left = BUDGET
        for connection in self._todo:
            left -= self._look(connection, now)
            if left <= 0:
                return
        self._round_ends()

    def _round_ends(self) -> None:
        """All were seen: what was not is gone."""
        self._todo = None
        self._counts, self._next_counts = self._next_counts, {}
        self._rings, self._next_rings = self._next_rings, {}
        self._links = {number: delays for number, delays in self._links.items() if number in self._counts}
        self.total.stuck, self._stuck = self._stuck, 0

    def _look(self, connection: RouterConnection, now: float) -> int:
        """Look at one connection; how much work it was."""
        work = 1
        for session in connection.sessions.values():
            links: list[Any] = [link for link in session.links if link is not None]
            for link in links:
                if self._look_at_link(link, now):
                    connection.last_delivery_at = now
            work += len(links) + session.unsettled_in.count + session.unsettled_out.count
            self._look_at_ring(session.unsettled_in, True, now)
            self._look_at_ring(session.unsettled_out, False, now)
        return work

    def _look_at_link(self, link: RouterLink, now: float) -> bool:
        """Whether deliveries have passed since the last look."""
        if link.is_sender:
            if link.credit > 0:
                link.zero_credit_since = 0.0
            elif not link.zero_credit_since:
                link.zero_credit_since = now
        count = deliveries_of(link)
        self._next_counts[link.id] = count
        return count > self._counts.get(link.id, 0) and link.kind != CONTROL

    def _look_at_ring(self, ring: DeliveryRing, incoming: bool, now: float) -> None:
        seen, before = self._rings.get(ring, (now, {}))
        if not ring.count and not before:
            return
        ages: _Ages = {}
        for number in {link.id for _, link in before.values()} & self._links.keys():
            self._links[number].stuck = 0
        for delivery in ring.live():
            link = delivery.link if incoming else delivery.out
            if link is None or link.kind != ENDPOINT:
                continue
            number = delivery.did if incoming else delivery.oid
            since = before[number][0] if number in before else now
            ages[number] = (since, link)
            delays = self._links.setdefault(link.id, Delays())
            if now - since > STUCK_S:
                delays.stuck += 1
                self._stuck += incoming
        for number in before.keys() - ages.keys():
            since, link = before[number]
            if link.over or link.id not in self._links:
                continue  # lost with its link
            self._links[link.id].settled(seen - since)
            if incoming:
                self.total.settled(seen - since)
        self._next_rings[ring] = (now, ages)


def deliveries_of(link: RouterLink) -> int:
    """Deliveries so far. An incoming link's AMQP delivery-count starts where the peer likes, so that its own counters
    are summed up instead; an outgoing one starts at 0."""
    if link.is_sender:
        return link.delivery_count
    ended = link.accepted + link.rejected + link.released + link.modified
    return ended + link.presettled + link.dropped_presettled + link.unsettled
