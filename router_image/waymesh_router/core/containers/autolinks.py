"""Autolinks: links that the router itself attaches to a container whenever that is connected.

Dispatch book "Indirect Waypoints and Auto-Links", routing chapter "Connecting a Router to the Broker".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import NOT_ALLOWED, UNAUTHORIZED_ACCESS, AmqpError
from waymesh_amqp.performatives import Attach, Terminus
from waymesh_amqp.types import Symbol
from waymesh_router.core.addresses.keys import MOBILE, bare_address
from waymesh_router.core.containers.registry import Place, place_of, places_of
from waymesh_router.core.forwarding.annotations import FALLBACK, local_annotations
from waymesh_router.core.model import RouterLink
from waymesh_router.core.unsettled import nothing_under_way

if TYPE_CHECKING:
    from waymesh_amqp.performatives import ErrorInfo
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.context import Context
    from waymesh_router.core.links.endpoints import EndpointLinks
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection

INACTIVE, ATTACHING, FAILED, ACTIVE, QUIESCING = "inactive", "attaching", "failed", "active", "quiescing"
STATES = (INACTIVE, ATTACHING, FAILED, ACTIVE, QUIESCING)
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 30.0
FIRST_FORBIDDEN_S = 10.0
LAST_FORBIDDEN_S = 300.0
"""Where the container forbids the link, somebody has to change something there first."""
CREDIT_S = 2.0
"""A container gets so long to give the credit of a quiescing link back. What it sends later goes back to it."""
STABLE_S = 10.0
"""A link that was active for so long and is lost begins with the shortest delay again."""
OUTCOMES: list[str] = [Symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")]


class AutoLink:
    """One autoLink entity. `key`: the address within the mesh; `link`: while there is one; `retry_at`: inf for not."""

    def __init__(self, attrs: Mapping[str, Any], changed: Callable[[AutoLink, str, str], object]) -> None:
        """`changed(self, before, after)` is told of each other `status`."""
        self.attrs = attrs
        self._changed = changed
        self.incoming: bool = attrs["direction"] == "in"
        phase = attrs.get("phase")
        self.phase: int = int(self.incoming) if phase is None else int(phase)
        self.address = bare_address(attrs["address"])
        self.fallback = bool(attrs.get("fallback"))
        if self.fallback and self.incoming and phase is None:
            self.phase = 0  # what comes back is for the consumers of the address
        to_fallback = self.fallback and not self.incoming
        self.key = f"{MOBILE}{FALLBACK if to_fallback else self.phase}{self.address}"
        self.place = place_of(attrs)
        self.link: RouterLink | None = None
        self.alone = False
        """Its session ended while it attached: it gets one of its own, lest it take others down with it every time."""
        self._status = INACTIVE
        self.last_error: str | None = None
        self.delay_s = 0.0
        self.forbidden_s = 0.0
        self.retry_at = math.inf
        self.active_at = math.inf
        self.quiescing_since = math.inf

    @property
    def quiescing(self) -> bool:
        """Whether it is on its way out."""
        return self.quiescing_since < math.inf

    @property
    def status(self) -> str:
        """inactive, attaching, failed or active."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        before, self._status = self._status, status
        if status != before:
            self._changed(self, before, status)

    def terms(self, router_id: str) -> Attach:
        """Our attach."""
        address = self.attrs.get("externalAddress") or self.attrs["address"]
        return Attach(
            name=f"{router_id}.{self.attrs['identity']}",
            handle=0,
            role=self.incoming,
            snd_settle_mode=2,
            rcv_settle_mode=0,
            source=Terminus("source", address=address, outcomes=OUTCOMES),
            target=Terminus("target", address=address),
        )

    def failed(self, condition: str, text: str, now: float) -> None:
        """The container refused or detached the link: try again after a while, each time a longer one."""
        if now - self.active_at >= STABLE_S:
            self.delay_s = self.forbidden_s = 0.0
        self.last_error, self.active_at = text, math.inf
        self.status = FAILED
        if condition in (NOT_ALLOWED, UNAUTHORIZED_ACCESS):
            self.forbidden_s = min(self.forbidden_s * 2 or FIRST_FORBIDDEN_S, LAST_FORBIDDEN_S)
            self.retry_at = now + self.forbidden_s
        else:
            self.delay_s = min(self.delay_s * 2 or FIRST_RETRY_S, LAST_RETRY_S)
            self.retry_at = now + self.delay_s

    def idle(self) -> None:
        """The container is not connected."""
        self.status = INACTIVE
        self.delay_s = self.forbidden_s = 0.0
        self.retry_at = self.active_at = math.inf


