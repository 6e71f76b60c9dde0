"""The core of a router: it builds the parts, and dispatches the engine's events by the kind of link. No I/O.

How a message passes through the parts is described in forwarding/forwarder.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waymesh_amqp.errors import NOT_ALLOWED, NOT_IMPLEMENTED
from waymesh_amqp.handler import Handler
from waymesh_amqp.states import ATTACHED
from waymesh_router.core import attaching, tenants
from waymesh_router.core.addresses.remote_routers import RemoteRouters
from waymesh_router.core.addresses.table import AddressTable
from waymesh_router.core.attaching import Refusal, Rng
from waymesh_router.core.containers.autolinks import AutoLinks
from waymesh_router.core.containers.registry import ROUTE_CONTAINER, Containers
from waymesh_router.core.core_context import CoreContext
from waymesh_router.core.counters import Counters
from waymesh_router.core.delivery_sampling import DeliverySampling
from waymesh_router.core.edge.edges import Edges
from waymesh_router.core.edge.uplink import Uplink
from waymesh_router.core.exchanges.exchanges import Exchanges
from waymesh_router.core.forwarding.buffer_budget import BufferBudget
from waymesh_router.core.forwarding.choice import ConsumerChoice
from waymesh_router.core.forwarding.credit import CreditEvents
from waymesh_router.core.forwarding.demand import Demand
from waymesh_router.core.forwarding.expiry import Expiry
from waymesh_router.core.forwarding.forwarder import Forwarder
from waymesh_router.core.forwarding.gathering import Gathering
from waymesh_router.core.forwarding.message_address import MessageAddress
from waymesh_router.core.forwarding.multicast import Multicast
from waymesh_router.core.forwarding.opened_windows import OpenedWindows
from waymesh_router.core.forwarding.outflow import Outflow
from waymesh_router.core.forwarding.own_messages import OwnMessages
from waymesh_router.core.forwarding.pacing import Pacing
from waymesh_router.core.forwarding.pending import PendingDeliveries
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.forwarding.sending import QueuedSender
from waymesh_router.core.forwarding.spread import Spread
from waymesh_router.core.forwarding.stream_links import StreamLinks
from waymesh_router.core.forwarding.streams import Streams
from waymesh_router.core.link_kinds import ENDPOINT, NO_MANAGEMENT, ROUTED, WRITE_MANAGEMENT
from waymesh_router.core.link_routing.attach import NO_ROUTE, NO_ROUTE_TEXT, RoutedAttaches
from waymesh_router.core.link_routing.held import HeldAttaches
from waymesh_router.core.link_routing.relays import Relays
from waymesh_router.core.link_routing.routes import LinkRoutes
from waymesh_router.core.link_routing.transfers import RoutedLinks
from waymesh_router.core.links.connections import Connections
from waymesh_router.core.links.endpoints import EndpointLinks
from waymesh_router.core.links.mesh_links import INTER_ROUTER, MeshLinks
from waymesh_router.core.links.refusals import Refusals
from waymesh_router.core.links.registry import LinkRegistry
from waymesh_router.core.model import RouterConnection, RouterLink
from waymesh_router.core.settlement.interruptions import Interruptions
from waymesh_router.core.settlement.oversized import on_oversized
from waymesh_router.core.settlement.settlement import Settlement
from waymesh_router.events.event import Log

if TYPE_CHECKING:
    import cython

    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_amqp.incoming_flow import IncomingFlow
    from waymesh_amqp.link import Link
    from waymesh_amqp.performatives import Attach, ErrorInfo, Open
    from waymesh_amqp.session import Session
    from waymesh_amqp.transfer import IncomingTransfer
    from waymesh_router.core.edge.messages import LookupReply

FEW_SESSIONS = 8
"""Sessions that a connection may begin while memory is full: a normal client needs few."""


class Core(Handler):
    """The parts of one router's core. Each part is built from the parts above it and knows no others."""

    def __init__(self, router_id: str, now: float, rng: Rng, log: Log, edge: bool = False) -> None:
        Handler.__init__(self)
        self.context = CoreContext(router_id, now, rng, log, edge)
        self.counters = Counters()
        self.budget = BufferBudget(self.context.portions)
        sections = Sections()
        self.sampling = DeliverySampling(self.context, self.counters, sections)
        # deliveries
        self.spread = Spread(now, self.context.portions)
        self.settlement = Settlement(self.counters, self.sampling, self.spread)
        choice = ConsumerChoice(self.spread)
        self.expiry = Expiry(self.context, self.counters)
        self.link_registry = LinkRegistry()
        sender = QueuedSender(sections, choice, self.settlement, self.budget, self.sampling, self.expiry)
        self.streams = Streams(self.context, StreamLinks(self.context, self.link_registry), sender)
        portions = self.context.portions
        self.opened_windows = OpenedWindows(self.budget, portions)
        multicast = Multicast(choice, sender, self.settlement, self.streams, portions)
        pending = PendingDeliveries(self.context.stamp, choice, sender, self.settlement, self.streams)
        self.routed_links = RoutedLinks(self.settlement, self.budget)
        gathering, self.pacing = Gathering(pending, portions), Pacing(self.spread)
        self.credit = CreditEvents(self.routed_links, multicast, pending, gathering, portions, self.pacing)
        self.interruptions = Interruptions(self.credit, self.settlement, self.budget, self.context)
        # addresses, links, containers
        self.address_table = AddressTable(self.context, pending)
        self.remote_routers = RemoteRouters(self.context, self.address_table, pending, choice)
        self.demand = Demand(self.context, self.address_table, self.spread)
        self.endpoint_links = EndpointLinks(self.context, self.address_table, pending, multicast, self.link_registry)
        self.mesh_links = MeshLinks(self.context, self.link_registry)
        self.containers = Containers(HeldAttaches(portions, self.refuse_unanswered))
        self.autolinks = AutoLinks(
            self.context, self.address_table, self.containers, self.link_registry, self.endpoint_links, self.pacing
        )
        self.linkroutes = LinkRoutes(self.context, self.address_table, self.containers)
        self.routed_attaches = RoutedAttaches(
            self.context, self.address_table, self.link_registry, self.linkroutes, self.interruptions, self.containers
        )
        self.relays = Relays(
            self.context, self.address_table, pending, self.link_registry, self.containers, self.routed_attaches
        )
        self.refusals = Refusals(self.context)
        self.own_messages = OwnMessages(router_id, self.address_table, sender, multicast, pending, self.settlement)
        self.uplink = self.new_uplink() if edge else None
        self.edges = Edges(
            self.context, self.address_table, self.endpoint_links, self.containers, self.linkroutes, self.own_messages
        )
        self.connection_table = Connections(
            self.context, self.containers, self.autolinks, self.linkroutes, self.mesh_links, self.refusals
        )
        self.connection_table.uplink = self.uplink
        # frames
        multicast.uplink_address = self.address_table.uplink_address
        message_address = MessageAddress(router_id, self.context.stamp, sections, self.address_table, self.relays)
        self.exchanges = Exchanges(self.context, self.address_table, self.own_messages)
        outflow = Outflow(sender, self.own_messages, self.interruptions)
        self.forwarder = Forwarder(message_address, choice, multicast, pending, self.own_messages, outflow)
        # read by management, telemetry and the control plane
        self.router_id = router_id
        self.log = log
        self.started_at = now
        self.addresses = self.address_table.by_key
        self.nodes = self.address_table.nodes
        self.links = self.link_registry.by_id
        self.connections = self.connection_table.by_id
        self.closing = self.connection_table.closing
        self.denied = self.refusals.denied

    def new_uplink(self) -> Uplink:
        """The part of an edge router that communicates with its interior router."""
        uplink = Uplink(
            self.context, self.address_table, self.link_registry, self.containers, self.own_messages, self.credit
        )
        uplink.answer, uplink.refuse = self.answer_looked_up, self.refuse_unanswered
        uplink.advertised = self.linkroutes.advertised
        self.context.control_plane = uplink  # type: ignore[assignment]  # without the calls for control links
        return uplink

    @property
    def now(self) -> float:
        """The time of this turn in seconds."""
        return self.context.now

    @now.setter
    def now(self, now: float) -> None:
        self.context.now = self.spread.now = self.expiry.now = now

    # ---- connections
    def on_open(self, connection: Connection, performative: Open) -> None:
        conn: RouterConnection = connection  # type: ignore[assignment]
        self.edges.recognize(conn, performative)
        self.streams.opened(conn, performative)
        self.connection_table.opened(conn, performative)
        self.edges.opened(conn)

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        conn: RouterConnection = connection  # type: ignore[assignment]
        self.opened_windows.closed(conn)
        self.connection_table.closed(conn, error)
        self.edges.closed(conn)

    def on_begin(self, session: Session) -> None:
        """End a client's connection that begins session after session while memory is full. Raises Refusal."""
        conn: RouterConnection = session.connection  # type: ignore[assignment]
        self.containers.held.session_begun(session)
        if len(conn.sessions) > FEW_SESSIONS and conn.role != INTER_ROUTER and not conn.settings.client:
            self.endpoint_links.refuse_for_memory()

    def session_window(self, session: Session) -> cython.uint:
        return self.opened_windows.next_window(session)

    def on_writable(self, connection: Connection) -> None:
        self.credit.on_writable(connection)

    # ---- links
    def new_link(self, session: Session) -> RouterLink:
        return self.link_registry.new_link(session)

    def on_attach(self, link: Link, performative: Attach) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection
        if lk.state == ATTACHED:
            self.attach_answered(conn, lk, performative)
        else:
            try:
                self.answer_attach(conn, lk, performative)
            except Refusal as e:
                self.refuse(lk, e)
                return
        self.report_attached(lk)

    def refuse(self, lk: RouterLink, e: Refusal) -> None:
        """Answer the peer's attach with a refusal."""
        lk.refuse(e.condition, e.description)
        self.refusals.link(lk, e)

    def report_attached(self, lk: RouterLink) -> None:
        """Report an attached link and its partner to telemetry."""
        for one in (lk, lk.partner):
            if one is not None and one.attached:
                self.context.telemetry.link_attached(one)

    def attach_answered(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> None:
        """The peer answered an attach of this router."""
        if lk.streaming:
            self.streams.links.answered(lk, attach)
        if self.uplink is not None and conn.uplink and lk.kind != ROUTED:
            self.uplink.answered(lk, attach)
        elif lk.kind == ENDPOINT:
            self.autolinks.attached(lk, attach)
            self.relays.attached(lk, attach)
        elif lk.kind == ROUTED:
            self.routed_attaches.answered(lk, attach)
        elif attach.source is not None and attach.target is not None:
            self.mesh_links.attached(conn, lk)

    def answer_attach(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> None:
        """Answer an attach of the peer. Raises Refusal."""
        kind = attaching.link_kind(attach)
        if self.uplink is not None and conn.uplink and kind == ENDPOINT:
            self.answer_interior(self.uplink, conn, lk, attach)
            return
        between_routers = conn.role == INTER_ROUTER
        if conn.management != WRITE_MANAGEMENT and not between_routers:
            attaching.check_management(attach, conn.management)
        if conn.edge_router is not None or conn.role == ROUTE_CONTAINER:
            attaching.check_reserved_source(attach, conn.access)
        if conn.access is not None:
            conn.access.attach(lk, attach)
        if conn.multi_tenant:
            attach = tenants.attach_in_space(conn.tenant, attach, conn.management != NO_MANAGEMENT)
        if kind == ENDPOINT and between_routers and conn.control_in is not None:
            self.routed_attaches.pass_on(conn, lk, attach)
            return
        if (kind == ENDPOINT) == between_routers:
            place = "an inter-router connection" if kind == ENDPOINT else f"a connection of role {conn.role}"
            raise Refusal(NOT_ALLOWED, f"this link is not allowed on {place}")
        if not between_routers and not attaching.for_management(attach):
            self.endpoint_links.refuse_for_memory()
        if kind != ENDPOINT:
            self.mesh_links.accept(conn, lk, attach, kind)
        elif self.edges.take(conn, lk, attach):
            return
        elif self.context.drain_from and not attaching.for_management(attach):
            self.endpoint_links.refuse_while_draining(conn)
        elif self.routed_attaches.ask(self.uplink, lk, attach) or self.routed_attaches.pass_on(conn, lk, attach):
            return
        elif attach.unsettled:
            raise Refusal(NOT_IMPLEMENTED, "resuming links is only supported on link-routed addresses")  # Spec: 2.6.13
        elif self.uplink is None or not self.uplink.look_up(lk, attach):
            self.attach_endpoint(lk, attach)

    def attach_endpoint(self, lk: RouterLink, attach: Attach) -> None:
        """Connect a client's link with its address. Raises Refusal."""
        if lk.is_sender:
            self.endpoint_links.attach_consumer(lk, attach)
        else:
            self.endpoint_links.attach_producer(lk, attach)
            self.edges.producer_attached(lk)

    def answer_interior(self, uplink: Uplink, conn: RouterConnection, lk: RouterLink, attach: Attach) -> None:
        """At an edge router: the interior router attaches a routed link, or one for a large message. Raises Refusal."""
        if not lk.is_sender and attach.target is not None and not attach.target.address:
            uplink.accept(lk, attach)
        elif not self.routed_attaches.pass_on(conn, lk, attach):
            raise Refusal(NO_ROUTE, NO_ROUTE_TEXT)

    def answer_looked_up(self, lk: RouterLink, attach: Attach, reply: LookupReply | None) -> None:
        """At an edge router: answer a client's attach that waited for a lookup. `reply`: None without a link route."""
        if not lk.unanswered():
            return
        try:
            if reply is None:
                if not self.routed_attaches.pass_on(lk.connection, lk, attach):
                    self.attach_endpoint(lk, attach)
            elif reply.reachable and self.uplink is not None and self.uplink.active is not None:
                self.routed_attaches.forward_to_interior(lk, attach, self.uplink.active)
            else:
                raise Refusal(NO_ROUTE, NO_ROUTE_TEXT)
        except Refusal as e:
            self.refuse(lk, e)
        else:
            self.report_attached(lk)

    def refuse_unanswered(self, lk: RouterLink, refusal: Refusal) -> None:
        """Refuse an attach whose answer was delayed: by a lookup, or until the next hop told its limits."""
        if lk.unanswered():
            self.refuse(lk, refusal)

    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection
        self.links.pop(lk.id, None)
        if lk.permit is not None:
            lk.permit.ended(lk)
        self.endpoint_links.withheld.pop(lk, None)
        if lk.kind == ROUTED:
            self.routed_attaches.lost(lk, error)
            self.interruptions.report_end(lk)
            return
        self.mesh_links.lost(conn, lk)
        if self.uplink is not None and conn.uplink:
            self.uplink.ended(lk)
        self.edges.link_lost(conn, lk)
        if not lk.is_sender:
            self.interruptions.producer_lost(lk)
        address = lk.address
        if address is not None:
            self.endpoint_links.leave(address, lk)
        if lk.is_sender:
            self.interruptions.consumer_lost(lk)
        if address is not None:
            self.endpoint_links.left(address, lk)
        self.interruptions.report_end(lk)
        self.autolinks.lost(lk, error)
        self.relays.lost(lk, error)

    # ---- transfers
    def on_transfer(self, link: Link, transfer: IncomingTransfer) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        self.forwarder.on_transfer(lk, transfer)

    def on_oversized(self, link: Link, transfer: IncomingTransfer) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        on_oversized(self.interruptions, lk, transfer)

    def on_abort(self, link: Link) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        self.interruptions.on_abort(lk)

    # ---- outcomes
    def on_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        arriving = self.settlement.on_outcome(delivery, settled, state)
        if arriving is not None:
            self.interruptions.cut_short(arriving, delivery)

    def on_sender_outcome(self, delivery: Delivery, settled: cython.bint, state: bytes) -> None:
        self.settlement.on_sender_outcome(delivery, settled, state)

    # ---- flow control
    def on_credit(self, link: Link) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        self.credit.on_credit(lk)

    def on_sender_flow(self, link: Link) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        if lk.partner is not None:
            self.routed_links.end_drain(lk.partner, lk)

    def on_flow_details(self, link: Link, flow: IncomingFlow) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        self.routed_links.on_flow_details(lk, flow)

    def on_held_window(self, session: Session) -> cython.bint:
        return self.interruptions.needs_frames(session)
