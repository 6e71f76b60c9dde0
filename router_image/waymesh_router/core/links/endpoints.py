"""Links of clients and containers: how they join and leave an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import NOT_ALLOWED, NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LIMIT_EXCEEDED
from waymesh_amqp.performatives import Terminus
from waymesh_router.core import attaching, tenants
from waymesh_router.core.addresses.keys import (
    ANNOUNCED,
    EDGE,
    MOBILE,
    OWN_MANAGEMENT,
    ROUTER,
    bare_address,
    names_management,
    of_routers,
)
from waymesh_router.core.addresses.reserved import RESERVED
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.forwarding import exclusive
from waymesh_router.core.forwarding.annotations import Annotations, local_annotations
from waymesh_router.core.forwarding.ranks import has_priorities
from waymesh_router.core.link_kinds import READ_MANAGEMENT, UNAVAILABLE, WRITE_MANAGEMENT
from waymesh_router.core.links.handing_back import HandingBack
from waymesh_router.core.memory_levels import FULL, NORMAL
from waymesh_router.core.portions import Rounds

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.attaching import Place
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.multicast import Multicast
    from waymesh_router.core.forwarding.pending import PendingDeliveries
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import Address, RouterConnection, RouterLink

GRANT_COST = 3
"""Of giving a link its credit, see `Portions`."""


class EndpointLinks:
    """Consumers and producers of addresses."""

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        pending: PendingDeliveries,
        copies: Multicast,
        links: LinkRegistry,
    ) -> None:
        self.turned_away: list[RouterConnection] = []  # connections that opened while the router drains
        self.withheld: dict[RouterLink, None] = {}  # incoming links that get no credit because memory is short
        self._memory = NORMAL
        self._context = context
        self._addresses = addresses
        self._pending = pending
        self._links = links
        self._handing_back = HandingBack(context.portions, pending, copies)
        self._served = Rounds(context.portions, "links that got no credit", self.withheld, self._serve)
        self._anonymous: Annotations = local_annotations(context.stamp, None)

    # ---- attach
    def refuse_while_draining(self, conn: RouterConnection) -> None:
        """Refuse a link that a client attaches while the router drains. Raises Refusal.

        A connection that opened after the drain began is not refused; the next tick of the drain ends it, so that the
        client reconnects at once.
        """
        if conn.id < self._context.drain_from or conn.settings.client:
            raise Refusal(NOT_ALLOWED, attaching.DRAINING)
        self.turned_away.append(conn)

    def attach_consumer(self, lk: RouterLink, attach: Attach) -> None:
        """Attach a client's receiver. Raises Refusal.

        Routing chapter "Discovered Mobile Addresses", Dispatch book 3.3.3.
        """
        conn: RouterConnection = lk.connection
        lk.strip = conn.strip_out
        source = attaching.checked_source(attach.source)
        place = attaching.place_of(source, receiver=True, edge=lk.edge)
        lk.consumer_priority = attaching.consumer_priority(attach)
        lk.exclusive = attaching.is_exclusive(attach)
        lk.concurrency = 0 if lk.edge else attaching.concurrency(attach)
        text = source.address
        if source.dynamic:
            text = attaching.temporary_address(self._context.router_id, self._context.rng, self._context.edge)
            source = Terminus(kind="source", address="amqp:/" + text, dynamic=True, capabilities=source.capabilities)
        address = self._address_for(text, place)
        if address.key.startswith((ROUTER, EDGE)) or address is self._addresses.uplink_address:
            self._addresses.drop_if_unused(address)
            raise Refusal(NOT_ALLOWED, f"{text} is an address of another router")
        if lk.exclusive and (address.groups is not None or not exclusive.is_possible(address)):
            self._addresses.drop_if_unused(address)
            raise Refusal(PRECONDITION_FAILED, attaching.NOT_EXCLUSIVE)
        lk.address = address
        address.consumers.append(lk)
        address.asking += lk.exclusive
        address.preferred += lk.consumer_priority != 0
        lk.accept(attach, tenants.as_written(conn.tenant, attaching.applied(source)), attach.target)
        self.consumer_joined(address)

    def attach_producer(self, lk: RouterLink, attach: Attach) -> None:
        """Attach a client's sender: to an address, or to the address of each message. Raises Refusal.

        Routing chapter "Message Routing Flow Control".
        """
        conn: RouterConnection = lk.connection
        lk.strip = conn.strip_in
        target = attaching.checked_target(attach.target)
        if self._memory != NORMAL and not attaching.for_management(attach):
            lk.capacity = 0
            self.withheld[lk] = None
        else:
            lk.capacity = conn.link_capacity
        place = attaching.place_of(target, receiver=False, edge=lk.edge)
        text = target.address
        if target.dynamic:
            text = attaching.created_address(self._context.rng)
            if conn.tenant:
                text = f"{conn.tenant}/{text}"
            target = Terminus(kind="target", address=text, dynamic=True, capabilities=target.capabilities)
        in_group = conn.access is not None and conn.access.in_group()
        if text is None or not bare_address(text):
            lk.anonymous = True
            lk.of_tenant = bool(conn.tenant)
            lk.checks_management = in_group or conn.management != WRITE_MANAGEMENT
            lk.accept(attach, attach.source, target)
            lk.annotations = self._anonymous
            lk.grant()
            return
        # This router's agent checks and re-encodes requests to other routers if the peer may only read, or may be
        # restricted to that by the next change of its user group.
        checked = (in_group or conn.management == READ_MANAGEMENT) and names_management(text)
        address = self._address_for(OWN_MANAGEMENT if checked else text, place)
        lk.stored = place.fallback and not lk.edge
        phase = address.key[1] if address.key.startswith(MOBILE) else "0"
        lk.annotations = local_annotations(self._context.stamp, bare_address(text), phase)
        lk.address = address
        address.producers.append(lk)
        self._links.joined(lk, address)
        lk.accept(attach, attach.source, tenants.as_written(conn.tenant, target))
        self.producer_joined(lk, address)

    def _address_for(self, text: str, place: Place) -> Address:
        """The address that a link names. Raises Refusal."""
        bare = bare_address(text)
        config = None if of_routers(bare) else self._addresses.patterns.match(bare)
        phase = place.phase(bare, config)
        key = self._addresses.key(text, phase)
        if key in RESERVED:
            raise Refusal(NOT_ALLOWED, f"{text} is an address of the router itself")
        address = self._addresses.get(key)
        if address.treatment == UNAVAILABLE:
            self._addresses.drop_if_unused(address)
            raise Refusal(NOT_FOUND, "Node not found")
        return address

    def consumer_joined(self, address: Address) -> None:
        """An attached outgoing link was added to the consumers of an address."""
        if address.consumers and address.consumers[-1].consumer_priority:  # empty if the link has ended already
            address.prioritized = True
        if address.consumers and (address.exclusive is not None or address.consumers[-1].exclusive):
            self._joins_order(address, address.consumers[-1])
        if len(address.consumers) == 1 and not address.exchange and address.key.startswith(ANNOUNCED):
            self._context.control_plane.local_added(address.key, address.treatment)
        if address.prioritized:
            self._addresses.on_priorities(address)
        self._addresses.refresh(address)

    def _joins_order(self, address: Address, lk: RouterLink) -> None:
        """A consumer joins the others of an address one of which gets all deliveries."""
        if not exclusive.update(address, self._context.router_id) and address.exclusive is not None:
            address.exclusive.join(lk)
        if address.exclusive is not None:
            address.prioritized = True

    def producer_joined(self, lk: RouterLink, address: Address) -> None:
        """An attached incoming link was added to the producers of an address."""
        if len(address.producers) == 1 and address.key.startswith(MOBILE):
            self._context.control_plane.producer_added(address)
        ready = address.direct() if lk.stored else address.reachable()
        if ready and (not self._context.drain_from or address.serves_router()):
            lk.grant()

    def refuse_for_memory(self) -> None:
        """Refuse a link that a client attaches while memory is full: links cost memory, even without credit.

        Raises Refusal.
        """
        if self._memory == FULL:
            raise Refusal(RESOURCE_LIMIT_EXCEEDED, "the router is short of memory (maxMemory)")

    def set_memory(self, level: int) -> None:
        """Set the level of memory use, see memory_levels.py: at NORMAL, all links get their credit."""
        self._memory = level
        if level == NORMAL and self.withheld:
            self._served.begin()

    def _serve(self, lk: RouterLink) -> int:
        """Memory is no longer short: give a link its credit, unless it has ended or memory is short again."""
        if self._memory != NORMAL or lk not in self.withheld:
            return 1
        del self.withheld[lk]
        conn: RouterConnection = lk.connection
        lk.capacity = conn.link_capacity
        if lk.accepting:
            lk.grant()
        return GRANT_COST

    # ---- leaving
    def retire(self, lk: RouterLink) -> None:
        """Stop messages on a link. An incoming link stays at its address until it is detached."""
        lk.retiring = True
        address = lk.address
        if not lk.is_sender:
            lk.withdraw()
            self.hand_back(lk)
        elif address is not None:
            self.leave(address, lk)
            self._addresses.refresh(address)

    def hand_back(self, lk: RouterLink) -> None:
        """Release the unsettled deliveries that arrived on a retiring link and wait for a consumer."""
        self._handing_back.begin(lk)

    def leave(self, address: Address, lk: RouterLink) -> None:
        """Remove a link from its address."""
        if not lk.is_sender:
            if self._addresses.take_out(address.producers, lk):
                self._links.left(lk, address)
                if not address.producers and address.key.startswith(MOBILE):
                    self._context.control_plane.producer_removed(address)
        elif self._addresses.take_out(address.consumers, lk):
            address.lone = None
            address.asking -= lk.exclusive
            address.preferred -= lk.consumer_priority != 0
            if address.groups is not None:
                self._pending.streams.lost_links.tell(address)
                address.groups.leave(address, lk)
                self._addresses.on_groups(address)
            if address.prioritized:
                if address.exclusive is not None:
                    address.exclusive.leave(lk)
                    exclusive.update(address, self._context.router_id)
                if lk.consumer_priority or lk.exclusive:
                    address.prioritized = has_priorities(address)
                self._addresses.on_priorities(address)
            if not (address.consumers or address.exchange) and address.key.startswith(ANNOUNCED):
                self._context.control_plane.local_removed(address.key)

    def left(self, address: Address, lk: RouterLink) -> None:
        """A link that has left its address has ended.

        Nothing changes while other links of its kind remain: thousands of links of one address can end at once.
        """
        if not (address.consumers if lk.is_sender else address.producers):
            self._addresses.refresh(address)
            return
        if lk.is_sender and address.tracked is not None:
            self._addresses.on_tracked(address)
        if lk.is_sender:
            self._pending.consumer_left(address)
