"""Connects core and control plane: encodes control messages, applies effects to the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import NOT_ALLOWED, DecodeError
from waymesh_amqp.message import decode_message
from waymesh_amqp.transfer import whole_transfer
from waymesh_amqp.types import decode
from waymesh_router.control_messages import before_body, content_of, control_message, encode_body
from waymesh_router.core.addresses.keys import EDGE, MOBILE, bare_address
from waymesh_router.core.addresses.later_changes import CHANGES_AT_ONCE, LaterChanges
from waymesh_router.core.addresses.reserved import ReservedAddresses
from waymesh_router.core.attaching import annotations_version
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.core import Core
from waymesh_router.core.forwarding.annotations import INGRESS, TRACE
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Node, RouterConnection
from waymesh_router.core.portions import Rounds
from waymesh_router.events.event import Event, about, short
from waymesh_router.log.mesh_log import MeshLog
from waymesh_router.routing import effects as fx
from waymesh_router.routing.demand import OPCODE as DEMAND
from waymesh_router.routing.engine import RoutingEngine
from waymesh_schema.events import LogEvent

if TYPE_CHECKING:
    from waymesh_router.host import Host

HELLO_ADDRESS = "amqp:/_local/qdhello"
LISTEN_S = 0.25
"""Interval at which neighbours are checked for incoming data."""
ANNOUNCE_COST = 10
"""Cost of the announcement of an address."""
MESSAGE_WORK = 100
"""Cost of a control message in its connection's budget, in addition to a quarter of its octets."""
PROPERTIES = b"\x00\x53\x73"
DRAIN_SURCHARGE = 1_000_000
"""Added to the link costs of a draining router: more than the cost of any detour, but sums of costs fit in 32 bits."""


