"""The addresses that a router knows, with their configuration and fallback destinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from waymesh_router.core.addresses.keys import (
    EDGE,
    LINK_ROUTES,
    LOCAL,
    MANAGEMENT,
    MOBILE,
    OF_EDGES,
    ROUTER,
    UPLINK_KEY,
    address_key,
    bare_address,
    of_routers,
)
from waymesh_router.core.addresses.patterns import PatternTree, prefix_pattern
from waymesh_router.core.addresses.route_index import RouteIndex
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.forwarding import exclusive, groups
from waymesh_router.core.forwarding.annotations import FALLBACK
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.ranks import has_priorities
from waymesh_router.core.forwarding.target_lists import forget_targets
from waymesh_router.core.link_kinds import BALANCED, CLOSEST, LINK_BALANCED, TREATMENTS, UNAVAILABLE
from waymesh_router.core.model import Address, Node, RouterLink, Target
from waymesh_router.core.portions import AT_ONCE, Rounds, RoundsOfEach

PRODUCERS_AT_ONCE = 32
"""Maximum number of producers of an address whose credit changes at once."""
GRANT_COST = 2
"""Cost of the credit of one producer, with the flow that follows."""
RELEASED_A_STEP = 64
"""Number of waiting deliveries that a step releases."""
RELEASE_COST = 12


class AddressTable:
    """Addresses by key. After adding or removing a consumer or producer, callers must call `refresh`."""

    def __init__(self, context: CoreContext, pending: PendingDeliveries) -> None:
        self.by_key: dict[str, Address] = {}
        self.nodes: dict[str, Node] = {}  # reachable remote routers, by id
        self.default_treatment = BALANCED
        self.patterns: PatternTree[dict[str, Any]] = PatternTree()  # `address` entities
        self.link_routes = RouteIndex()
        self.kept: set[str] = set()  # keys in entities of this router: never removed
        self.uplink_address: Address | None = None
        """At an edge router: the address for messages with an unknown address, which the interior router delivers."""
        self.on_tracked: Callable[[Address], None] = _not_tracked
        """Called with an address to which edge routers send, after a change of its consumers."""
        self.on_priorities: Callable[[Address], None] = _not_tracked
        """Called with an address with consumer priorities, after a change of its local consumers; see Demand."""
        self.on_groups: Callable[[Address], None] = _not_tracked
        """Called with an address with message groups, after a change of its consumers or of this; see GroupOwners."""
        self.version = 0  # of the configured patterns
        self._reconfiguration = Rounds(context.portions, "configured addresses", self.by_key, self._reconfigure_key)
        self._producer_credit = RoundsOfEach(context.portions, "producers", _producers, self._update_next)
        self._releases = RoundsOfEach(context.portions, "addresses without a consumer", _only, self._release_some)
        self._context = context
        self._pending = pending
        if context.edge:
            self.kept.add(UPLINK_KEY)
            self.uplink_address = self.get(UPLINK_KEY)

    def get(self, key: str, hint: int | None = None) -> Address:
        """The address with this key, created if needed. `hint`: the treatment announced by another router."""
        address = self.by_key.get(key)
        if address is None:
            address = Address(key, CLOSEST)
            self.by_key[key] = address
            self.configure(address, hint)
            if key.startswith(ROUTER):
                node = self.nodes.get(key[1:])
                if node is not None:
                    address.targets[node.id] = Target(node, address)
            elif key.startswith(EDGE):
                address.treatment = BALANCED
            elif key.startswith(LINK_ROUTES):
                address.treatment = LINK_BALANCED
                self.link_routes.add(key)
        elif address.version != self.version:
            self._reconfigure(address)
        return address

    def configure(self, address: Address, hint: int | None) -> None:
        """Apply the configured prefixes and patterns to a mobile address."""
        address.version = self.version
        if not address.key.startswith(MOBILE):
            return
        if address.key[2:] == MANAGEMENT:
            return
        config = self.patterns.match(address.key[2:])
        address.config = config
        address.priority = -1
        address.drops_expired = config is not None and config.get("expired") == "drop"
        if config is None:
            address.treatment = self.default_treatment if hint is None else hint
        else:
            address.treatment = TREATMENTS[config["distribution"]]
            if config.get("priority") is not None:
                address.priority = int(config["priority"])
        address.concurrency = 0 if config is None else int(config.get("concurrency") or 0)
        if address.exclusive is not None or exclusive.is_configured(address):
            self._set_exclusive(address)
        if (address.groups is not None) != groups.is_configured(address):
            address.groups = groups.Groups(self._context.router_id) if address.groups is None else None
            self.on_groups(address)
        if address.key[1] != FALLBACK:
            self.set_fallback(address, bool(config is not None and config.get("enableFallback")))

    def _set_exclusive(self, address: Address) -> None:
        """Its first consumer gets all deliveries, or not any more."""
        if exclusive.update(address, self._context.router_id):
            address.prioritized = has_priorities(address)
            self.on_priorities(address)

    def set_fallback(self, address: Address, enabled: bool) -> None:
        """Add or remove the fallback. Routing chapter "Handling Undeliverable Messages for an Address"."""
        if enabled and address.fallback is None:
            address.fallback = self.get(MOBILE + FALLBACK + address.key[2:])
            address.fallback.primary = address
        elif not enabled and address.fallback is not None:
            self.remove_fallback(address)

    def remove_fallback(self, address: Address) -> None:
        """Remove the fallback of the address."""
        fallback, address.fallback = address.fallback, None
        if fallback is not None and fallback.primary is address:
            fallback.primary = None
            self.drop_if_unused(fallback)

    def add_pattern(self, attrs: dict[str, Any]) -> None:
        """Create an `address` entity. Raises KeyError if another entity has its pattern."""
        self.patterns.add(attrs["pattern"] or prefix_pattern(attrs["prefix"]), attrs)
        self.reconfigure()

    def remove_pattern(self, attrs: dict[str, Any]) -> None:
        """Delete an `address` entity."""
        self.patterns.remove(attrs["pattern"] or prefix_pattern(attrs["prefix"]))
        self.reconfigure()

    def reconfigure(self) -> None:
        """The configuration changed: apply it to all addresses in portions, and to those that get links at once."""
        self.version += 1
        self._reconfiguration.begin()

    def _reconfigure_key(self, key: str) -> int:
        """A step of `reconfigure`; returns its cost."""
        address = self.by_key.get(key)
        if address is None or address.version == self.version:
            return 1
        self._reconfigure(address)
        return 2

    def _reconfigure(self, address: Address) -> None:
        before = address.treatment
        self.configure(address, None)
        if address.treatment != before and address.served_here() and address.key.startswith(MOBILE):
            self._context.control_plane.local_added(address.key, address.treatment)

    def unavailable(self, text: str) -> bool:
        """Whether the address has distribution `unavailable`."""
        text = bare_address(text)
        if of_routers(text):
            return False
        config = self.patterns.match(text)
        treatment = self.default_treatment if config is None else TREATMENTS[config["distribution"]]
        return treatment == UNAVAILABLE

    def lookup(self, text: str, phase: str) -> Address | None:
        """The address for an address text; None if it is not known."""
        return self.by_key.get(self.key(text, phase))

    def key(self, text: str, phase: str) -> str:
        """The key of an address text at this router. An edge router reaches all other routers over its uplink."""
        router_id = self._context.router_id
        if self.uplink_address is None:
            return address_key(text, router_id, phase)
        bare = bare_address(text)
        if bare.startswith(OF_EDGES):
            own = f"{OF_EDGES}{router_id}/"
            return LOCAL + bare[len(own) :] if bare.startswith(own) else UPLINK_KEY
        key = address_key(text, router_id, phase)
        return UPLINK_KEY if key.startswith(ROUTER) else key

    def subscribe(self, key: str, subscriber: Callable[[Any, RouterLink], object]) -> None:
        """Make the router itself a consumer of the address."""
        address = self.get(key)
        address.subscriber = subscriber
        self.refresh(address)

    def refresh(self, address: Address) -> None:
        """After a change of consumers: issue or withdraw producers' credit, send or release pending deliveries."""
        forget_targets(address)
        address.lone = None
        if address.groups is not None:
            self.on_groups(address)
        if address.tracked is not None:
            self.on_tracked(address)
        if len(address.producers) > PRODUCERS_AT_ONCE:
            self._producer_credit.begin(address)
        else:
            for producer in address.producers:
                self._update_credit(address, producer)
        if address.reachable():
            self._pending.drain(address)
        else:
            if address.pending is not None:
                self._release(address)
            self.drop_if_unused(address)
        if address.primary is not None:
            self.refresh(address.primary)

    def _release(self, address: Address) -> None:
        """Release what waits at an address that has no consumer any more: thousands of deliveries in portions. One that
        gets a consumer meanwhile sends it the others. Decision 0057."""
        if len(address.pending or ()) > AT_ONCE:
            self._releases.begin(address)
        else:
            self._pending.release_all(address)

    def _release_some(self, address: Address, left: list[Address]) -> int:
        """A step of `_release`."""
        left.clear()
        if address.pending is None or address.reachable():
            return 1
        self._pending.release_some(address, RELEASED_A_STEP)
        self.drop_if_unused(address)
        if address.pending is not None:
            left.append(address)
        return RELEASE_COST

    def _update_next(self, address: Address, left: list[RouterLink]) -> int:
        """A step of `refresh` at an address with many producers: the credit of one of them follows, as the address is
        now."""
        producer = left.pop()
        if producer.address is address and not producer.over:
            self._update_credit(address, producer)
        return GRANT_COST

    def _update_credit(self, address: Address, producer: RouterLink) -> None:
        if producer.retiring or not (address.direct() if producer.stored else address.reachable()):
            producer.withdraw()
        elif not producer.accepting and (not self._context.drain_from or address.serves_router()):
            producer.grant()

    def take_out(self, links: list[RouterLink], lk: RouterLink) -> cython.bint:
        """Remove a link from the consumers or producers of its address; False if it is not among them. Compiled, this
        takes a fortieth of the time of `list.remove`, which compares objects in the general way."""
        i: cython.Py_ssize_t
        for i in range(len(links)):
            if links[i] is lk:
                del links[i]
                return True
        return False

    def drop_if_unused(self, address: Address) -> None:
        """Remove the address if nothing refers to it."""
        key = address.key
        if address.unused() and self.by_key.get(key) is address and key not in self.kept:
            del self.by_key[key]
            address.dead = True
            self._context.telemetry.address_gone(address)
            if key.startswith(LINK_ROUTES):
                self.link_routes.remove(key)
            if address.fallback is not None:
                self.remove_fallback(address)


def _producers(address: Address) -> list[RouterLink]:
    return address.producers


def _only(address: Address) -> tuple[Address]:
    """The only part: the address itself, until nothing waits there."""
    return (address,)


def _not_tracked(_address: Address) -> None:
    """Default until somebody wants to know."""
