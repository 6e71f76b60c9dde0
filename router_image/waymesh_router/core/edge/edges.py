"""The edge routers of an interior router: their links for other purposes than addresses, and the messages to them.

An edge router has one connection to this router for all messages of its clients. Messages to addresses that both
routers know use one link per address, all others a pair of links. The link of the pair toward the edge router is the
consumer of the address `_edge/<id>` here. Source: protocol/edge.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import NOT_ALLOWED, DecodeError
from waymesh_amqp.limits import UNLIMITED_LINKS
from waymesh_router.core.addresses.keys import EDGE, MOBILE, bare_address, of_routers
from waymesh_router.core.attaching import Refusal
from waymesh_router.core.edge import messages
from waymesh_router.core.edge.messages import DOWNLINK_CAPABILITY, HEARTBEAT_ADDRESS, LOOKUP_ADDRESS, TRACKING_ADDRESS
from waymesh_router.core.hang_up import hang_up
from waymesh_router.core.link_kinds import CLOSEST
from waymesh_router.core.model import Address
from waymesh_router.core.portions import RoundsOfEach

if TYPE_CHECKING:
    from collections.abc import Callable

    from waymesh_amqp.performatives import Attach, Open, Terminus
    from waymesh_router.core.addresses.table import AddressTable
    from waymesh_router.core.containers.registry import Containers
    from waymesh_router.core.core_context import CoreContext
    from waymesh_router.core.forwarding.own_messages import OwnMessages
    from waymesh_router.core.link_routing.routes import LinkRoutes
    from waymesh_router.core.links.endpoints import EndpointLinks
    from waymesh_router.core.model import RouterConnection, RouterLink

EDGE_ROLE = "edge"
ANNOTATIONS_PROPERTY = "qd.annotations-version"
"""Property that only routers have in their open."""
SERVICES = frozenset((TRACKING_ADDRESS, LOOKUP_ADDRESS, HEARTBEAT_ADDRESS))
CREDIT = {LOOKUP_ADDRESS: 32, HEARTBEAT_ADDRESS: 2}
TELL_COST = 10
"""Cost of a sender whose edge router is told whether there are consumers, in the portion of a turn."""
MAX_WAITING_TRACKING = 20_000
"""Maximum number of tracking messages that wait for an edge router's credit; above it, the edge router is lost."""
CHECK_S = messages.HEARTBEAT_INTERVAL_S


class Edge:
    """An edge router, by its connection."""

    __slots__ = ("downlink", "heard_at", "id", "tracking", "uplink")

    def __init__(self, edge_id: str) -> None:
        self.id = edge_id
        self.downlink: RouterLink | None = None  # link for messages to addresses without their own link
        self.uplink: RouterLink | None = None  # link for its messages to such addresses; others like it are for streams
        self.tracking: RouterLink | None = None  # link for messages about which addresses have consumers elsewhere
        self.heard_at: float | None = None  # time of its last heartbeat, in seconds; None: it has sent none


