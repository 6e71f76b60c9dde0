"""What is found by looking now and then, so that the hot path need not note the time of each delivery.

Every second or so each connection is looked at: whether it carried deliveries, which links have no credit, which
deliveries are still unsettled since the last look. Times are therefore right to about a second; where there is so much
to see that a round takes longer, to the length of a round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_router.core.kinds import CONTROL, ENDPOINT
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.core.unsettled import of_client, presettled_at, presettled_on

if TYPE_CHECKING:
    from waymesh_amqp.delivery import DeliveryRing

EVERY_S = 1.0
BUDGET = 2000
"""Links and deliveries looked at in one go: about a millisecond."""
DELAYED_S = 1.0
STUCK_S = 10.0
BLOCKED_S = 10.0
"""A link without credit for longer than this counts as blocked."""


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
    addresses: dict[str, Address]


_NONE = Delays()
_Ages = dict[int, tuple[float, RouterLink]]
"""Delivery-id → when it was first seen unsettled, and its link."""


class LinkHealth:
    """Looks at the connections of a router in turn. `total`: delays of all deliveries that clients sent.

    `clients`: deliveries of clients that wait for an outcome or a consumer, `blocked`: links without credit for longer
    than BLOCKED_S, both as the last round found them: for routers where counting anew for each reader would take long.
    """

    def __init__(self, core: Connections) -> None:
        self.total = Delays()
        self.clients = 0
        self.blocked = 0
        self._core = core
        self._due = 0.0
        self._now = 0.0
        self._round: Iterator[int] | None = None
        self._links: dict[int, Delays] = {}
        self._counts: dict[int, int] = {}
        self._rings: dict[Any, tuple[float, _Ages]] = {}
        self._next_counts: dict[int, int] = {}
        self._next_rings: dict[Any, tuple[float, _Ages]] = {}
        self._stuck = 0
        self._clients = 0
        self._blocked = 0

    def of(self, link: RouterLink) -> Delays:
        """The delays of a link's deliveries."""
        return self._links.get(link.id, _NONE)

    def tick(self, now: float) -> None:
        """Go on looking, if it is time; to be called several times a second."""
        self._now = now
        if self._round is None:
            if now < self._due:
                return
            self._due = now + EVERY_S
            self._round = self._look_at_all()
        left = BUDGET
        for work in self._round:
            left -= work
            if left <= 0:
                return
        self._round = None

    def _look_at_all(self) -> Iterator[int]:
        """One round over all there is, in slices: how much work each one was.

        Between slices connections, links and deliveries come and go: each slice has copies of what it goes through.
        """
        for connection in list(self._core.connections.values()):
            for session in list(connection.sessions.values()):
                yield 1
                yield from self._look_at_links(connection, [link for link in session.links if link is not None])
                yield from self._look_at_ring(session.unsettled_in, True)
                yield from self._look_at_ring(session.unsettled_out, False)
            yield 1
        for address in list(self._core.addresses.values()):
            self._clients += presettled_at(address)
            yield 1
        # All were seen: what was not is gone.
        self._counts, self._next_counts = self._next_counts, {}
        self._rings, self._next_rings = self._next_rings, {}
        self._links = {number: delays for number, delays in self._links.items() if number in self._counts}
        self.total.stuck, self._stuck = self._stuck, 0
        self.clients, self._clients = self._clients, 0
        self.blocked, self._blocked = self._blocked, 0

    def _look_at_links(self, connection: RouterConnection, links: list[Any]) -> Iterator[int]:
        for link in links:
            if not link.over and self._look_at_link(link, self._now):
                connection.last_delivery_at = self._now
            yield 1

    def _look_at_link(self, link: RouterLink, now: float) -> bool:
        """Whether deliveries have passed since the last look."""
        if link.is_sender:
            if link.credit > 0:
                link.zero_credit_since = 0.0
            elif not link.zero_credit_since:
                link.zero_credit_since = now
        self._blocked += seconds_without_credit(link, now) > BLOCKED_S
        if link.kind == ENDPOINT:
            self._clients += presettled_on(link)
        count = deliveries_of(link)
        self._next_counts[link.id] = count
        return count > self._counts.get(link.id, 0) and link.kind != CONTROL

    def _look_at_ring(self, ring: DeliveryRing, incoming: bool) -> Iterator[int]:
        now = self._now
        seen, before = self._rings.get(ring, (now, {}))
        if not ring.count and not before:
            return
        ages: _Ages = {}
        stuck: Counter[int] = Counter()
        for delivery in ring.live():
            yield 1
            link = delivery.link if incoming else delivery.out
            self._clients += of_client(delivery, incoming)
            if link is None or link.kind != ENDPOINT:
                continue
            number = delivery.did if incoming else delivery.oid
            since = before[number][0] if number in before else now
            ages[number] = (since, link)
            self._links.setdefault(link.id, Delays())
            stuck[link.id] += now - since > STUCK_S
        for number in {link.id for _, link in (*before.values(), *ages.values())} & self._links.keys():
            self._links[number].stuck = stuck[number]
        self._stuck += stuck.total() if incoming else 0
        for number in before.keys() - ages.keys():
            yield 1
            since, link = before[number]
            if link.over or link.id not in self._links:
                continue  # lost with its link
            self._links[link.id].settled(seen - since)
            if incoming:
                self.total.settled(seen - since)
        self._next_rings[ring] = (now, ages)


def seconds_without_credit(link: RouterLink, now: float) -> float:
    """How long an outgoing link has had no credit; 0 for one that has some, and for incoming links."""
    if not link.is_sender or link.credit > 0 or link.zero_credit_since <= 0:
        return 0.0
    return max(0.0, now - link.zero_credit_since)


def deliveries_of(link: RouterLink) -> int:
    """Deliveries so far. An incoming link's AMQP delivery-count starts where the peer likes, so that its own counters
    are summed up instead; an outgoing one starts at 0."""
    if link.is_sender:
        return link.delivery_count
    ended = link.accepted + link.rejected + link.released + link.modified
    return ended + link.presettled + link.dropped_presettled + link.unsettled
