"""Delays of deliveries and links without credit, found by polling, so that the hot path records no times.

About once a second, a round examines every connection: whether it carried deliveries, which links have no credit, and
which deliveries are unsettled since the last round. So times are accurate to about a second, or to the duration of a
round if that is longer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from waymesh_router.core.link_kinds import CONTROL, ENDPOINT, ROUTED
from waymesh_router.core.model import Address, RouterConnection, RouterLink
from waymesh_router.core.stalled_links import Late, StalledLinks
from waymesh_router.core.unsettled import of_client, presettled_at, presettled_on

if TYPE_CHECKING:
    from waymesh_amqp.delivery import DeliveryRing
    from waymesh_amqp.session import Session
    from waymesh_router.core.core_context import CoreContext

EVERY_S = 1.0
BUDGET = 100
"""Links and deliveries per slice: about a tenth of a millisecond of work."""
GONE_AT_ONCE = 20
"""Addresses that have gone since the round began and take as much time as one: their names are to go soon, too."""
PAUSE_S = 0.0125
"""Pause between two slices of a round: it limits the examination to a hundredth of the CPU time."""
DELAYED_S = 1.0
STUCK_S = 10.0
RATE_ROUNDS = 5
"""Rounds, of about a second each, over which the rate of a link is computed."""
BLOCKED_S = 10.0
"""A link without credit for longer than this counts as blocked."""


class Delays:
    """Slow deliveries of one link, or of all incoming links of clients."""

    __slots__ = ("one_s", "stuck", "ten_s")

    def __init__(self) -> None:
        self.one_s = 0  # settled after 1 to 10 seconds
        self.ten_s = 0  # settled after more than 10 seconds
        self.stuck = 0  # unsettled for more than 10 seconds

    def settled(self, age_s: float) -> None:
        """Count a delivery that was settled after at least `age_s` seconds."""
        if age_s > STUCK_S:
            self.ten_s += 1
        elif age_s >= DELAYED_S:
            self.one_s += 1


class Connections(Protocol):
    """The connections to examine."""

    context: CoreContext
    connections: dict[int, RouterConnection]
    addresses: dict[str, Address]


_NONE = Delays()
_Ages = dict[int, tuple[float, RouterLink]]
"""Delivery-id → time when it was first seen unsettled, and its link."""


class LinkHealth:
    """Examines the connections of a router in turn."""

    def __init__(self, core: Connections) -> None:
        self.total = Delays()  # of all deliveries that clients sent; `stuck`: at each of their links, as in Dispatch
        self.clients = 0  # deliveries of clients without an outcome or consumer, in the last round
        self.blocked = 0  # links without credit for longer than BLOCKED_S, in the last round
        self.stalled = StalledLinks(core.context)
        self._core = core
        self._due = 0.0  # the next slice
        self._started = 0.0  # start of this round
        self._before = 0.0  # start of the round before
        self._now = 0.0
        self._round: Iterator[int] | None = None
        self._links: dict[int, Delays] = {}
        self._counts: dict[int, int] = {}  # deliveries by link that has had any
        self._rings: dict[Any, tuple[float, _Ages]] = {}
        self._next_counts: dict[int, int] = {}
        self._next_rings: dict[Any, tuple[float, _Ages]] = {}
        self._settled: dict[int, int] = {}  # settled deliveries by link that has unsettled ones
        self._next_settled: dict[int, int] = {}
        self._rates: dict[int, deque[tuple[float, int]]] = {}  # time and settled deliveries by link in use
        self._stuck = 0
        self._clients = 0
        self._blocked = 0

    def of(self, link: RouterLink) -> Delays:
        """The delays of a link's deliveries."""
        return self._links.get(link.id, _NONE)

    @property
    def now(self) -> float:
        """The time of this turn."""
        return self._core.context.now

    def settle_rate(self, link: RouterLink) -> int:
        """Settlements per second over the last RATE_ROUNDS rounds, or since the attach if that is later."""
        samples = self._rates.get(link.id)
        if samples is None:
            return 0
        (began, first), (ended, last) = samples[0], samples[-1]
        return round((last - first) / (ended - began))

    def tick(self, now: float) -> float:
        """Run the next slice if it is due. Returns the time of the next call."""
        if now < self._due:
            return self._due
        self._now = now
        if self._round is None:
            self._before, self._started = self._started or now - EVERY_S, now
            self._round = self._look_at_all()
        left = BUDGET
        for work in self._round:
            left -= work
            if left <= 0:
                self._due = now + PAUSE_S
                return self._due
        self._round = None
        self._due = max(now, self._started + EVERY_S)
        return self._due

    def _look_at_all(self) -> Iterator[int]:
        """One round over all connections, in slices; yields the amount of work of each slice.

        Connections, links, deliveries and addresses come and go between slices. So the round iterates over their ids: a
        list of the objects would keep those that end in the meantime, perhaps thousands, and free them all at once.
        """
        yield from self._look_at_connections()
        yield from self._look_at_addresses()
        # The round is complete: entries that were not seen are gone.
        self._counts, self._next_counts = self._next_counts, {}
        self._settled, self._next_settled = self._next_settled, {}
        self._rings, self._next_rings = self._next_rings, {}
        for number in self._rates.keys() - self._counts.keys():
            del self._rates[number]
        self._links = {number: delays for number, delays in self._links.items() if number in self._counts}
        self.stalled.end_round()
        self.total.stuck, self._stuck = self._stuck, 0
        self.clients, self._clients = self._clients, 0
        self.blocked, self._blocked = self._blocked, 0

    def _look_at_connections(self) -> Iterator[int]:
        for number in list(self._core.connections):
            connection = self._core.connections.get(number)
            if connection is None:
                continue
            for channel in list(connection.sessions):
                session = connection.sessions.get(channel)
                if session is None:
                    continue
                yield 1
                yield from self._look_at_links(connection, session)
                yield from self._look_at_ring(session.unsettled_in, True)
                yield from self._look_at_ring(session.unsettled_out, False)
            yield 1

    def _look_at_addresses(self) -> Iterator[int]:
        keys = list(self._core.addresses)
        while keys:
            address = self._core.addresses.get(keys.pop())
            if address is not None:
                self._clients += presettled_at(address)
                del address
            elif len(keys) % GONE_AT_ONCE:
                continue
            yield 1

    def _look_at_links(self, connection: RouterConnection, session: Session) -> Iterator[int]:
        handle = 0
        while handle < len(session.links):
            link: Any = session.links[handle]
            if link is not None and not link.over and self._look_at_link(link, self._now):
                connection.last_delivery_at = self._now
            handle += 1
            yield 1

    def _look_at_link(self, link: RouterLink, now: float) -> bool:
        """Whether the link carried deliveries since the last round."""
        if link.is_sender:
            if link.credit > 0:
                link.zero_credit_since = 0.0
            elif not link.zero_credit_since:
                link.zero_credit_since = now
        self._blocked += is_blocked(link, now)
        self.stalled.look_at(link, now)
        if link.kind == ENDPOINT:
            self._clients += presettled_on(link)
        count = deliveries_of(link)
        if count:
            self._next_counts[link.id] = count
        self._measure(link, count, now)
        return count > self._counts.get(link.id, 0) and link.kind != CONTROL

    def _measure(self, link: RouterLink, count: int, now: float) -> None:
        """Record the settled deliveries of a link, which has had `count` deliveries so far."""
        settled = count - link.unsettled
        if link.unsettled:
            self._next_settled[link.id] = settled
        samples = self._rates.get(link.id)
        if samples is None:
            before = self._settled.get(link.id, self._counts.get(link.id, 0))
            if settled != before:
                self._rates[link.id] = deque([(self._before, before), (now, settled)], RATE_ROUNDS + 1)
            return
        samples.append((now, settled))
        if samples[0][1] == settled:
            del self._rates[link.id]

    def _look_at_ring(self, ring: DeliveryRing, incoming: bool) -> Iterator[int]:
        now = self._now
        seen, before = self._rings.get(ring, (now, {}))
        if not ring.count and not before:
            return
        ages: _Ages = {}
        stuck: Counter[int] = Counter()
        stuck_of_clients = 0
        late: dict[int, Late] = {}
        for delivery in ring.live():
            yield 1
            link = delivery.link if incoming else delivery.out
            self._clients += of_client(delivery, incoming)
            if link is None or link.kind == CONTROL:
                continue
            number = delivery.did if incoming else delivery.oid
            since = before[number][0] if number in before else now
            ages[number] = (since, link)
            self._links.setdefault(link.id, Delays())
            if not incoming and delivery.sent and self.stalled.is_late(now - since):
                late.setdefault(link.id, Late(link)).add(now - since)
            if now - since > STUCK_S:
                stuck[link.id] += 1
                stuck_of_clients += link.kind in (ENDPOINT, ROUTED)
        for number in {link.id for _, link in (*before.values(), *ages.values())} & self._links.keys():
            self._links[number].stuck = stuck[number]
        self._stuck += stuck_of_clients
        for number in before.keys() - ages.keys():
            yield 1
            since, link = before[number]
            if link.over or link.id not in self._links:
                continue  # it ended with its link
            self._links[link.id].settled(seen - since)
            if incoming and link.kind == ENDPOINT:
                self.total.settled(seen - since)
        for one in late.values():
            self.stalled.report(one, now)
        self._next_rings[ring] = (now, ages)


