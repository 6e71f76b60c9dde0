"""The router's core: attaches, addresses and remote routers around the hot path. No I/O; `now` comes with each turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from waymesh_amqp.errors import (
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from waymesh_amqp.performatives import Terminus
from waymesh_router.core import attaching
from waymesh_router.core.addresses.keys import MOBILE, ROUTER, address_key, bare_address
from waymesh_router.core.addressing import Addressing
from waymesh_router.core.annotations import Annotations, local_annotations
from waymesh_router.core.attaching import Refusal, Rng
from waymesh_router.core.containers.autolinks import AutoLinks
from waymesh_router.core.containers.registry import ROUTE_CONTAINER, Containers
from waymesh_router.core.link_routing.relays import Relays
from waymesh_router.core.link_routing.routes import LinkRoutes
from waymesh_router.core.model import (
    CONTROL,
    DATA,
    ENDPOINT,
    MULTICAST,
    PRIORITIES,
    ROUTED,
    UNAVAILABLE,
    Address,
    RouterConnection,
    RouterLink,
)

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.link import Link
    from waymesh_amqp.performatives import Attach, ErrorInfo, Open
    from waymesh_amqp.session import Session


MESH_FRAME_BYTES = 8192
"""Largest frame for another router: at 64 kbit/s it takes a second, and control messages pass between frames."""
DENIALS = (UNAUTHORIZED_ACCESS, RESOURCE_LIMIT_EXCEEDED)
"""What is refused for these conditions is refused by policy, not because it cannot be."""


class Core(Addressing):
    """Connections, links, addresses, remote routers of one router.

    `log(module, level, text)` writes a line. `now`: seconds, set by the owner each turn. `opened(connection)` is called
    when the peer's open is there. `denied`: what policy refused so far, by kind.
    """

    def __init__(
        self, router_id: str, now: float, rng: Rng, log: Callable[[str, str, str], None], interior: bool
    ) -> None:
        Addressing.__init__(self, router_id)
        self.now = now
        self.started_at = now
        self.rng = rng
        self.log = log
        self.interior = interior
        self.connections: dict[int, RouterConnection] = {}
        self.closing: dict[int, RouterConnection] = {}
        self.links: dict[int, RouterLink] = {}
        self.next_connection_id = 1
        self.next_link_id = 1
        self.opened: Callable[[RouterConnection], None] | None = None
        self.control_address = Address("Lqdrouter", MULTICAST)
        self.control_address.subscriber = self.on_control
        self.bare = Annotations(router_id)
        self.turned_away: list[RouterConnection] = []
        self.denied = dict.fromkeys(("connection", "link"), 0)
        self.containers = Containers()
        self.autolinks = AutoLinks(self)
        self.linkroutes = LinkRoutes(self)
        self.relays = Relays(self)

    # ---- connections
    def add_connection(self, connection: RouterConnection) -> None:
        """A transport is there."""
        connection.id = self.next_connection_id
        self.next_connection_id += 1
        self.connections[connection.id] = connection

    def on_open(self, connection: Connection, performative: Open) -> None:
        conn: RouterConnection = connection  # type: ignore[assignment]
        if self.opened is not None:
            self.opened(conn)
        if conn.over:
            return
        if not conn.settings.client:
            conn.send_open()
        self.watcher.connection_opened(conn)
        if conn.role == ROUTE_CONTAINER:
            self.containers.opened(conn)
            self.autolinks.containers_changed(conn)
            self.linkroutes.containers_changed(conn)
        if conn.role != "inter-router":
            return
        conn.cost = attaching.agreed_cost(conn.cost, performative)
        conn.peer_max = min(conn.peer_max, MESH_FRAME_BYTES)
        if conn.settings.client:
            self.open_mesh_links(conn)

    def open_mesh_links(self, conn: RouterConnection) -> None:
        """The connector's side attaches all links. Source: inter-router.md."""
        for kind in (CONTROL, *[DATA] * PRIORITIES):
            session = conn.open_session()
            for incoming in (True, False):
                self.open_mesh_link(session, kind, incoming)

    def open_mesh_link(self, session: Session, kind: int, incoming: bool) -> None:
        """Attach one control or data link."""
        name = f"qdlink.{self.router_id}.{self.next_link_id}"
        self.open_link(session, attaching.mesh_attach(name, kind, incoming)).kind = kind

    def on_close(self, connection: Connection, error: ErrorInfo | None) -> None:
        conn: RouterConnection = connection  # type: ignore[assignment]
        self.connections.pop(conn.id, None)
        if not conn.done:
            self.closing[conn.id] = conn
        if error is not None and error.condition:
            self.log("SERVER", "info", f"[C{conn.id}] closed: {error.condition}: {error.description}")
        if conn.role == "inter-router":
            self.containers.closed(conn)
            self.mesh.control_lost(conn)
        elif conn.role == ROUTE_CONTAINER and conn.remote is not None:
            self.containers.closed(conn)
            self.autolinks.containers_changed(conn)
            self.linkroutes.containers_changed(conn)
        conn.waiting.clear()
        if error is not None and conn.remote is None and not conn.settings.client:
            self.tell_refused("connection", conn.peer.host, error.condition, error.description or "", conn)
        self.watcher.connection_closed(conn, error)

    def tell_refused(self, kind: str, about: str, condition: str, description: str, conn: RouterConnection) -> None:
        """A peer may not have what it wants: a `connection` or a `link`."""
        denied = condition in DENIALS
        if denied:
            self.denied[kind] += 1
        detail = {"kind": kind, "condition": condition, "description": description, "connection": str(conn.id)}
        self.watcher.event("policy.denied" if denied else f"{kind}.refused", "warning", about, detail)

    # ---- attach
    def new_link(self, session: Session) -> RouterLink:
        link = RouterLink(session)
        link.id = self.next_link_id
        link.container = link.connection.role == ROUTE_CONTAINER  # type: ignore[attr-defined]
        self.next_link_id += 1
        self.links[link.id] = link
        return link

    def open_link(self, session: Session, attach: Attach) -> RouterLink:
        """Attach a link of ours. Raises AmqpError where the peer takes no further one."""
        link = self.new_link(session)
        try:
            session.open_link(link, attach)
        except AmqpError:
            del self.links[link.id]
            raise
        return link

    def on_attach(self, link: Link, performative: Attach) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        if lk.state == "ATTACHED":
            if lk.kind == ENDPOINT:
                self.autolinks.attached(lk, performative)
                self.relays.attached(lk, performative)
            elif lk.kind == ROUTED:
                self.linkroutes.answered(lk, performative)
            elif performative.source is not None and performative.target is not None:
                self.mesh_link_up(conn, lk)
        else:
            try:
                self.answer_attach(conn, lk, performative)
            except Refusal as e:
                lk.refuse(e.condition, e.description)
                self.tell_refused("link", lk.name, e.condition, e.description, conn)
                return
        for one in (lk, lk.partner):
            if one is not None and one.attached:
                self.watcher.link_attached(one)

    def answer_attach(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> None:
        """Accept a link that the peer attaches. Raises Refusal."""
        kind = attaching.link_kind(attach)
        between_routers = conn.role == "inter-router"
        if not conn.management and not between_routers:
            attaching.check_management(attach)
        if kind == ENDPOINT and between_routers and conn.control_in is not None:
            self.linkroutes.attach(conn, lk, attach)
            return
        if (kind == ENDPOINT) == between_routers:
            place = "an inter-router connection" if kind == ENDPOINT else f"a connection of role {conn.role}"
            raise Refusal(NOT_ALLOWED, f"this link is not allowed on {place}")
        if kind != ENDPOINT:
            lk.kind = kind
            lk.accept(attach, attach.source, attach.target)
            if lk.attached:
                self.mesh_link_up(conn, lk)
        elif self.drain_from and not attaching.for_management(attach):
            self.turn_away(conn)
        elif self.linkroutes.attach(conn, lk, attach):
            return
        elif attach.unsettled:
            raise Refusal(NOT_IMPLEMENTED, "links cannot be resumed here")  # Spec: 2.6.13
        elif lk.is_sender:
            lk.strip = conn.strip_out
            self.attach_consumer(lk, attach, attaching.checked_source(attach.source))
        else:
            lk.strip = conn.strip_in
            lk.capacity = conn.link_capacity
            self.attach_producer(lk, attach, attaching.checked_target(attach.target))

    def turn_away(self, conn: RouterConnection) -> None:
        """A client wants a link while the router drains: it is to go elsewhere. Raises Refusal.

        A new connection ends at the next tick of the drain and not at once: the client may come straight back to us.
        """
        if conn.id < self.drain_from or conn.settings.client:
            raise Refusal(NOT_ALLOWED, attaching.DRAINING)
        self.turned_away.append(conn)

    def mesh_link_up(self, conn: RouterConnection, lk: RouterLink) -> None:
        """A control or data link is attached on both sides."""
        links = conn.data_out if lk.is_sender else conn.data_in
        if lk.kind == DATA:
            lk.priority = min(len(links), PRIORITIES - 1)
            links.append(lk)
        elif lk.is_sender:
            conn.control_out = lk
        else:
            conn.control_in = lk
            lk.address = self.control_address
        if not lk.is_sender:
            lk.capacity = conn.link_capacity
            lk.grant()
        if lk.kind == CONTROL and conn.control_in is not None and conn.control_out is not None:
            self.mesh.control_up(conn)

    def attach_consumer(self, lk: RouterLink, attach: Attach, source: Terminus) -> None:
        """A client wants to receive. Routing chapter "Discovered Mobile Addresses", Dispatch book 3.3.3."""
        text = source.address
        if source.dynamic:
            text = attaching.temporary_address(self.router_id, self.rng)
            source = Terminus(kind="source", address="amqp:/" + text, dynamic=True, capabilities=source.capabilities)
        address = self.address_for(text, "egressPhase")
        if address.key.startswith(ROUTER):
            self.drop_if_unused(address)
            raise Refusal(NOT_ALLOWED, f"{text} is an address of another router")
        lk.address = address
        address.consumers.append(lk)
        lk.accept(attach, source, attach.target)
        self.consumer_joined(address)

    def consumer_joined(self, address: Address) -> None:
        """An attached outgoing link takes what is sent to an address, of which it is the last consumer."""
        if len(address.consumers) == 1 and address.key.startswith(MOBILE):
            self.mesh.local_added(address.key, address.treatment)
        self.refresh(address)

    def attach_producer(self, lk: RouterLink, attach: Attach, target: Terminus) -> None:
        """A client wants to send: to an address, or to that of each message.

        Routing chapter "Message Routing Flow Control".
        """
        text = target.address
        if text is None or not bare_address(text):
            lk.anonymous = True
            lk.no_management = not lk.connection.management  # type: ignore[attr-defined]
            lk.accept(attach, attach.source, target)
            lk.annotations = self.plain_annotations
            lk.grant()
            return
        address = self.address_for(text, "ingressPhase")
        phase = address.key[1] if address.key.startswith(MOBILE) else "0"
        lk.annotations = local_annotations(self.router_id, bare_address(text), phase)
        lk.address = address
        address.producers.append(lk)
        lk.accept(attach, attach.source, target)
        self.producer_joined(lk, address)

    def producer_joined(self, lk: RouterLink, address: Address) -> None:
        """An attached incoming link brings what is for an address."""
        ready = address.direct() if lk.stored else address.reachable()
        if ready and (not self.drain_from or address.subscriber is not None):
            lk.grant()

    def address_for(self, text: str, phase_attribute: str) -> Address:
        """The address that a link names. Raises Refusal."""
        config = self.patterns.match(bare_address(text))
        phase = attaching.phase_of(config, phase_attribute) if config is not None else "0"
        address = self.get_address(address_key(text, self.router_id, phase))
        if address.treatment == UNAVAILABLE:
            self.drop_if_unused(address)
            raise Refusal(NOT_FOUND, f"Node not found: {bare_address(text)}")
        return address

    # ---- detach
    def on_detach(self, link: Link, error: ErrorInfo | None) -> None:
        lk: RouterLink = link  # type: ignore[assignment]
        conn: RouterConnection = lk.connection  # type: ignore[assignment]
        self.links.pop(lk.id, None)
        if lk.kind == ROUTED:
            self.linkroutes.lost(lk, error)
            self.watcher.link_detached(lk)
            return
        if lk in conn.data_out:
            conn.data_out.remove(lk)
        elif lk in conn.data_in:
            conn.data_in.remove(lk)
        elif lk in (conn.control_in, conn.control_out):
            conn.control_in = conn.control_out = None
            lk.address = None
            if not conn.over:
                self.mesh.control_lost(conn)
        if not lk.is_sender:
            self.producer_lost(lk)
        address = lk.address
        if address is not None:
            self.leave(address, lk)
        if lk.is_sender:
            self.consumer_lost(lk)
        # While others like it stay nothing changes for anybody: thousands of links of one address can end at once.
        if address is not None and not (address.consumers if lk.is_sender else address.producers):
            self.refresh(address)
        self.watcher.link_detached(lk)
        self.autolinks.lost(lk, error)
        self.relays.lost(lk, error)

    def relayed(self, lk: RouterLink, text: str) -> Address | None:
        found: Address | None = self.relays.address(lk, text)
        return found

    def retire(self, lk: RouterLink) -> None:
        """A link is to take no further message. It stays on its address until it is detached if messages come on it."""
        lk.retiring = True
        address = lk.address
        if not lk.is_sender:
            lk.withdraw()
            self.hand_back(lk)
        elif address is not None:
            self.leave(address, lk)
            self.refresh(address)

    def hand_back(self, lk: RouterLink) -> None:
        """What has come on a link and waits for a consumer goes back where it came from, unless it is settled."""
        address = lk.address
        waiting = address.pending if address is not None else None
        if address is None or waiting is None:
            return
        back = [queued for queued in waiting if queued.link is lk and queued.delivery is not None]
        if back:
            kept = deque(queued for queued in waiting if queued.link is not lk or queued.delivery is None)
            address.pending = kept or None
        for queued in back:
            self.release_queued(queued)

    def leave(self, address: Address, lk: RouterLink) -> None:
        """Take a link off its address."""
        if not lk.is_sender:
            if lk in address.producers:
                address.producers.remove(lk)
        elif lk in address.consumers:
            address.consumers.remove(lk)
            if not address.consumers and address.key.startswith(MOBILE):
                self.mesh.local_removed(address.key)

    # ---- messages of the router itself
    def on_control(self, message: bytes, lk: RouterLink | None) -> None:
        """A whole message came on a control link."""
        if lk is not None:
            self.mesh.control_message(lk.connection, message)  # type: ignore[arg-type]

    def send_message(self, to: str, message: bytes) -> bool:
        """Send a message of the router itself to an address text; False where nobody has it."""
        address = self.lookup(to, "0")
        return address is not None and self.send_own(address, self.plain_annotations, message, 4)