class Edges:
    """Serves the links of edge routers other than those of addresses, and tells edge routers of consumers elsewhere."""

    def __init__(
        self,
        context: CoreContext,
        addresses: AddressTable,
        endpoint_links: EndpointLinks,
        containers: Containers,
        link_routes: LinkRoutes,
        own_messages: OwnMessages,
    ) -> None:
        self.connections: dict[int, RouterConnection] = {}  # of edge routers, by id
        self.without_group: set[int] = set()  # those of them to which no user group of the policy applies
        self._context = context
        self._addresses = addresses
        self._endpoint_links = endpoint_links
        self._containers = containers
        self._link_routes = link_routes
        self._own_messages = own_messages
        self._tracking = _service(TRACKING_ADDRESS, None)
        self._services = {
            LOOKUP_ADDRESS: _service(LOOKUP_ADDRESS, self._on_lookup),
            HEARTBEAT_ADDRESS: _service(HEARTBEAT_ADDRESS, self._on_heartbeat),
        }
        self._check_at = 0.0
        addresses.on_tracked = self._tell_all
        self._senders = RoundsOfEach(context.portions, "edge routers' senders", _tracked, self._tell_next)
        self._links = RoundsOfEach(context.portions, "links of edge routers", _links_of, self._tell_next_again)

    # ---- connections
    def recognize(self, conn: RouterConnection, performative: Open) -> None:
        """A peer's open has arrived: detect edge routers. A client at a listener with role edge counts as a client."""
        if conn.role != EDGE_ROLE or conn.uplink:
            return
        properties = performative.properties
        if not (isinstance(properties, dict) and ANNOTATIONS_PROPERTY in properties and performative.container_id):
            conn.role = "normal"
            return
        conn.edge_router = Edge(performative.container_id)
        conn.strip_in = conn.strip_out = False
        conn.settings.max_links = UNLIMITED_LINKS

    def opened(self, conn: RouterConnection) -> None:
        """The open is answered: an edge router may create link routes that lead to it."""
        if conn.edge_router is not None and not conn.over:
            self.connections[conn.id] = conn
            self._containers.opened(conn)

    def closed(self, conn: RouterConnection) -> None:
        """A connection is closed, or an edge router has replaced it with a newer one."""
        self.without_group.discard(conn.id)
        if self.connections.pop(conn.id, None) is not None:
            self._containers.closed(conn)
            self._link_routes.container_closed(conn)

    def tick(self, now: float) -> None:
        """Close the connections of edge routers that stopped sending heartbeats; call it several times a second."""
        if now < self._check_at:
            return
        self._check_at = now + CHECK_S
        for conn in list(self.connections.values()):
            edge = _edge(conn)
            heard = edge.heard_at
            if heard is not None and now - heard > messages.HEARTBEAT_MAX_AGE_S and not conn.over:
                text = f"edge router {edge.id} sends no heartbeats"
                self._context.log("ROUTER", "warning", f"[C{conn.id}] {text}")
                conn.eof(text)

    # ---- links
    def take(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> bool:
        """Serve an attach if it is for a link between routers. Raises Refusal."""
        terminus = attach.remote_terminus
        text = None if terminus is None else terminus.address
        if isinstance(text, str) and text in SERVICES:  # a client may send any value, also one that has no hash
            if conn.edge_router is None or attach.role != (text == TRACKING_ADDRESS):
                raise Refusal(NOT_ALLOWED, f"{text} is for edge routers only")
            self._serve(conn, lk, attach, str(text))
            return True
        if conn.edge_router is not None and attach.role and DOWNLINK_CAPABILITY in _capabilities(attach.source):
            self._take_downlink(conn, lk, attach)
            return True
        return False

    def _serve(self, conn: RouterConnection, lk: RouterLink, attach: Attach, text: str) -> None:
        lk.strip = False
        if text == TRACKING_ADDRESS:
            _edge(conn).tracking = lk
            lk.accept(attach, attach.source, attach.target)
            self._tell_again(conn)
            return
        lk.address = self._services[text]
        lk.capacity = CREDIT[text]
        lk.accept(attach, attach.source, attach.target)
        lk.grant()

    def _take_downlink(self, conn: RouterConnection, lk: RouterLink, attach: Attach) -> None:
        """The edge router attaches the link for its messages: this is its active connection."""
        edge = _edge(conn)
        if attach.source is None or attach.source.address != edge.id:
            raise Refusal(NOT_ALLOWED, f"the source of this link must have the address {edge.id}")
        known = self._addresses.by_key.get(EDGE + edge.id)
        for before in list(known.consumers) if known is not None else ():
            self._replace(before, conn)
        address = self._addresses.get(EDGE + edge.id)
        lk.strip = False
        lk.address = address
        edge.downlink = lk
        address.consumers.append(lk)
        lk.accept(attach, attach.source, attach.target)
        self._endpoint_links.consumer_joined(address)
        if lk.attached:
            self._context.log("ROUTER", "info", f"[C{conn.id}] edge router {edge.id} is connected")

    def _replace(self, before: RouterLink, conn: RouterConnection) -> None:
        """An edge router has a newer connection: stop using the older one, which may have failed without a close. The
        user must be the same. Raises Refusal."""
        older: RouterConnection = before.connection
        if older is conn:
            raise Refusal(NOT_ALLOWED, "the edge router has a link for its messages already")
        if older.user != conn.user:
            raise Refusal(NOT_ALLOWED, f"another user is connected as edge router {_edge(conn).id}")
        text = f"edge router {_edge(conn).id} has the newer connection C{conn.id}"
        self._context.log("ROUTER", "warning", f"[C{older.id}] {text}")
        self._endpoint_links.retire(before)
        self.closed(older)
        hang_up(older, text)

    def link_lost(self, conn: RouterConnection, lk: RouterLink) -> None:
        """A link has ended; does nothing for links of other peers."""
        if conn.edge_router is None:
            return
        edge = _edge(conn)
        if lk is edge.tracking:
            edge.tracking = None
        elif lk is edge.downlink:
            edge.downlink = None
        elif lk is edge.uplink:  # else the connection would be in a cycle, and its deliveries stay for an hour
            edge.uplink = None
        elif not lk.is_sender and lk.address is not None and lk.address.tracked is not None:
            lk.address.tracked.pop(lk, None)
            if not lk.address.tracked:
                lk.address.tracked = None

    # ---- address tracking
    def producer_attached(self, lk: RouterLink) -> None:
        """A sender is attached: if it is an edge router's, tell it whether the address has consumers."""
        address = lk.address
        if lk.edge and lk.anonymous:
            edge = _edge(lk.connection)
            if edge.uplink is None or edge.uplink.over:
                edge.uplink = lk
            else:
                lk.streaming = lk.streamed = True
        if lk.edge and address is not None:
            lk.strip = lk.permit is not None  # policy allowed only this address: annotations could name another one
        if not lk.edge or address is None or not address.key.startswith(MOBILE) or address.serves_router():
            return
        if address.tracked is None:
            address.tracked = {}
        address.tracked[lk] = None
        self._tell(address, lk)

    def _tell_again(self, conn: RouterConnection) -> None:
        """An edge router has a new link for tracking messages: send the state of all its addresses again."""
        self._links.begin(conn)

    def _tell_next_again(self, _conn: RouterConnection, left: list[RouterLink | None]) -> int:
        """A step of `_tell_again`; returns its cost."""
        lk = left.pop()
        if lk is None or lk.over or lk.address is None or lk not in (lk.address.tracked or ()):
            return 1
        lk.known_elsewhere = False
        self._tell(lk.address, lk)
        return TELL_COST

    def _tell_all(self, address: Address) -> None:
        """The consumers of an address have changed: tell all edge routers with producers."""
        self._senders.begin(address)

    def _tell_next(self, address: Address, left: list[RouterLink]) -> int:
        """A step of `_tell_all`; returns its cost."""
        lk = left.pop()
        if lk.over or lk not in (address.tracked or ()):
            return 1
        self._tell(address, lk)
        return TELL_COST

    def _tell(self, address: Address, lk: RouterLink) -> None:
        """Tell an edge router whether an address has consumers elsewhere, unless it knows already."""
        conn: RouterConnection = lk.connection
        tracking = _edge(conn).tracking
        reachable = _has_consumer_elsewhere(address, conn)
        if tracking is None or not tracking.usable() or lk.known_elsewhere == reachable or conn.over:
            return
        if tracking.undelivered() >= MAX_WAITING_TRACKING:
            conn.eof("the edge router takes no address tracking messages")
            return
        lk.known_elsewhere = reachable
        message = messages.encode_tracking(address.key, reachable, self._context.router_id)
        self._own_messages.send_on(tracking, self._tracking, message)

    # ---- services
    def _on_lookup(self, message: bytes, lk: RouterLink) -> None:
        """An edge router asks whether a link of one of its clients is routed."""
        try:
            request = messages.decode_lookup(message)
        except DecodeError as error:
            conn: RouterConnection = lk.connection
            self._context.log("ROUTER", "warning", f"[C{conn.id}] {error.description}")
            return
        text = bare_address(request.address)
        keys = None if of_routers(text) else self._addresses.link_routes.match(text, not request.sender)
        status = messages.NOT_FOUND if keys is None else messages.OK
        reachable = any(self._leads_elsewhere(key, lk) for key in keys or ())
        reply = messages.LookupReply(request.correlation_id, status, keys is not None, reachable)
        self._own_messages.send(request.reply_to, messages.encode_lookup_reply(request.reply_to, reply, None))

    def _leads_elsewhere(self, key: str, lk: RouterLink) -> bool:
        """Whether a link route has a container that is not behind the edge router of the link."""
        if any(conn is not lk.connection and not conn.over for _, conn in self._link_routes.serving(key)):
            return True
        address = self._addresses.by_key.get(key)
        return address is not None and address.directed()

    def _on_heartbeat(self, message: bytes, lk: RouterLink) -> None:
        try:
            messages.decode_heartbeat(message)
        except DecodeError:
            return
        conn: RouterConnection = lk.connection
        _edge(conn).heard_at = self._context.now


def _tracked(address: Address) -> list[RouterLink]:
    """The senders of edge routers at an address."""
    return list(address.tracked or ())


def _links_of(conn: RouterConnection) -> list[RouterLink | None]:
    """The places for links in all sessions of a connection."""
    found: list[Any] = []
    for session in conn.sessions.values():
        found += session.links
    return found


def _has_consumer_elsewhere(address: Address, conn: RouterConnection) -> bool:
    """Whether a message to the address can be delivered elsewhere than at the edge router of a connection."""
    if address.exchange or address.directed():
        return True
    return any(consumer.connection is not conn for consumer in address.consumers)


def _edge(conn: RouterConnection) -> Edge:
    """The edge router at the other end of a connection, which `Edges.recognize` has found."""
    assert conn.edge_router is not None
    return conn.edge_router


def _service(text: str, subscriber: Callable[[bytes, RouterLink], None] | None) -> Address:
    """The address of a service: not in the table, as only edge routers can use it."""
    address = Address(f"{MOBILE}0{text}", CLOSEST)
    address.subscriber = subscriber
    return address


def _capabilities(terminus: Terminus | None) -> set[str]:
    return set() if terminus is None else {str(capability) for capability in terminus.capabilities or ()}
