"""The uplink of an edge router: the active one of its connections to interior routers, and its traffic.

The first of several connections to open is active; the others stay open without links. When the active one is lost, the
oldest of the others replaces it. Source: protocol/edge.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from waymesh_amqp.errors import CONNECTION_FORCED, AmqpError
from waymesh_router.core.addresses.keys import LINK_ROUTES, MOBILE
from waymesh_router.core.edge.messages import DOWNLINK_CAPABILITY, LookupReply
from waymesh_router.core.edge.uplink_addresses import UplinkAddresses
from waymesh_router.core.edge.uplink_heartbeat import UplinkHeartbeat
from waymesh_router.core.edge.uplink_links import UplinkLinks, source, target
from waymesh_router.core.edge.uplink_lookups import Answer, Refuse, UplinkLookups
from waymesh_router.core.edge.uplink_routes import UplinkRoutes
from waymesh_router.core.forwarding.annotations import arrived
from waymesh_router.core.link_kinds import DATA
from waymesh_router.core.model import Address, Node

if TYPE_CHECKING:
    from waymesh_amqp.performatives import Attach
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.attaching import Refusal
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.credit import CreditEvents
    from waymesh_router.core.forwarding.own_messages import OwnMessages
    from waymesh_router.core.links.registry import LinkRegistry
    from waymesh_router.core.model import RouterConnection, RouterLink

NO_ROOM = "the interior router has no room for the links of an uplink"


class Uplink:
    """Selects the active connection. As the control plane of an edge router, it gets the addresses in use here.

    `active`: the connection in use, or None.
    """

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        links: LinkRegistry,
        containers: Containers,
        messages: OwnMessages,
        credit: CreditEvents,
    ) -> None:
        self.answer: Answer = lambda link, attach, reply: None
        self.refuse: Refuse = lambda link, refusal: None
        """Called for attaches that waited in `look_up`, see UplinkLookups."""
        self.advertised: Callable[[], Iterable[str]] = tuple
        """The keys of the link routes with a connected container."""
        self._withdrawn = False
        self.active: RouterConnection | None = None
        self._open: list[RouterConnection] = []  # oldest first
        self._context = context
        self._containers = containers
        self._table = addresses
        self._links = UplinkLinks(context, links, containers)
        self._addresses = UplinkAddresses(context, addresses, self._links, credit)
        self._lookups = UplinkLookups(context, self._links, messages, self._answer, self._refuse)
        self._routes = UplinkRoutes(context, self._links, messages)
        self._up: RouterLink | None = None
        self._down: RouterLink | None = None
        self._heartbeat = UplinkHeartbeat(context, self._links, messages)

    # ---- connections
    def opened(self, conn: RouterConnection) -> None:
        """A connection to an interior router has opened."""
        self._open.append(conn)
        if self.active is None:
            self._activate(conn)

    def closed(self, conn: RouterConnection) -> None:
        """A connection is closed, with its links: the oldest of the others becomes active."""
        if conn in self._open:
            self._open.remove(conn)
        self._containers.closed(conn)
        if conn is not self.active:
            return
        self._stop()
        self._context.log("ROUTER_CORE", "info", f"[C{conn.id}] the uplink is lost")
        if self._open:
            self._activate(self._open[0])

    def _activate(self, conn: RouterConnection) -> None:
        """Attach the links of the uplink, in the same order as Dispatch."""
        self.active = conn
        node = Node("" if conn.remote is None else str(conn.remote.container_id))
        node.connection = conn
        links = self._links
        links.start(conn)
        credit = conn.link_capacity
        try:
            self._up = links.sender(self, links.session(False), source(), target())
            edge = source(self._context.router_id, DOWNLINK_CAPABILITY)
            down = target(None, DOWNLINK_CAPABILITY)
            self._down = links.receiver(self, links.session(True), edge, down, credit)
            self._addresses.start(node)
            self._addresses.add_all()
            self._routes.start()
            self._lookups.start()
            self._heartbeat.start()
        except AmqpError as e:
            self._give_up(f"{NO_ROOM}: {e.description}")
            return
        self._context.log("ROUTER_CORE", "info", f"[C{conn.id}] uplink to router {node.id}")

    def _stop(self) -> None:
        self.active = self._up = self._down = None
        self._heartbeat.stop()
        self._links.stop()
        self._routes.stop()
        self._addresses.stop()
        self._lookups.stop()

    def _give_up(self, reason: str) -> None:
        """Close the active connection because it cannot serve as uplink, so that another one becomes active."""
        if self.active is not None and not self.active.over:
            self._context.log("ROUTER_CORE", "warning", f"[C{self.active.id}] uplink: {reason}")
            self.active.close(CONNECTION_FORCED, reason)

    # ---- links
    def answered(self, link: RouterLink, answer: Attach) -> None:
        """The interior router answered an attach of the uplink."""
        self._links.attached(link, answer)

    def ended(self, link: RouterLink) -> None:
        """A link of an uplink has ended; called before its deliveries end."""
        self._links.lost(link)

    def attached(self, link: RouterLink, _answer: Attach) -> None:
        """One of the links without an address is attached."""
        if link is self._up and self._table.uplink_address is not None:
            self._addresses.use(self._table.uplink_address, link)

    def lost(self, link: RouterLink) -> None:
        """One of them has ended. The first two are required for an uplink."""
        if link is self._up and self._table.uplink_address is not None:
            self._addresses.leave(self._table.uplink_address)
        if link in (self._up, self._down):
            self._give_up("the interior router refused or ended a link that an uplink requires")

    def accept(self, link: RouterLink, attach: Attach) -> None:
        """The interior router attaches a sender without an address, for a large message."""
        link.kind = DATA
        link.streaming = link.streamed = True
        link.capacity = link.connection.link_capacity
        link.annotations = arrived(None, "0")
        link.accept(attach, attach.source, attach.target)
        link.grant()

    def look_up(self, link: RouterLink, attach: Attach) -> bool:
        """Delay a client's attach and look up a link route for it. False if it must be answered at once."""
        return self._lookups.look_up(link, attach)

    def _answer(self, link: RouterLink, attach: Attach, reply: LookupReply | None) -> None:
        self.answer(link, attach, reply)

    def _refuse(self, link: RouterLink, refusal: Refusal) -> None:
        self.refuse(link, refusal)

    # ---- from the core
    def local_added(self, key: str, treatment: int) -> None:
        if self._withdrawn:
            return
        if key.startswith(LINK_ROUTES):
            self._routes.add(key)
        elif key.startswith(MOBILE):
            self._addresses.consumer_added(key)

    def local_removed(self, key: str) -> None:
        if key.startswith(LINK_ROUTES):
            self._routes.remove(key)
        else:
            self._addresses.consumer_removed(key)

    def producer_added(self, address: Address) -> None:
        self._addresses.producer_added(address)

    def producer_removed(self, address: Address) -> None:
        self._addresses.producer_removed(address)

    def offered(self, key: str, offer: Mapping[str, object] | None) -> None:
        """Does nothing: the capabilities of containers are not announced to interior routers."""

    def offer_of(self, router_id: str, key: str) -> Mapping[str, object] | None:
        """None: other routers do not announce the capabilities of their containers to an edge router."""
        return None

    # ---- draining
    def withdraw(self) -> None:
        """Stop receiving messages and links for the local consumers and containers."""
        self._withdrawn = True
        self._addresses.withdraw_all()
        self._routes.remove_all()

    def leave(self) -> None:
        """The drain is complete: nothing to do, so that clients can still use the uplink."""

    def rejoin(self) -> None:
        """Serve consumers and containers again."""
        self._withdrawn = False
        self._addresses.rejoin()
        for key in self.advertised():
            self._routes.add(key)

    # ---- time
    def tick(self, now: float) -> None:
        """Heartbeats and time-outs; call it several times a second."""
        self._addresses.tick()
        if self._addresses.incomplete():
            self._addresses.add_all()
        try:
            self._routes.tick()
            self._lookups.tick()
            alive = self._heartbeat.tick()
        except AmqpError as e:
            self._give_up(f"{NO_ROOM}: {e.description}")
            return
        if not alive and self.active is not None and not self.active.over:
            text = "the interior router takes no heartbeats"
            self._context.log("ROUTER_CORE", "warning", f"[C{self.active.id}] uplink: {text}")
            self.active.eof(text)
