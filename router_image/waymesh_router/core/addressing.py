"""Addresses of a router, with what is configured for them, and the remote routers that have consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waymesh_router.core.addresses.keys import LINK_ROUTES, MOBILE, ROUTER, address_key
from waymesh_router.core.addresses.patterns import PatternTree, prefix_pattern
from waymesh_router.core.annotations import FALLBACK
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.linked import Linked
from waymesh_router.core.model import (
    BALANCED,
    CLOSEST,
    LINK_BALANCED,
    TREATMENTS,
    Address,
    Node,
    RouterLink,
    Target,
)
from waymesh_router.core.telemetry_hooks import TelemetryHooks


class Addressing(Linked):
    """`mesh` hears of changes; `linkroutes` of addresses of link routes, set by `Core`; `watcher` of what happens.
    `drain_from`: 0, or while the router drains the id of the first connection that came since.
    """

    def __init__(self, router_id: str) -> None:
        Linked.__init__(self, router_id)
        self.mesh = ControlPlaneHooks()
        self.nodes: dict[str, Node] = {}
        self.default_treatment = BALANCED
        self.drain_from = 0
        self.patterns: PatternTree[dict[str, Any]] = PatternTree()
        self.linkroutes: Any = None
        self.watcher = TelemetryHooks()

    # ---- addresses
    def get_address(self, key: str, hint: int | None = None) -> Address:
        """The address with this key, made if it is new. `hint`: treatment of the router that told us of it."""
        address = self.addresses.get(key)
        if address is None:
            address = Address(key, CLOSEST)
            self.addresses[key] = address
            self.configure(address, hint)
            if key.startswith(ROUTER):
                node = self.nodes.get(key[1:])
                if node is not None:
                    address.targets[node.id] = Target(node)
            elif key.startswith(LINK_ROUTES):
                address.treatment = LINK_BALANCED
                self.linkroutes.learn(key)
        return address

    def configure(self, address: Address, hint: int | None) -> None:
        """Set what the configured prefixes and patterns say of a mobile address."""
        if not address.key.startswith(MOBILE):
            return
        config = self.patterns.match(address.key[2:])
        address.config = config
        address.priority = -1
        if config is None:
            address.treatment = self.default_treatment if hint is None else hint
        else:
            address.treatment = TREATMENTS[config["distribution"]]
            if config.get("priority") is not None:
                address.priority = int(config["priority"])
        if address.key[1] != FALLBACK:
            self.set_fallback(address, bool(config is not None and config.get("enableFallback")))

    def set_fallback(self, address: Address, enabled: bool) -> None:
        """Give the address a fallback, or none. Routing chapter "Handling Undeliverable Messages for an Address"."""
        if enabled and address.fallback is None:
            address.fallback = self.get_address(MOBILE + FALLBACK + address.key[2:])
            address.fallback.primary = address
        elif not enabled and address.fallback is not None:
            self.part_fallback(address)

    def part_fallback(self, address: Address) -> None:
        """The address has no fallback any more."""
        fallback, address.fallback = address.fallback, None
        if fallback.primary is address:
            fallback.primary = None
            self.drop_if_unused(fallback)

    def add_pattern(self, attrs: dict[str, Any]) -> None:
        """An `address` entity. Raises KeyError where its pattern is taken."""
        self.patterns.add(attrs["pattern"] or prefix_pattern(attrs["prefix"]), attrs)
        self.reconfigure()

    def remove_pattern(self, attrs: dict[str, Any]) -> None:
        """An `address` entity goes."""
        self.patterns.remove(attrs["pattern"] or prefix_pattern(attrs["prefix"]))
        self.reconfigure()

    def reconfigure(self) -> None:
        """Configured addresses changed: so do the ones that are in use."""
        for address in list(self.addresses.values()):
            before = address.treatment
            self.configure(address, None)
            if address.treatment != before and address.consumers and address.key.startswith(MOBILE):
                self.mesh.local_added(address.key, address.treatment)

    def lookup(self, text: str, phase: str) -> Address | None:
        return self.addresses.get(address_key(text, self.router_id, phase))

    def subscribe(self, key: str, subscriber: Callable[[bytes, RouterLink | None], None]) -> None:
        """The router itself consumes the address."""
        address = self.get_address(key)
        address.subscriber = subscriber
        self.refresh(address)

    def refresh(self, address: Address) -> None:
        """After any change of who consumes: credit for its producers, or none; what waits goes out, or back."""
        address.nearest = None
        if address.reachable():
            for producer in address.producers:
                if producer.retiring or (producer.stored and not address.direct()):
                    producer.withdraw()
                elif not producer.accepting and (not self.drain_from or address.subscriber is not None):
                    producer.grant()
            self.drain(address)
        else:
            for producer in address.producers:
                producer.withdraw()
            if address.pending is not None:
                self.release_pending(address)
            self.drop_if_unused(address)
        if address.primary is not None:
            self.refresh(address.primary)

    def drop_if_unused(self, address: Address) -> None:
        """Forget the address if nothing refers to it."""
        key = address.key
        if address.unused() and self.addresses.get(key) is address and not self.linkroutes.keeps(key):
            del self.addresses[key]
            address.dead = True
            self.watcher.address_gone(address)
            if key.startswith(LINK_ROUTES):
                self.linkroutes.forget(key)
            if address.fallback is not None:
                self.part_fallback(address)

    # ---- remote routers
    def node_up(self, router_id: str) -> None:
        """A remote router can be reached."""
        node = Node(router_id)
        self.nodes[router_id] = node
        node.address = self.get_address(ROUTER + router_id)
        node.address.targets[router_id] = Target(node)

    def node_down(self, router_id: str) -> None:
        """A remote router cannot be reached any more."""
        if self.nodes.pop(router_id, None) is not None:
            for address in list(self.addresses.values()):
                if address.targets.pop(router_id, None) is not None:
                    self.refresh(address)

    def mobile_add(self, router_id: str, key: str, treatment: int) -> None:
        """A remote router has consumers for the address."""
        node = self.nodes.get(router_id)
        if node is None:
            return
        address = self.get_address(key, treatment)
        if router_id not in address.targets:
            address.targets[router_id] = Target(node)
            if address.pending is not None:
                self.await_credit(address)
            self.refresh(address)

    def mobile_remove(self, router_id: str, key: str) -> None:
        """A remote router has no consumers for the address any more."""
        address = self.addresses.get(key)
        if address is not None and address.targets.pop(router_id, None) is not None:
            self.refresh(address)

    def mobile_flush(self, router_id: str) -> None:
        """Forget which consumers a remote router has."""
        for address in list(self.addresses.values()):
            if not address.key.startswith(ROUTER) and address.targets.pop(router_id, None) is not None:
                self.refresh(address)

    def repath(self) -> None:
        """Next hops or costs changed: look again at each address that has remote consumers."""
        for address in list(self.addresses.values()):
            if address.targets:
                if address.pending is not None:
                    self.await_credit(address)
                self.refresh(address)
