"""Between the core and the control plane: control messages as bytes, effects as changes of the core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from waymesh_amqp.errors import DecodeError
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.transfer import whole_transfer
from waymesh_amqp.types import Symbol, decode
from waymesh_router.core.addresses.keys import MOBILE, bare_address
from waymesh_router.core.control_plane_hooks import ControlPlaneHooks
from waymesh_router.core.core import Core
from waymesh_router.core.forwarding.annotations import INGRESS, TRACE
from waymesh_router.core.forwarding.sections import Sections
from waymesh_router.core.model import Node, RouterConnection
from waymesh_router.routing import effects as fx
from waymesh_router.routing.engine import RoutingEngine

if TYPE_CHECKING:
    from waymesh_router.host import Host

HELLO_ADDRESS = "amqp:/_local/qdhello"
LISTEN_S = 0.25
"""So often it is looked whether neighbours have sent anything."""
CHANGES_A_TURN = 200
"""So many changes of other routers' addresses are made at once, a millisecond of work; the rest in later turns."""
DRAIN_SURCHARGE = 1_000_000
"""Added to the costs of a draining router's links: dearer than any way round, and far from overflowing 32 bits."""


class Mesh(ControlPlaneHooks):
    """Runs the control plane of an interior router. `engine` is pure; what it wants is done here, at once."""

    def __init__(self, core: Core, engine: RoutingEngine, host: Host) -> None:
        self.core = core
        self.engine = engine
        self._host = host
        self.changes = 0
        self._sections = Sections()
        self._moved = False
        self._trees: dict[str, list[Node]] = {}
        self._aside = False
        self._later: deque[fx.MobileAdd | fx.MobileDel] = deque()
        self.deadline = engine.deadline()
        self._arrived: dict[RouterConnection, int] = {}
        self._listen_at = 0.0
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
            fx.LogEvent: lambda e: core.log(e.module, e.level, e.text),
            fx.TopologyChanged: self._topology_changed,
        }

    # ---- from the core
    def local_added(self, key: str, treatment: int) -> None:
        if not self._aside:
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
        self.run(self.engine.link_up(connection.id, connection.cost, self.core.now))

    def control_lost(self, connection: RouterConnection) -> None:
        self._arrived.pop(connection, None)
        self.run(self.engine.link_lost(connection.id, self.core.now))

    def control_message(self, connection: RouterConnection, message: bytes) -> None:
        """Take a message from a control link, or pass it on, or both, as its `to` says."""
        try:
            parts = bare_address(self._destination(message)).split("/", 3)
            topological = parts[0] == "_topo" and len(parts) == 4
            if topological and parts[2] not in ("all", self.core.router_id):
                self._forward(parts[2], message)
                return
            decoded = decode_message(message)
        except DecodeError as e:
            self.core.log("ROUTER", "warning", f"control message that cannot be read: {e.description}")
            return
        if topological:
            if parts[2] == "all":
                annotations = decoded.message_annotations or {}
                ingress = _bare_id(annotations.get(INGRESS, ""))
                trace = tuple(_bare_id(r) for r in annotations.get(TRACE, ()))
                self._flood(message, ingress, trace)
        elif parts[0] != "_local":
            self.core.log("ROUTER", "warning", f"control message to {decoded.to!r} is not understood")
            return
        opcode = (decoded.application_properties or {}).get("opcode")
        if isinstance(opcode, str) and isinstance(decoded.body, Mapping):
            self.run(self.engine.on_control(connection.id, opcode, decoded.body, self.core.now))

    def _destination(self, message: bytes) -> str:
        """properties.to, "" where there is none. Raises DecodeError.

        In a large mesh most control messages are for other routers: only this is read of them.
        """
        sections = self._sections
        transfer = whole_transfer(message, False)
        at = sections.find_to(transfer) if sections.scan(transfer) else -1
        to = decode(message, at)[0] if at >= 0 else None
        return to if isinstance(to, str) else ""

    # ---- draining
    def stand_aside(self) -> None:
        """Withdraw all addresses from the mesh and have transit go elsewhere."""
        self._aside = True
        for address in self.core.addresses.values():
            if address.consumers and address.key.startswith(MOBILE):
                self.run(self.engine.mobile_removed(address.key, self.core.now))
        for key in self.core.linkroutes.advertised():
            self.run(self.engine.mobile_removed(key, self.core.now))
        self.run(self.engine.advertise(DRAIN_SURCHARGE, self.core.now))

    def leave(self) -> None:
        """Tell the mesh that no path leads over us."""
        self.run(self.engine.advertise(None, self.core.now))

    def come_back(self) -> None:
        """Take part again as before."""
        self._aside = False
        self.run(self.engine.advertise(0, self.core.now))
        for address in self.core.addresses.values():
            if address.consumers and address.key.startswith(MOBILE):
                self.local_added(address.key, address.treatment)
        for key in self.core.linkroutes.advertised():
            self.core.linkroutes.announce(key)

    # ---- time
    def tick(self, now: float) -> float:
        """Timers of the control plane, and changes of addresses that wait; when it wants to be called again."""
        for _ in range(min(len(self._later), CHANGES_A_TURN)):
            effect = self._later.popleft()
            self._apply[type(effect)](effect)
        due = now >= self.deadline
        if due or now >= self._listen_at:
            self._listen_at = now + LISTEN_S
            self._listen(now)
        if due:
            self.run(self.engine.tick(now))
        return now if self._later else self.deadline

    def _listen(self, now: float) -> None:
        """Which neighbours have sent anything since the last look.

        Segments count, too: while TCP repeats a lost one, which takes seconds on a slow link, those behind it come in.
        """
        for conn, before in self._arrived.items():
            arrived = conn.octets_in + conn.unfinished + self._host.segments_in(conn)
            if arrived != before:
                self._arrived[conn] = arrived
                self.engine.link_heard(conn.id, now)

    # ---- effects
    def run(self, effects: list[fx.Effect]) -> None:
        many = len(effects) > CHANGES_A_TURN
        for effect in effects:
            if (many or self._later) and isinstance(effect, fx.MobileAdd | fx.MobileDel):
                self._later.append(effect)  # in their order
            else:
                self._apply[type(effect)](effect)
        if self._moved:
            # Once, with all in place: an address must not seem out of reach between a lost link and the next hop.
            self._moved = False
            self.core.remote_routers.repath()
        self.deadline = self.engine.deadline()

    def _send_hello(self, e: fx.SendHello) -> None:
        conn = self.core.connections.get(e.link_id)
        if conn is not None:
            self._send_control(conn, control_message(HELLO_ADDRESS, "HELLO", e.body, None))

    def _send_all(self, e: fx.SendAll) -> None:
        message = control_message(f"amqp:/_topo/0/all/{e.suffix}", e.opcode, e.body, self.core.router_id)
        self._flood(message, self.core.router_id, ())

    def _send_to(self, e: fx.SendTo) -> None:
        to = f"amqp:/_topo/0/{e.router_id}/{e.suffix}"
        self._forward(e.router_id, control_message(to, e.opcode, e.body, self.core.router_id))

    def _forward(self, router_id: str, message: bytes) -> None:
        node = self.core.nodes.get(router_id)
        neighbour = node.neighbour() if node is not None else None
        if neighbour is not None:
            self._send_control(neighbour.connection, message)

    def _flood(self, message: bytes, ingress: str, trace: tuple[str, ...]) -> None:
        """Send a message on, along the tree of the router where it came in. Source: inter-router.md Paths."""
        tree = self._trees.get(ingress)
        if tree is None:
            tree = self._trees[ingress] = self._tree(ingress)
        for neighbour in tree:
            if neighbour.id not in trace:
                self._send_control(neighbour.connection, message)

    def _tree(self, ingress: str) -> list[Node]:
        """The neighbours behind us on the tree of a router."""
        found: dict[str, Node] = {}
        for node in self.core.nodes.values():
            if ingress == self.core.router_id or ingress in node.valid_origins:
                neighbour = node.neighbour()
                if neighbour is not None:
                    found[neighbour.id] = neighbour
        return list(found.values())

    def _send_control(self, conn: RouterConnection, message: bytes) -> None:
        """Send a whole message, annotations included, on a control link."""
        if conn.control_out is None or not conn.control_out.attached:
            return
        self.core.own_messages.send_on(conn.control_out, self.core.mesh_links.control_address, message)
        conn.hurry = True

    def _node_up(self, e: fx.NodeUp) -> None:
        self.core.remote_routers.node_up(e.router_id)
        self._paths_change()

    def _node_down(self, e: fx.NodeDown) -> None:
        self._forget_later(e.router_id)
        self.core.remote_routers.node_down(e.router_id)
        self._paths_change()

    def _mobile_flush(self, e: fx.MobileFlush) -> None:
        self._forget_later(e.router_id)
        self.core.remote_routers.flush_consumers(e.router_id)

    def _forget_later(self, router_id: str) -> None:
        """What waits of a router that is gone, or whose addresses are all to be forgotten, counts no more."""
        if self._later:
            self._later = deque(effect for effect in self._later if effect.router_id != router_id)

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


def control_message(to: str, opcode: str, body: Mapping[str, object], ingress: str | None) -> bytes:
    """A control message as bytes; `ingress`: our id, None for one that never travels further than one hop."""
    annotations = None
    if ingress is not None:
        annotations = {TRACE: ["0/" + ingress], INGRESS: "0/" + ingress}
    return encode_message(
        Message(
            message_annotations=annotations,
            to=to,
            application_properties={"opcode": opcode},
            body={Symbol(key): value for key, value in body.items()},
            body_kind="value",
        )
    )


def _bare_id(text: object) -> str:
    return str(text).removeprefix("0/")