def seconds_without_credit(link: RouterLink, now: float) -> float:
    """Seconds since an outgoing link ran out of credit; 0 if it has credit, and for incoming links."""
    if not link.is_sender or link.credit > 0 or link.zero_credit_since <= 0:
        return 0.0
    return max(0.0, now - link.zero_credit_since)


def is_blocked(link: RouterLink, now: float) -> bool:
    """Whether an outgoing link has had no credit for a long time."""
    return seconds_without_credit(link, now) > BLOCKED_S


def counts_of(link: RouterLink, delays: Delays) -> tuple[int, ...]:
    """Deliveries of a link so far: all, pre-settled, dropped, accepted, rejected, released, modified, and those that
    took longer than 1 s and 10 s to settle."""
    return (
        deliveries_of(link),
        link.presettled,
        link.dropped_presettled,
        link.accepted,
        link.rejected,
        link.released,
        link.modified,
        delays.one_s,
        delays.ten_s,
    )


def deliveries_of(link: RouterLink) -> int:
    """Deliveries so far. The AMQP delivery-count of an incoming link starts at any value, so its counters are added
    instead; that of an outgoing link starts at 0."""
    if link.is_sender:
        return link.delivery_count
    ended = link.accepted + link.rejected + link.released + link.modified
    return ended + link.presettled + link.unsettled