class AutoLinks:
    """All autolinks of a router, by the identities of their entities.

    `quiesced` is called with the identity of one that was quiesced and has come to rest: it is to be removed.
    """

    def __init__(
        self,
        context: Context,
        addresses: AddressTable,
        containers: Containers,
        links: LinkRegistry,
        endpoints: EndpointLinks,
    ) -> None:
        self._context = context
        self._addresses = addresses
        self._containers = containers
        self._links = links
        self._endpoints = endpoints
        self._all: dict[str, AutoLink] = {}
        self._by_place: dict[Place, dict[str, AutoLink]] = {}
        self._by_link: dict[int, AutoLink] = {}
        self._failed: dict[str, AutoLink] = {}
        self._quiescing: dict[str, AutoLink] = {}
        self.quiesced: Callable[[str], None] = self.remove

    def __len__(self) -> int:
        return len(self._all)

    def find(self, identity: str) -> AutoLink | None:
        """The autolink of an entity."""
        return self._all.get(identity)

    def all(self) -> Iterable[AutoLink]:
        """All of them."""
        return list(self._all.values())

    # ---- entities
    def add(self, attrs: Mapping[str, Any]) -> None:
        """An `autoLink` entity."""
        auto = AutoLink(attrs, self._changed)
        self._context.telemetry.autolink(auto, None, auto.status)
        identity = attrs["identity"]
        self._all[identity] = auto
        if auto.place is not None:
            self._by_place.setdefault(auto.place, {})[identity] = auto
        self._attach(auto)

    def remove(self, identity: str) -> None:
        """An `autoLink` entity goes, and its link."""
        auto = self._all.pop(identity)
        self._failed.pop(identity, None)
        self._quiescing.pop(identity, None)
        if auto.place is not None:
            self._by_place[auto.place].pop(identity, None)
        if auto.link is not None:
            self._by_link.pop(auto.link.id, None)
            auto.link.detach()
        self._context.telemetry.autolink(auto, auto.status, None)

    def _changed(self, auto: AutoLink, before: str, after: str) -> None:
        self._context.telemetry.autolink(auto, before, after)

    def quiesce(self, identity: str) -> None:
        """Take no more messages, neither from the container nor for it. What is under way goes on to its end."""
        auto = self._all[identity]
        self._failed.pop(identity, None)
        self._quiescing[identity] = auto
        auto.quiescing_since = self._context.now
        if auto.status == ACTIVE and auto.link is not None:
            self._endpoints.retire(auto.link)
        auto.status = QUIESCING

    def resume(self, identity: str) -> None:
        """It is wanted again before it has gone."""
        auto = self._quiescing.pop(identity)
        auto.quiescing_since = math.inf
        link = auto.link
        if link is None or not link.retiring:
            auto.status = ATTACHING
            if link is None:
                self._attach(auto)
            return
        link.retiring = False
        if link.address is not None:
            self._endpoints.leave(link.address, link)
        self._join(auto, link)

    def quiescing_at(self, place: Place) -> bool:
        """Whether links of quiescing autolinks are attached to a container."""
        return any(auto.link is not None and auto.place == place for auto in self._quiescing.values())

    # ---- connections
    def containers_changed(self, conn: RouterConnection) -> None:
        """A container connected, or its connection is gone: then another one of the same may be there."""
        for place in places_of(conn):
            for auto in self._by_place.get(place, {}).values():
                if auto.link is None:
                    self._attach(auto)

    def _attach(self, auto: AutoLink) -> None:
        """Attach the link if its container is connected."""
        if auto.quiescing:
            return
        self._failed.pop(auto.attrs["identity"], None)
        there = self._containers.at(auto.place)
        if not there:
            auto.idle()
            return
        auto.status, auto.retry_at = ATTACHING, math.inf
        try:
            if auto.alone:
                session = self._containers.lone_session(there[0])
            else:
                session = self._containers.session(there[0], auto.incoming)
            link = self._links.open_link(session, auto.terms(self._context.router_id))
        except AmqpError as e:
            self._fail(auto, e.condition, e.description)
            return
        auto.link = link
        self._by_link[link.id] = auto

    def _fail(self, auto: AutoLink, condition: str, text: str) -> None:
        auto.failed(condition, text, self._context.now)
        self._failed[auto.attrs["identity"]] = auto
        address = auto.attrs["address"]
        self._context.log("ROUTER_CORE", "warning", f"autolink {auto.attrs['direction']} {address}: {text}")

    # ---- links
    def attached(self, link: RouterLink, answer: Attach) -> None:
        """The container answered our attach. One without the terminus is followed by a detach that says why."""
        auto = self._by_link.get(link.id)
        if auto is None or (answer.source if auto.incoming else answer.target) is None:
            return
        if auto.quiescing:
            link.retiring = True
            return
        self._join(auto, link)

    def _join(self, auto: AutoLink, link: RouterLink) -> None:
        """An attached link serves its address."""
        auto.last_error, auto.active_at = None, self._context.now
        auto.status = ACTIVE
        conn: RouterConnection = link.connection  # type: ignore[assignment]
        address = link.address = self._addresses.get(auto.key)
        if auto.incoming:
            address.producers.append(link)
            link.stored = auto.fallback
            link.strip = conn.strip_in
            link.capacity = conn.link_capacity
            link.annotations = local_annotations(self._context.router_id, auto.address, str(auto.phase))
            self._endpoints.producer_joined(link, address)
        else:
            address.consumers.append(link)
            link.strip = conn.strip_out
            self._endpoints.consumer_joined(address)

    def lost(self, link: RouterLink, error: ErrorInfo | None) -> None:
        """A link of ours is gone."""
        auto = self._by_link.pop(link.id, None)
        if auto is None:
            return
        auto.link = None
        if auto.quiescing:
            return
        if link.connection.over:
            auto.idle()
            return
        if auto.status == ATTACHING and not link.session.mapped:
            auto.alone = True
        text = "detached by the container"
        if error is not None:
            text = error.description or error.condition
        self._fail(auto, "" if error is None else error.condition, text)

    def tick(self, now: float) -> None:
        """Try again what failed a while ago; to be called several times a second."""
        for auto in [auto for auto in self._failed.values() if now >= auto.retry_at]:
            self._attach(auto)
        for identity in [identity for identity, auto in self._quiescing.items() if self._at_rest(auto)]:
            self.quiesced(identity)

    def _at_rest(self, auto: AutoLink) -> bool:
        """Whether nothing of a quiescing autolink is under way any more."""
        link = auto.link
        if link is None:
            return True
        if auto.incoming:
            self._endpoints.hand_back(link)
        owed = auto.incoming and link.credit > 0 and self._context.now - auto.quiescing_since < CREDIT_S
        return not owed and nothing_under_way(link)
