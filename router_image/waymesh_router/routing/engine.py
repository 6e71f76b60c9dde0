"""The control plane of a router: link and message events in, effects out.

`RoutingEngine` reacts to each event at once; only messages and computations that could come in storms are spaced, each
by a named constant with its reason. It is independent of connections, encoding and clocks.
Source of the protocol: protocol/inter-router.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from waymesh_router.routing import messages
from waymesh_router.routing.claims import Claims
from waymesh_router.routing.demand import DemandMessages
from waymesh_router.routing.effects import SUFFIX_CONTROL, SUFFIX_MOBILE, Effect, LogEvent, SendAll, SendTo
from waymesh_router.routing.flooding import LinkStateFlood
from waymesh_router.routing.messages import BadBody, Hello, Lsr, Lsu, Mar, Mau, Ra
from waymesh_router.routing.mobile import LocalMobiles, flush_node, take_update
from waymesh_router.routing.neighbours import Neighbours
from waymesh_router.routing.nodes import Node, NodeView, ReachableNodes
from waymesh_router.routing.requests import Kind, Requests
from waymesh_router.routing.settings import RoutingSettings
from waymesh_router.routing.topology import Topology

# An RA is sent at once after a change, then not again for this time: one RA covers all changes before it.
RA_SPACING_S = 0.010
# A flood follows trees that the announced change itself may have broken. Therefore a router whose own links changed
# recently repeats its RA this time after each further change of paths.
RA_REPEAT_S = 0.1
FRESH_S = 2.0
# If only one end of a link has announced a change of the link, and the other end does not within this time, the link
# state of the other end is requested.
ONE_SIDED_S = 0.02
# If a router becomes reachable again, its recorded state is used; the state is requested if no RA arrives in this time.
# The delay also applies after an RA with a lower sequence than an earlier one: usually it is late, as later ones show.
REMEMBERED_S = 0.25
# Sequences start at the clock's time in milliseconds. The instance only distinguishes restarts that are at least a
# second apart; after a faster restart, peers would take a reused sequence for a state that they already have.
SEQUENCE_PER_S = 1000


class RoutingEngine:
    """Control plane of the router `settings.router_id`; `now` is in seconds of a monotonic clock.

    Each method returns the effects of its event, to be applied in order. `deadline()` is the time of the next `tick`.
    """

    def __init__(self, settings: RoutingSettings, now: float) -> None:
        self._settings = settings
        self._neighbours = Neighbours(settings)
        first = int(now * SEQUENCE_PER_S)
        self._topology = Topology(settings, first, now)
        self.nodes: Mapping[str, NodeView] = ReachableNodes(self._topology.nodes)
        """The reachable routers, without this one; a live view."""
        self._requests = Requests()
        self._claims = Claims(settings, self._neighbours, self._topology.nodes, self._requests, now)
        self._flood = LinkStateFlood(settings)
        self._flooded_ls_seq = 0
        self._mobiles = LocalMobiles(first)
        self._ra_last = -math.inf
        self._ra_due = now + settings.ra_interval_s
        self._ra_repeat = math.inf
        self._announced_at = -math.inf  # time of this router's last change
        self._topology_changed_at = -math.inf
        self._expire_due = now + settings.hello_interval_s
        self._newer_routers: set[str] = set()  # ids of those with a later version of the protocol
        self._surcharge: int | None = 0
        self.demand = DemandMessages(settings, self._topology.nodes)

    # Events

    def link_up(self, link_id: int, cost: int, now: float) -> list[Effect]:
        """The pair of control links of an inter-router connection is attached; `link_id` is the core's id for it."""
        out: list[Effect] = []
        self._neighbours.add(link_id, max(1, cost), now)
        self._finish(now, out)
        return out

    def link_lost(self, link_id: int, now: float) -> list[Effect]:
        """The control links of a connection are gone; the neighbour is dropped at once unless it has another link."""
        out: list[Effect] = []
        self._neighbours.remove(link_id)
        self._neighbours_changed(now, out)
        self._finish(now, out)
        return out

    def link_heard(self, link_id: int, now: float) -> None:
        """Bytes arrived on the connection of a link, with any content: the neighbour is alive."""
        self._neighbours.data_received(link_id, now)

    def on_control(self, link_id: int, opcode: str, body: Mapping[str, object], now: float) -> list[Effect]:
        """A control message arrived on this link. A malformed one is logged and has no effect."""
        out: list[Effect] = []
        try:
            if not self._speaks_our_version(opcode, body, out):
                return out
            message = messages.parse(opcode, body)
        except BadBody as bad:
            out.append(LogEvent("warning", "ROUTER", f"Malformed {opcode} ignored: {bad}"))
            return out
        if isinstance(message, Hello):
            self._on_hello(link_id, message, now, out)
        elif isinstance(message, Ra | Lsu) and self._claims.is_from_rival(message, now, out):
            pass  # from another router with the id of a known one
        elif isinstance(message, Ra):
            self._on_ra(message, now, out)
        elif isinstance(message, Lsu):
            self._on_lsu(link_id, message, now, out)
        elif message.id == self._settings.router_id:
            return out
        elif isinstance(message, Lsr):
            self._on_lsr(message, now)
        elif isinstance(message, Mau):
            self._on_mau(message, now, out)
        else:
            self._on_mar(message, now)
        self._finish(now, out)
        return out

    def mobile_added(self, key: str, treatment: int, now: float) -> list[Effect]:
        """An address (key with class, as `M0orders`) became reachable here, or its treatment changed.

        The next `tick` announces it, together with all other changes until then.
        """
        if messages.travels(key):
            self._mobiles.add(key, treatment, now)
        return []

    def mobile_offers(self, key: str, offer: Mapping[str, object] | None, now: float) -> None:
        """Capabilities of the containers behind a link route's address, as a map; announced with the address."""
        self._mobiles.offer(key, offer, now)

    def offer_of(self, router_id: str, key: str) -> Mapping[str, object] | None:
        """The capabilities that another router announced for an address."""
        node = self._topology.nodes.get(router_id)
        return None if node is None else node.offers.get(key)

    def mobile_removed(self, key: str, now: float) -> list[Effect]:
        """An address is no longer reachable here; the next `tick` announces it."""
        self._mobiles.remove(key, now)
        return []

    def advertise(self, surcharge: int | None, now: float) -> list[Effect]:
        """Announce this router's links with their costs plus `surcharge`, or no links (None), so that others avoid it.

        Its own paths do not change: deliveries in transit still arrive, and replies are sent.
        """
        out: list[Effect] = []
        if surcharge != self._surcharge:
            self._surcharge = surcharge
            self._topology.ls_seq += 1
            if surcharge is None:
                out.append(SendAll("LSU", self._link_state(), SUFFIX_CONTROL))  # there may be no time left for requests
            self._announce(now)
        self._finish(now, out)
        return out

    def tick(self, now: float) -> list[Effect]:
        """Do everything that is due."""
        out: list[Effect] = []
        self._finish(now, out)
        return out

    def deadline(self) -> float:
        """The time of the next `tick`; never too late, sometimes too early. Cheap to call."""
        messages_at = min(self._neighbours.wake, self._requests.wake, self._mobiles.wake, self._ra_at())
        return min(messages_at, self._claims.wake, self._topology.wake, self._expire_due)

    # Views

    def complete(self) -> bool:
        """Whether nothing is missing from reachable routers: no link state, no address table, no path computation."""
        return self._topology.wake == math.inf and not self._requests.awaits_answers()

    @property
    def local(self) -> NodeView:
        """This router, as a node."""
        return self._topology.local(self._mobiles.seq)

    # Messages

    def _speaks_our_version(self, opcode: str, body: Mapping[str, object], out: list[Effect]) -> bool:
        if not isinstance(body, Mapping):
            raise BadBody(f"the body is not a map: {body!r}")
        router_id, version = messages.sender(body)
        if version <= messages.PROTOCOL_VERSION:
            return True
        if router_id not in self._newer_routers:
            self._newer_routers.add(router_id)
            text = f"Received {opcode} at protocol version {version} from {router_id}: ignored from now on"
            out.append(LogEvent("warning", "ROUTER", text))
        return False

    def _on_hello(self, link_id: int, hello: Hello, now: float, out: list[Effect]) -> None:
        if not self._claims.delays(link_id, hello, now, out):
            self._apply_hello(link_id, hello, now, out)

    def _apply_hello(self, link_id: int, hello: Hello, now: float, out: list[Effect]) -> None:
        if self._neighbours.hello(link_id, hello, now, out):
            self._update_record(hello, now, out)
        self._neighbours_changed(now, out)

    def _on_ra(self, ra: Ra, now: float, out: list[Effect]) -> None:
        node = self._update_record(ra, now, out)
        node.last_seen = now
        for kind, sequence, seq in (Kind.LSR, node.ls_seq, ra.ls_seq), (Kind.MAR, node.mobile_seq, ra.mobile_seq):
            sequence.announce(seq, now)
            if sequence.current:
                self._requests.answered(node.id, kind, now, complete=True)
            else:
                self._requests.want(node.id, kind, now + REMEMBERED_S if sequence.doubtful else now)

    def _on_lsu(self, link_id: int, lsu: Lsu, now: float, out: list[Effect]) -> None:
        known = self._topology.nodes.get(lsu.id)
        if known is not None and known.instance is not None and lsu.instance < known.instance:
            return  # Sent before its restart, overtaken by newer messages.
        node = self._update_record(lsu, now, out)
        node.demand = lsu.demand
        if lsu.empty_mobile_seq is not None and lsu.empty_mobile_seq > node.mobile_seq.known:
            self._on_mau(Mau(node.id, lsu.empty_mobile_seq, {}, {}, []), now, out)
        sequence = node.ls_seq
        if sequence.is_overtaken(lsu.ls_seq, now):
            return
        if lsu.ls_seq == sequence.known:
            sequence.record(lsu.ls_seq, now)
        else:
            node.last_seen = now
            self._topology_changed(now)
            self._check_one_sided_links(node, lsu.peers, now)
            self._topology.set_link_state(node, lsu.ls_seq, lsu.peers, now, out)
            self._flood.add(node.id, self._topology.peers.keys() - {self._neighbours.peer(link_id)})
            if node.mobile_seq.announced is None:
                self._requests.want(node.id, Kind.MAR, now)
        self._requests.answered(node.id, Kind.LSR, now, sequence.current)

    def _check_one_sided_links(self, node: Node, peers: Mapping[str, int], now: float) -> None:
        """Ask the other ends of links whose change this router announced, while their own link states contradict it."""
        for peer in node.peers.keys() ^ peers.keys():
            other = self._topology.nodes.get(peer)
            if other is not None and other.ls_seq.known and (node.id in other.peers) != (peer in peers):
                self._requests.want(peer, Kind.LSR, now + ONE_SIDED_S)

    def _on_lsr(self, lsr: Lsr, now: float) -> None:
        self._topology.node(lsr.id, now).version = lsr.version
        self._requests.want(lsr.id, Kind.LSU, now)

    def _on_mau(self, mau: Mau, now: float, out: list[Effect]) -> None:
        node = self._topology.nodes.get(mau.id)
        if node is None:
            return  # Its table is requested with its link state.
        sequence = node.mobile_seq
        if sequence.is_overtaken(mau.mobile_seq, now):
            return  # Two answers can arrive in reverse order: the older one would undo the newer one.
        sequence.note(mau.mobile_seq)
        if take_update(node, mau, now, out):
            self._requests.answered(node.id, Kind.MAR, now, sequence.current)
        else:
            self._requests.want(node.id, Kind.MAR, now)

    def _on_mar(self, mar: Mar, now: float) -> None:
        self._topology.node(mar.id, now)
        # A router that is up to date needs no answer. One that has no table yet gets the table even if it is empty.
        if mar.have_seq != self._mobiles.seq or mar.have_seq == 0:
            self._requests.want(mar.id, Kind.MAU, now)

    def _update_record(self, message: Hello | Ra | Lsu, now: float, out: list[Effect]) -> Node:
        """Update and return the record of the sender. A new instance is a restart: its recorded state is dropped."""
        node = self._topology.node(message.id, now)
        node.version = message.version
        if node.instance is not None and node.instance != message.instance:
            out.append(LogEvent("info", "ROUTER", f"Detected restart of router {node.id}"))
            flush_node(node, out)
            self._topology.set_link_state(node, 0, {}, now, out)
            node.forget()
            self._requests.forget(node.id)
            self._requests.want(node.id, Kind.LSR, now)
        node.instance = message.instance
        return node

    # Consequences

    def _neighbours_changed(self, now: float, out: list[Effect]) -> None:
        chosen = self._neighbours.chosen()
        before = self._topology.peers
        costs = {peer: link.cost for peer, link in chosen.items()}
        if not self._topology.set_neighbours(costs, {peer: link.id for peer, link in chosen.items()}, now, out):
            return
        self._flood.retain(costs)
        for peer in sorted(before.keys() - costs.keys()):
            out.append(LogEvent("info", "ROUTER_LS", f"Neighbour {peer} lost"))
            if self._settings.router_id in self._topology.node(peer, now).peers:
                self._requests.want(peer, Kind.LSR, now + ONE_SIDED_S)
        for peer in sorted(costs.keys() - before.keys()):
            out.append(LogEvent("info", "ROUTER_LS", f"Neighbour {peer} found"))
            self._requests.want(peer, Kind.LSR, now)
        self._announce(now)
        self._topology_changed(now)

    def _topology_changed(self, now: float) -> None:
        """Floods may get lost: use the shorter interval of RAs, and repeat this router's recent changes soon."""
        self._topology_changed_at = now
        self._ra_due = min(self._ra_due, max(now + RA_REPEAT_S, self._ra_last + self._settings.ra_interval_flux_s))
        if now - self._announced_at <= FRESH_S:
            self._ra_repeat = min(self._ra_repeat, now + RA_REPEAT_S)

    def _announce(self, now: float) -> None:
        self._announced_at = now
        self._ra_due = min(self._ra_due, max(now, self._ra_last + RA_SPACING_S))

    def _ra_at(self) -> float:
        """When an RA is due; not before pending paths are computed, which decide where it is flooded to."""
        return min(self._ra_due, self._ra_repeat) if self._topology.wake == math.inf else math.inf

    def _finish(self, now: float, out: list[Effect]) -> None:
        """Do everything that is due: each step can make a later one due, so their order matters."""
        if self._neighbours.wake <= now:
            self._neighbours.tick(now, out)
            self._neighbours_changed(now, out)
        if self._expire_due <= now:
            self._expire_due = now + self._settings.hello_interval_s
            for router_id in self._topology.expire(now, out):
                self._requests.want(router_id, Kind.LSR, now)
            self._requests.retain(self._topology.nodes)
        if self._topology.wake <= now:
            self._compute(now, out)
        if self._claims.wake < math.inf:
            for link_id, hello in self._claims.admit(now):
                self._apply_hello(link_id, hello, now, out)
        out.extend(self._flood.flush(self._topology.nodes, self._link_state))
        if self._mobiles.wake <= now:
            # Before the RA with its sequence; otherwise all routers would request it.
            out.append(SendAll("MAU", self._mobile_body(self._mobiles.flush(now)), SUFFIX_MOBILE))
            self._announce(now)
        if self._ra_at() <= now:
            self._send_ra(now, out)
        if self._requests.wake <= now:
            self._send_requests(now, out)

    def _compute(self, now: float, out: list[Effect]) -> None:
        for node in self._topology.compute(now, out):
            if node.ls_seq.known:
                self._requests.want(node.id, Kind.LSR, now + REMEMBERED_S)
                self._requests.want(node.id, Kind.MAR, now + REMEMBERED_S)
            else:
                self._requests.want(node.id, Kind.LSR, now)
            self._requests.release(node.id, now)
            if node.id in self._topology.peers:
                self._flood.add_all(self._topology.nodes, node.id)  # Ours is sent with the RA for the new link.

    def _send_ra(self, now: float, out: list[Effect]) -> None:
        settings = self._settings
        self._ra_last = now
        if self._ra_repeat <= now:
            self._ra_repeat = math.inf
        flux = now - self._topology_changed_at <= 2 * settings.ra_interval_flux_s
        self._ra_due = now + (settings.ra_interval_flux_s if flux else settings.ra_interval_s)
        if self._flooded_ls_seq != self._topology.ls_seq:
            self._flooded_ls_seq = self._topology.ls_seq
            self._flood.add(settings.router_id, self._topology.peers)
            out.extend(self._flood.flush(self._topology.nodes, self._link_state))
        body = self._body() | {
            "instance": settings.instance,
            "ls_seq": self._topology.ls_seq,
            "mobile_seq": self._mobiles.seq,
        }
        out.append(SendAll("RA", body, SUFFIX_CONTROL))

    def _send_requests(self, now: float, out: list[Effect]) -> None:
        for router_id, kind in self._requests.due(now):
            node = self._topology.nodes.get(router_id)
            if node is None or not node.up:
                self._requests.park(router_id, kind)
            else:
                out.append(self._request(node, kind))
                # Dispatch does not answer a MAR if it has no changes: do not repeat it if the RA shows this.
                repeat = kind is Kind.LSR or (kind is Kind.MAR and not node.mobile_seq.current)
                self._requests.sent(router_id, kind, now, repeat)
        self._requests.rearm()

    def _request(self, node: Node, kind: Kind) -> SendTo:
        if kind is Kind.LSR:
            return SendTo(node.id, "LSR", self._body(), SUFFIX_CONTROL)
        if kind is Kind.MAR:
            return SendTo(node.id, "MAR", self._body() | {"have_seq": node.mobile_seq.certain}, SUFFIX_MOBILE)
        if kind is Kind.MAU:
            return SendTo(node.id, "MAU", self._mobile_body(self._mobiles.table()), SUFFIX_MOBILE)
        return SendTo(node.id, "LSU", self._link_state(), SUFFIX_CONTROL)

    def _link_state(self) -> dict[str, object]:
        own, surcharge = self._settings, self._surcharge
        peers = {} if surcharge is None else {peer: cost + surcharge for peer, cost in self._topology.peers.items()}
        more = messages.link_state_more(self._mobiles.empty_seq(), self.demand.known)
        return messages.link_state_body(own.router_id, own.area, own.instance, self._topology.ls_seq, peers, more)

    def _mobile_body(self, part: Mapping[str, object]) -> dict[str, object]:
        return self._body() | {"mobile_seq": self._mobiles.seq, **part}

    def _body(self) -> dict[str, object]:
        return messages.base_body(self._settings.router_id, self._settings.area)
