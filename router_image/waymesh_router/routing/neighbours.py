"""The HELLO protocol: finds two-way connections to neighbours, and the link to use for each.

Sources: protocol/inter-router.md, "Control messages": a HELLO is sent every helloInterval; a peer is dropped after
helloMaxAge, or at once when its control link is lost; a peer becomes a neighbour when its HELLO names this router. From
then on, any received byte shows that it is alive.
"""

from __future__ import annotations

import math

from waymesh_router.routing.effects import Effect, LogEvent, SendHello
from waymesh_router.routing.messages import Hello, base_body, seen_list
from waymesh_router.routing.settings import RoutingSettings

# A HELLO that changes a link is answered at once, which makes the link two-way in one round trip instead of one
# interval. To avoid a storm between peers with a flapping state, only one such extra HELLO is sent in this time.
EXTRA_HELLO_SPACING_S = 0.010


class Link:
    """A control link: one inter-router connection."""

    __slots__ = (
        "cost",
        "extra_at",
        "heard_at",
        "id",
        "instance",
        "last_extra",
        "next_hello",
        "order",
        "peer",
        "two_way",
    )

    def __init__(self, link_id: int, cost: int, order: int, now: float) -> None:
        self.id = link_id
        self.cost = cost
        self.order = order
        self.peer: str | None = None
        self.instance = 0
        self.two_way = False
        self.heard_at = now
        self.next_hello = now
        self.extra_at = math.inf
        self.last_extra = -math.inf


class Neighbours:
    """All control links. `wake` is the time of the next `tick` (or a little earlier)."""

    def __init__(self, settings: RoutingSettings) -> None:
        self.wake = math.inf
        self._settings = settings
        self._links: dict[int, Link] = {}
        self._order = 0

    def add(self, link_id: int, cost: int, now: float) -> None:
        """A control link is attached; its first HELLO is due now."""
        self._order += 1
        self._links[link_id] = Link(link_id, cost, self._order, now)
        self.wake = now

    def remove(self, link_id: int) -> None:
        """A control link is gone."""
        self._links.pop(link_id, None)

    def has(self, link_id: int) -> bool:
        return link_id in self._links

    def instance(self, router_id: str) -> int | None:
        """The instance of a neighbour; None if the router is not a neighbour."""
        return next((link.instance for link in self._links.values() if link.peer == router_id and link.two_way), None)

    def other_instance(self, link_id: int, hello: Hello) -> int | None:
        """Another instance with the id of this HELLO's sender, on another link; None if there is none."""
        for link in self._links.values():
            if link.peer == hello.id and link.instance != hello.instance and link.id != link_id:
                return link.instance
        return None

    def last_heard(self, router_id: str, except_link: int) -> float:
        """When the last data of a router arrived on its links except one; -inf if it has no other link."""
        times = [link.heard_at for link in self._links.values() if link.peer == router_id and link.id != except_link]
        return max(times, default=-math.inf)

    def peer(self, link_id: int) -> str | None:
        """The router at the other end of a link; None if it is not known yet."""
        link = self._links.get(link_id)
        return None if link is None else link.peer

    def chosen(self) -> dict[str, Link]:
        """The link to use for each neighbour: the one of lowest cost, then the oldest."""
        best: dict[str, Link] = {}
        for link in self._links.values():
            if link.peer is not None and link.two_way:
                other = best.get(link.peer)
                if other is None or (link.cost, link.order) < (other.cost, other.order):
                    best[link.peer] = link
        return best

    def hello(self, link_id: int, hello: Hello, now: float, out: list[Effect]) -> bool:
        """Handle a HELLO; returns whether it came from a neighbour (another router that hears this one)."""
        link = self._links.get(link_id)
        if link is None:
            out.append(LogEvent("debug", "ROUTER_HELLO", f"HELLO from {hello.id} on unknown link {link_id} ignored"))
            return False
        two_way = self._settings.router_id in hello.seen
        if (link.peer, link.instance, link.two_way) != (hello.id, hello.instance, two_way):
            self._drop_former_instance(hello)
            link.peer, link.instance, link.two_way = hello.id, hello.instance, two_way
            link.extra_at = max(now, link.last_extra + EXTRA_HELLO_SPACING_S)
            self.wake = min(self.wake, link.extra_at)
        link.heard_at = now
        return two_way

    def data_received(self, link_id: int, now: float) -> None:
        """Data arrived on the link. From a neighbour it counts as a HELLO, which may be queued behind other data."""
        link = self._links.get(link_id)
        if link is not None and link.two_way:
            link.heard_at = now

    def _drop_former_instance(self, hello: Hello) -> None:
        """Drop links to a former instance of a restarted peer, even if their connections do not seem lost yet."""
        for link in self._links.values():
            if link.peer == hello.id and link.instance != hello.instance:
                link.peer = None
                link.two_way = False

    def tick(self, now: float, out: list[Effect]) -> None:
        """Drop silent peers, send the HELLOs that are due."""
        late = now - self.wake
        for link in self._links.values():
            if late > self._settings.hello_interval_s:
                # This process was stopped; what peers sent meanwhile waits in its sockets, so they were not silent.
                link.heard_at = min(now, link.heard_at + late)
            if link.peer is not None and now >= self._silent_at(link):
                out.append(LogEvent("info", "ROUTER_HELLO", f"{link.peer} is silent on link {link.id}: dropped"))
                link.peer = None
                link.two_way = False
            if min(link.extra_at, link.next_hello) <= now:
                self._send(link, now, out)
        self.wake = min((self._deadline(link) for link in self._links.values()), default=math.inf)

    def _silent_at(self, link: Link) -> float:
        """When the peer counts as silent. One sum for deadline and check: with two, rounding could let a tick at the
        deadline find nothing to do, and the next one be due at the same time."""
        return link.heard_at + self._settings.hello_max_age_s

    def _deadline(self, link: Link) -> float:
        silence = math.inf if link.peer is None else self._silent_at(link)
        return min(link.next_hello, link.extra_at, silence)

    def _send(self, link: Link, now: float, out: list[Effect]) -> None:
        """Send a HELLO. `seen` has the router heard on this very link: a router heard only on a parallel link would
        consider this link two-way although nothing arrives on it.
        """
        if link.extra_at <= now:
            link.last_extra = now
            link.extra_at = math.inf
        link.next_hello = now + self._settings.hello_interval_s
        body = base_body(self._settings.router_id, self._settings.area)
        body["instance"] = self._settings.instance
        body["seen"] = seen_list([] if link.peer is None else [link.peer])
        out.append(SendHello(link.id, body))
