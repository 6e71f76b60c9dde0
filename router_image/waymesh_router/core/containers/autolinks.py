"""Autolinks: links that the router itself attaches to each connection of a container.

Dispatch book "Indirect Waypoints and Auto-Links", routing chapter "Connecting a Router to the Broker".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import AmqpError
from waymesh_amqp.states import MAPPED, OPENED
from waymesh_router.core.containers.autolink import ACTIVE, ATTACHING, AutoLink, AutoLinkEnd
from waymesh_router.core.containers.registry import Place, places_of
from waymesh_router.core.containers.retries import ATTACH_COST, LOOK_COST, Retries
from waymesh_router.core.forwarding.annotations import local_annotations
from waymesh_router.core.link_routing.sessions import SessionPending
from waymesh_router.core.portions import Rounds, RoundsOfEach
from waymesh_router.core.unsettled import no_delivery_in_progress

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach, ErrorInfo
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.pacing import Pacing
    from waymesh_router.core.links.endpoints import EndpointLinks
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink

CREDIT_S = 2.0
"""Time for a container to return the credit of a quiescing link. Messages that it sends later are released."""
NO_ADDRESS = "the answer of the container has no address"
TELL_COST = 5
"""Of an autolink of which telemetry is told, see `Portions`."""


@dataclass(frozen=True, eq=False, slots=True)
class _Lost:
    """A lost connection of a container at one of its places. `reason`: that of the container, "" if it gave none."""

    conn: RouterConnection
    place: Place
    reason: str


class AutoLinks:
    """All autolinks of a router, by identity of the entity.

    A container may have thousands of them. When it comes or goes, or when attaches are to be tried again, each turn of
    the event loop attaches, ends or tells of a few. Decision 0112.

    `quiesced` is called with the identity of an autolink when its last delivery has ended; the entity can be removed.
    """

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        containers: Containers,
        links: LinkRegistry,
        endpoints: EndpointLinks,
        pacing: Pacing,
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._containers = containers
        self._links = links
        self._endpoints = endpoints
        self._pacing = pacing
        self._all: dict[str, AutoLink] = {}
        self._by_place: dict[Place, dict[str, AutoLink]] = {}
        self._by_link: dict[int, AutoLinkEnd] = {}
        self._retries = Retries(context, self._attach)
        self._quiescing: dict[str, AutoLink] = {}
        self._unique = ""
        portions = context.portions
        self._attaches = RoundsOfEach(portions, "autolinks of a container", self._at_opened, self._attach_next)
        self._losses = RoundsOfEach(portions, "autolinks of a lost container", self._at_lost, self._lose_next)
        self._removals = Rounds(portions, "quiescing autolinks", self._quiescing, self._remove_if_at_rest)
        self.quiesced: Callable[[str], None] = self.remove

    def __len__(self) -> int:
        return len(self._all)

    def find(self, identity: str) -> AutoLink | None:
        """The autolink of an entity."""
        return self._all.get(identity)

    def all(self) -> Iterable[AutoLink]:
        """All autolinks."""
        return list(self._all.values())

    # ---- entities
    def add(self, attrs: Mapping[str, Any]) -> None:
        """Create an `autoLink` entity."""
        auto = AutoLink(attrs, self._changed)
        self._context.telemetry.autolink(auto, None, auto.status)
        identity = attrs["identity"]
        self._all[identity] = auto
        if auto.place is not None:
            self._by_place.setdefault(auto.place, {})[identity] = auto
        self._attach_all(auto)

    def remove(self, identity: str) -> None:
        """Remove an `autoLink` entity and its links."""
        auto = self._all.pop(identity)
        self._quiescing.pop(identity, None)
        if auto.place is not None:
            self._by_place[auto.place].pop(identity, None)
        for end in list(auto.ends.values()):
            self._retries.forget(end)
            if end.link is not None:
                self._by_link.pop(end.link.id, None)
                end.link.detach()
        self._context.telemetry.autolink(auto, auto.status, None)

    def _changed(self, auto: AutoLink, before: str, after: str) -> None:
        self._context.telemetry.autolink(auto, before, after)

    def quiesce(self, identity: str) -> None:
        """Take no more messages, neither from the container nor for it. Deliveries in progress continue."""
        auto = self._all[identity]
        self._quiescing[identity] = auto
        auto.quiescing_since = self._context.now
        for end in auto.ends.values():
            self._retries.forget(end)
            if end.status == ACTIVE and end.link is not None:
                self._endpoints.retire(end.link)
        auto.refresh()

    def resume(self, identity: str) -> None:
        """Use a quiescing autolink again."""
        auto = self._quiescing.pop(identity)
        auto.quiescing_since = math.inf
        auto.refresh()
        for end in list(auto.ends.values()):
            link = end.link
            if link is None or not link.retiring:
                if link is None:
                    self._attach(end)
                continue
            link.retiring = False
            if link.address is not None:
                self._endpoints.leave(link.address, link)
            self._join(end, link)
        self._attach_all(auto)

    def quiescing_at(self, place: Place) -> bool:
        """Whether links of quiescing autolinks are attached to a container."""
        return any(auto.link is not None and auto.place == place for auto in self._quiescing.values())

    # ---- connections
    def container_opened(self, conn: RouterConnection) -> None:
        """A connection of a container has opened: attach the links of its autolinks, in portions."""
        for place in places_of(conn):
            if self._by_place.get(place):
                self._attaches.begin((conn, place))

    def container_closed(self, conn: RouterConnection, error: ErrorInfo | None) -> None:
        """The connection is lost. `error`: the container's reason, which says more than the errors of the links."""
        reason = ""
        if error is not None and error.condition and conn.state != OPENED:
            reason = error.description or error.condition
        for place in places_of(conn):
            if self._by_place.get(place):
                self._losses.begin(_Lost(conn, place, reason))

    def _at_opened(self, opened: tuple[RouterConnection, Place]) -> Collection[AutoLink]:
        return self._by_place[opened[1]].values()

    def _at_lost(self, lost: _Lost) -> Collection[AutoLink]:
        return self._by_place[lost.place].values()

    def _attach_next(self, opened: tuple[RouterConnection, Place], left: list[AutoLink]) -> int:
        auto, conn = left.pop(), opened[0]
        if conn.over or self._all.get(auto.attrs["identity"]) is not auto or auto.quiescing or conn.id in auto.ends:
            return LOOK_COST
        self._attach_new(auto, conn)
        return ATTACH_COST

    def _lose_next(self, lost: _Lost, left: list[AutoLink]) -> int:
        auto = left.pop()
        end = auto.ends.get(lost.conn.id)
        if end is None:
            return LOOK_COST
        self._lose(end)
        if lost.reason:
            auto.last_error = lost.reason
        auto.refresh()
        return TELL_COST

    def _lose(self, end: AutoLinkEnd) -> None:
        del end.auto.ends[end.conn.id]
        self._retries.forget(end)

    def _attach_all(self, auto: AutoLink) -> None:
        """Attach a link on each connection of the container that does not have one."""
        if auto.quiescing:
            return
        for conn in list(self._containers.at(auto.place)):
            if conn.id not in auto.ends:
                self._attach_new(auto, conn)

    def _attach_new(self, auto: AutoLink, conn: RouterConnection) -> None:
        """Attach a link on a connection that has none. Ends of lost connections of which the autolink was not told yet
        are removed first: so the link of the next connection has the same name."""
        for end in [end for end in auto.ends.values() if end.conn.over]:
            self._lose(end)
        self._attach(auto.new_end(conn))

    def _attach(self, end: AutoLinkEnd) -> None:
        """Attach the link on one connection."""
        auto = end.auto
        if auto.quiescing or end.conn.over:
            return
        self._retries.forget(end)
        end.status, end.retry_at = ATTACHING, math.inf
        try:
            if end.needs_own_session:
                session = self._containers.separate_session(end.conn)
            else:
                session = self._containers.session(end.conn, auto.incoming)
            terms = auto.terms(self._context.router_id, self._unique_name(), end.number)
            link = self._links.open_link(session, terms)
        except AmqpError as e:
            self._fail(end, e.condition, e.description)
            return
        except SessionPending:
            self._containers.held.add(end.conn, None, partial(self._attach_held, end))
            return
        end.link = link
        self._by_link[link.id] = end

    def _attach_held(self, end: AutoLinkEnd) -> None:
        """Go on with an attach that waited until the container has told its limits."""
        if end.link is None and end.status == ATTACHING and self._all.get(end.auto.attrs["identity"]) is end.auto:
            self._attach(end)

    def _unique_name(self) -> str:
        """A text that no other router uses, even one with the same id: links with equal names would end each other."""
        if not self._unique:
            self._unique = f"{self._context.rng.getrandbits(48):012x}"
        return self._unique

    def _fail(self, end: AutoLinkEnd, condition: str, text: str) -> None:
        end.failed(condition, text, self._context.now)
        self._retries.failed(end)
        attrs = end.auto.attrs
        self._context.log("ROUTER_CORE", "warning", f"autolink {attrs['direction']} {attrs['address']}: {text}")

    # ---- links
    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The container answered the attach. Without a terminus it is a refusal: a detach with the error follows."""
        end = self._by_link.get(link.id)
        if end is None:
            return
        terminus = answer.source if end.auto.incoming else answer.target
        if terminus is None:
            self._retries.refused(end)
            return
        end.not_granted = end.auto.not_granted(answer) if terminus.address else NO_ADDRESS
        if end.not_granted is not None:
            link.detach()
        elif end.auto.quiescing:
            link.retiring = True
        else:
            self._join(end, link)

    def _join(self, end: AutoLinkEnd, link: RouterLink) -> None:
        """Connect an attached link with its address."""
        auto = end.auto
        end.active(self._context.now)
        conn: RouterConnection = link.connection
        address = link.address = self._addresses.get(auto.key)
        if auto.incoming:
            address.producers.append(link)
            self._links.joined(link, address)
            link.stored = auto.fallback
            link.strip = conn.strip_in
            link.capacity = conn.link_capacity
            link.annotations = local_annotations(self._context.stamp, auto.address, str(auto.phase))
            if link.pace is None:
                self._pacing.begin(link, link.snd_settle_mode)
            self._endpoints.producer_joined(link, address)
        else:
            address.consumers.append(link)
            link.strip = conn.strip_out
            self._endpoints.consumer_joined(address)

    def lost(self, link: RouterLink, error: ErrorInfo | None) -> None:
        """A link of an autolink is lost."""
        if link.pace is not None:
            self._pacing.end(link)
        end = self._by_link.pop(link.id, None)
        if end is None:
            return
        end.link = None
        refused = self._retries.was_refused(end)
        if end.auto.quiescing or link.connection.over:
            return
        if end.status == ATTACHING and link.session.state != MAPPED:
            end.needs_own_session = True
        text = "refused by the container" if refused else "detached by the container"
        if end.not_granted is not None:
            text, end.not_granted = end.not_granted, None
        elif error is not None:
            text = error.description or error.condition
        self._fail(end, "" if error is None else error.condition, text)

    def tick(self, now: float) -> None:
        """Retry failed links whose delay is over; to be called several times a second."""
        self._retries.tick(now)
        if self._quiescing:
            self._removals.begin()

    def _remove_if_at_rest(self, identity: str) -> int:
        auto = self._quiescing.get(identity)
        if auto is None or not self._at_rest(auto):
            return LOOK_COST
        self.quiesced(identity)
        return ATTACH_COST

    def _at_rest(self, auto: AutoLink) -> bool:
        """Whether a quiescing autolink has no delivery in progress."""
        return all(end.link is None or self._link_at_rest(auto, end.link) for end in auto.ends.values())

    def _link_at_rest(self, auto: AutoLink, link: RouterLink) -> bool:
        if auto.incoming:
            self._endpoints.hand_back(link)
        owed = auto.incoming and link.credit > 0 and self._context.now - auto.quiescing_since < CREDIT_S
        return not owed and no_delivery_in_progress(link)