class Mesh(ControlPlaneHooks):
    """Runs the control plane of an interior router. `engine` is pure; this class applies its effects at once."""

    def __init__(self, core: Core, engine: RoutingEngine, host: Host) -> None:
        self.core = core
        self.engine = engine
        self._host = host
        self.reserved = ReservedAddresses(core.router_id, interior=True)
        self._lines = MeshLog(host.log, host.logs)
        self.changes = 0
        self._sections = Sections()
        self._moved = False
        self._refused: list[fx.RefuseRouter] = []
        self._trees: dict[str, list[Node]] = {}
        self._withdrawn = False
        portions, known = core.context.portions, core.addresses
        self._announcements = Rounds(portions, "announced addresses", known, self._announce)
        self._later: dict[str, LaterChanges] = {}
        self.deadline = engine.deadline()
        self._arrived: dict[RouterConnection, int] = {}
        self.listen_at = 0.0
        self._last_body: fx.Body | None = None
        self._last_encoded = b""
        self._apply: dict[type, Callable[[Any], None]] = {
            fx.SendHello: self._send_hello,
            fx.SendAll: self._send_all,
            fx.SendTo: self._send_to,
            fx.NodeUp: self._node_up,
            fx.NodeDown: self._node_down,
            fx.SetLink: self._set_link,
            fx.SetNextHop: self._set_next_hop,
            fx.SetCost: self._set_cost,
            fx.SetValidOrigins: self._set_origins,
            fx.MobileAdd: lambda e: core.remote_routers.add_consumers(e.router_id, e.key, e.treatment),
            fx.MobileDel: lambda e: core.remote_routers.remove_consumers(e.router_id, e.key),
            fx.MobileFlush: self._mobile_flush,
            fx.LinkStateChanged: lambda e: self._note_demand(e.router_id),
            fx.LogEvent: lambda e: core.log(e.module, e.level, e.text),
            fx.RefuseRouter: self._refused.append,
            fx.TopologyChanged: self._topology_changed,
        }

    # ---- from the core
    def local_added(self, key: str, treatment: int) -> None:
        if not self._withdrawn or key.startswith(EDGE):  # replies to clients of edge routers still arrive
            self.run(self.engine.mobile_added(key, treatment, self.core.now))

    def offered(self, key: str, offer: Mapping[str, object] | None) -> None:
        self.engine.mobile_offers(key, offer, self.core.now)

    def offer_of(self, router_id: str, key: str) -> Mapping[str, object] | None:
        return self.engine.offer_of(router_id, key)

    def local_removed(self, key: str) -> None:
        self.run(self.engine.mobile_removed(key, self.core.now))

    def control_up(self, connection: RouterConnection) -> None:
        if connection.control_out is not None:
            connection.express = connection.control_out.session.channel
        self._arrived[connection] = 0
        version = annotations_version(connection.remote)
        self.core.log("ROUTER", "debug", f"Remote router annotations version: {version}")
        self.run(self.engine.link_up(connection.id, connection.cost, self.core.now))

    def control_lost(self, connection: RouterConnection) -> None:
        self._arrived.pop(connection, None)
        self.run(self.engine.link_lost(connection.id, self.core.now))

    def control_message(self, connection: RouterConnection, message: bytes) -> None:
        """Handle a message from a control link, forward it, or both, depending on its `to`."""
        try:
            to = self._destination(message)
            parts = bare_address(to).split("/", 3)
            topological = parts[0] == "_topo" and len(parts) == 4
            if topological and parts[2] not in ("all", self.core.router_id):
                self._forward(parts[2], message)
                return
            opcode, body = self._content(message)
            annotations = self._annotations(message) if topological and parts[2] == "all" else None
        except DecodeError as e:
            self.core.log("ROUTER", "warning", f"invalid control message: {e.description}")
            return
        if annotations is not None:
            trace = tuple(_bare_id(r) for r in annotations.get(TRACE, ()))
            self._flood(message, _bare_id(annotations.get(INGRESS, "")), trace)
        elif not topological and parts[0] != "_local":
            self.core.log("ROUTER", "warning", f"unsupported control message to {to!r}")
            return
        self.reserved.received(to)
        connection.budget -= MESSAGE_WORK + len(message) // 4
        if isinstance(opcode, str) and isinstance(body, Mapping):
            self._lines.received(connection.id, opcode, body)
            if opcode != DEMAND:
                self.run(self.engine.on_control(connection.id, opcode, body, self.core.now))
            elif sender := self.engine.demand.sender(body):
                self.core.demand.arrived(sender, body)

    def tell(self, router_id: str, body: Mapping[str, object]) -> None:
        self.run([self.engine.demand.to(router_id, body)])

    def _destination(self, message: bytes) -> str:
        """properties.to, "" if there is none. Raises DecodeError.

        In a large mesh, most control messages are for other routers; only this property of them is decoded.
        """
        sections = self._sections
        transfer = whole_transfer(message, False)
        at = sections.find_to(transfer) if sections.scan(transfer) else -1
        to = decode(message, at)[0] if at >= 0 else None
        return to if isinstance(to, str) else ""

    def _annotations(self, message: bytes) -> Mapping[Any, Any]:
        """Message annotations of the message whose destination was read last. Raises DecodeError."""
        sections = self._sections
        return decode_message(message[sections.head : sections.rest]).message_annotations or {}

    def _content(self, message: bytes) -> tuple[object, object]:
        """Opcode and body of the message whose destination was read last. Raises DecodeError.

        The bytes before them differ at each router on the path of the message.
        """
        start = self._sections.rest
        if message[start : start + 3] == PROPERTIES:
            start = decode(message, start)[1]
        return content_of(message[start:])

    # ---- draining
    def withdraw(self) -> None:
        """Withdraw all addresses from the mesh and redirect transit traffic."""
        self._withdrawn = True
        self._announcements.begin()
        for key in self.core.linkroutes.advertised():
            self.run(self.engine.mobile_removed(key, self.core.now))
        self.run(self.engine.advertise(DRAIN_SURCHARGE, self.core.now))

    def leave(self) -> None:
        """Announce that no path uses this router."""
        self.run(self.engine.advertise(None, self.core.now))

    def rejoin(self) -> None:
        """Take part in the mesh again."""
        self._withdrawn = False
        self.run(self.engine.advertise(0, self.core.now))
        self._announcements.begin()
        for key in self.core.linkroutes.advertised():
            self.core.linkroutes.announce(key)

    def _announce(self, key: str) -> int:
        """Announce an address of this router, or withdraw it; returns the cost."""
        address = self.core.addresses.get(key)
        if address is None or not address.served_here() or not key.startswith(MOBILE):
            return 1
        if self._withdrawn:
            self.run(self.engine.mobile_removed(key, self.core.now))
        else:
            self.local_added(key, address.treatment)
        return ANNOUNCE_COST

    # ---- time
    def tick(self, now: float) -> float:
        """Timers of the control plane; returns the time of the next call."""
        due = now >= self.deadline
        if due or now >= self.listen_at:
            self.listen_at = now + LISTEN_S
            self._listen(now)
        if due:
            self.run(self.engine.tick(now))
        return self.deadline

    def _listen(self, now: float) -> None:
        """Find the neighbours that have sent anything since the last check.

        TCP segments count, too: on a slow link it takes seconds to retransmit a lost segment; until then, later
        segments arrive but cannot be read.
        """
        for conn, before in self._arrived.items():
            arrived = conn.octets_in + conn.unfinished + self._host.segments_in(conn)
            if arrived != before:
                self._arrived[conn] = arrived
                self.engine.link_heard(conn.id, now)

    # ---- effects
    def run(self, effects: list[fx.Effect]) -> None:
        if effects:
            self._lines.report(effects)
        many = len(effects) > CHANGES_AT_ONCE
        for effect in effects:
            if (many or self._later) and isinstance(effect, fx.MobileAdd | fx.MobileDel):
                self._apply_in_order(effect, many)
            else:
                self._apply[type(effect)](effect)
        if self._moved:
            # Once, after all effects: an address must not seem unreachable between a lost link and the next hop.
            self._moved = False
            self.core.remote_routers.update_paths()
        self.deadline = self.engine.deadline()
        while self._refused:  # after all effects: the loss of a connection has effects of its own
            self._refuse(self._refused.pop())

    def _apply_in_order(self, effect: fx.MobileAdd | fx.MobileDel, many: bool) -> None:
        """Apply a change of an address: later, if there are many or earlier ones of its router wait."""
        later = self._later.get(effect.router_id)
        if later is None or not later.waiting:
            if not many:
                self._apply[type(effect)](effect)
                return
            later = self._later[effect.router_id] = LaterChanges(lambda e: self._apply[type(e)](e))
        later.waiting.append(effect)
        self.core.context.portions.add(later)

    def _refuse(self, e: fx.RefuseRouter) -> None:
        conn = self.core.connections.get(e.link_id)
        if conn is None:
            return
        reason = f"another router with id {short(e.router_id)} is connected"
        text = f"[C{conn.id}] Router refused: {reason} (instance {e.known}, this one has {e.instance})"
        event = about(LogEvent.ROUTER_REFUSED, conn, id=short(e.router_id), instance=e.instance, known=e.known)
        self.core.log("ROUTER_HELLO", "critical", text, event)
        conn.close(NOT_ALLOWED, reason)

    def _send_hello(self, e: fx.SendHello) -> None:
        conn = self.core.connections.get(e.link_id)
        if conn is not None:
            self.reserved.sent(HELLO_ADDRESS)
            self._send_control(conn, control_message(HELLO_ADDRESS, "HELLO", e.body, None))

    def _send_all(self, e: fx.SendAll) -> None:
        to = f"amqp:/_topo/0/all/{e.suffix}"
        self.reserved.sent(to)
        message = control_message(to, e.opcode, e.body, self.core.router_id)
        self._flood(message, self.core.router_id, ())

    def _send_to(self, e: fx.SendTo) -> None:
        if e.body is not self._last_body:  # a link state is sent to all neighbours in sequence
            self._last_body, self._last_encoded = e.body, encode_body(e.body)
        to = f"amqp:/_topo/0/{e.router_id}/{e.suffix}"
        self._forward(e.router_id, before_body(to, e.opcode, self.core.router_id) + self._last_encoded)

    def _forward(self, router_id: str, message: bytes) -> None:
        node = self.core.nodes.get(router_id)
        neighbour = node.neighbour() if node is not None else None
        if neighbour is not None and neighbour.connection is not None:
            self._send_control(neighbour.connection, message)

    def _flood(self, message: bytes, ingress: str, trace: tuple[str, ...]) -> None:
        """Forward a message along the tree of its ingress router. Source: inter-router.md Paths."""
        tree = self._trees.get(ingress)
        if tree is None:
            tree = self._trees[ingress] = self._tree(ingress)
        for neighbour in tree:
            if neighbour.id not in trace and neighbour.connection is not None:
                self._send_control(neighbour.connection, message)

    def _tree(self, ingress: str) -> list[Node]:
        """The neighbours whose path from the ingress router leads through this router.

        These neighbours lead to all routers whose path from the ingress router leads through this router.
        """
        own = ingress == self.core.router_id
        nodes = (connection.node for connection in self._arrived)
        neighbours = [node for node in nodes if node is not None and node.neighbour() is node]
        return [node for node in neighbours if own or ingress in node.valid_origins]

    def _send_control(self, conn: RouterConnection, message: bytes) -> None:
        """Send a complete message, with its annotations, on a control link."""
        if conn.control_out is None or not conn.control_out.usable():
            return
        self.core.own_messages.send_on(conn.control_out, self.core.mesh_links.control_address, message)
        conn.express_pending = True

    def _node_up(self, e: fx.NodeUp) -> None:
        self.core.remote_routers.node_up(e.router_id)
        self._note_demand(e.router_id)
        event = Event(LogEvent.TOPOLOGY_ROUTER_ADDED, {"router": e.router_id})
        self.core.log("ROUTER_LS", "info", f"Router {e.router_id} added", event)
        self._paths_change()

    def _node_down(self, e: fx.NodeDown) -> None:
        self._forget_later(e.router_id)
        self.core.remote_routers.node_down(e.router_id)
        self.core.demand.lost()
        event = Event(LogEvent.TOPOLOGY_ROUTER_REMOVED, {"router": e.router_id})
        self.core.log("ROUTER_LS", "info", f"Router {e.router_id} removed", event)
        self._paths_change()

    def _mobile_flush(self, e: fx.MobileFlush) -> None:
        self._forget_later(e.router_id)
        self.core.remote_routers.flush_consumers(e.router_id)

    def _forget_later(self, router_id: str) -> None:
        """Drop deferred changes of a router that is gone, or whose addresses are all flushed."""
        later = self._later.pop(router_id, None)
        if later is not None:
            self.core.context.portions.remove(later)

    def _note_demand(self, router_id: str) -> None:
        node = self.core.nodes.get(router_id)
        if node is None:
            return
        before, node.demand = node.demand, self.engine.demand.told_by(router_id)
        if node.demand and not before:
            self.core.demand.met()

    def _set_link(self, e: fx.SetLink) -> None:
        node = self.core.nodes[e.router_id]
        if node.connection is not None and node.connection.node is node:
            node.connection.node = None
        node.connection = None if e.link_id is None else self.core.connections.get(e.link_id)
        if node.connection is not None:
            node.connection.node = node
        self._paths_change()

    def _set_next_hop(self, e: fx.SetNextHop) -> None:
        node = self.core.nodes[e.router_id]
        node.next_hop = None if e.next_hop is None else self.core.nodes.get(e.next_hop)
        self._paths_change()

    def _set_cost(self, e: fx.SetCost) -> None:
        self.core.nodes[e.router_id].cost = e.cost

    def _set_origins(self, e: fx.SetValidOrigins) -> None:
        self.core.nodes[e.router_id].valid_origins = e.origins
        self._paths_change()

    def _topology_changed(self, e: fx.TopologyChanged) -> None:
        self.changes = e.change_id
        self._paths_change()
        self.core.context.telemetry.topology_changed(e.change_id, e.since)
        self._host.retry()

    def _paths_change(self) -> None:
        self._moved = True
        self._trees.clear()


def _bare_id(text: object) -> str:
    return str(text).removeprefix("0/")
