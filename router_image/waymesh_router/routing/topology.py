"""The link states of all routers, and their consequences for the core: nodes, links, next hops, costs, origins."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from waymesh_router.routing.effects import (
    Effect,
    LinkStateChanged,
    LogEvent,
    MobileAdd,
    NodeDown,
    NodeUp,
    SetCost,
    SetLink,
    SetNextHop,
    SetValidOrigins,
    TopologyChanged,
)
from waymesh_router.routing.messages import PROTOCOL_VERSION
from waymesh_router.routing.mobile import flush_node
from waymesh_router.routing.nodes import Node, NodeView
from waymesh_router.routing.paths import Paths
from waymesh_router.routing.settings import RoutingSettings

# Paths are computed at once after a change, then not again for this time per known router. A computation takes about
# 3 µs per router, and as much again for each router whose messages pass through this one. So the spacing doubles while
# changes continue, up to the maximum factor: from 5 to 80 ms at 200 routers, below a millisecond in a mesh of three.
COMPUTE_SPACING_PER_ROUTER_S = 25e-6
COMPUTE_SPACING_MAX_FACTOR = 16


class Topology:
    """Records of the other routers and the paths to them. `wake` is the time of the next `compute`."""

    def __init__(self, settings: RoutingSettings, first_seq: int, now: float) -> None:
        self.wake = math.inf
        self.nodes: dict[str, Node] = {}
        self.peers: dict[str, int] = {}
        self.ls_seq = first_seq
        self.change_id = 0
        self._pending_since = math.inf
        self.changed_at = now
        self._settings = settings
        self._paths = Paths(settings.router_id)
        self._links: dict[str, int] = {}
        self._computed_at = -math.inf
        self._spacing_factor = 1
        self._free_indexes: list[int] = []
        self._next_index = 1

    def node(self, router_id: str, now: float) -> Node:
        """The record of a router, created if needed."""
        node = self.nodes.get(router_id)
        if node is None:
            node = self.nodes[router_id] = Node(router_id, now)
        return node

    def local(self, mobile_seq: int) -> NodeView:
        """This router, as a node."""
        return NodeView(
            id=self._settings.router_id,
            cost=0,
            next_hop=None,
            link_id=None,
            valid_origins=frozenset(),
            instance=self._settings.instance,
            link_state=dict(self.peers),
            last_topo_change=self.changed_at,
            protocol_version=PROTOCOL_VERSION,
            mobile_seq=mobile_seq,
            index=0,
        )

    def set_neighbours(self, costs: Mapping[str, int], links: Mapping[str, int], now: float, out: list[Effect]) -> bool:
        """Set the neighbours with cost and connection; returns whether the link state (and its sequence) changed."""
        concerned = sorted(self._links.keys() | links.keys())
        self._links = dict(links)
        for router_id in concerned:
            node = self.node(router_id, now)
            if node.up:
                self._set_link(node, out)
        if costs == self.peers:
            return False
        self.peers = dict(costs)
        self.ls_seq += 1
        self._paths.set_links(self._settings.router_id, self.peers)
        self._schedule(now)
        return True

    def set_link_state(self, node: Node, ls_seq: int, peers: Mapping[str, int], now: float, out: list[Effect]) -> None:
        """Set the link state of another router."""
        node.ls_seq.record(ls_seq, now)
        if peers != node.peers:
            node.peers = dict(peers)
            node.changed_at = now
            out.append(LinkStateChanged(node.id, node.peers))
            self._paths.set_links(node.id, node.peers)
            self._schedule(now)

    def _schedule(self, now: float) -> None:
        self._pending_since = min(self._pending_since, now)
        self.wake = min(self.wake, max(now, self._computed_at + self._spacing()))

    def _spacing(self) -> float:
        return COMPUTE_SPACING_PER_ROUTER_S * len(self.nodes) * self._spacing_factor

    def expire(self, now: float, out: list[Effect]) -> list[str]:
        """Drop link states and records that were not confirmed for remoteLsMaxAge; returns the ids of those routers
        that are still reachable (by the link states of others) and whose state must be requested again.
        """
        silent = []
        for node in list(self.nodes.values()):
            if now - node.last_seen <= self._settings.remote_ls_max_age_s:
                continue
            if node.ls_seq.known:
                self.set_link_state(node, 0, {}, now, out)
                if node.up:
                    silent.append(node.id)
            if not node.up:
                del self.nodes[node.id]
        return silent

    def compute(self, now: float, out: list[Effect]) -> list[Node]:
        """Update paths and emit the differences; returns the routers that became reachable."""
        self.wake = math.inf
        busy = now - self._computed_at <= 2 * self._spacing()
        self._spacing_factor = min(2 * self._spacing_factor, COMPUTE_SPACING_MAX_FACTOR) if busy else 1
        self._computed_at = now
        since, self._pending_since = self._pending_since, math.inf
        version = self._paths.version
        changed = sorted(self._paths.update())
        if self._paths.version == version:
            return []
        self.changed_at = now
        self.change_id += 1
        routes = self._paths.routes
        appeared = []
        for router_id in changed:
            if router_id in routes and not self.node(router_id, now).up:
                appeared.append(self._add_reachable(self.nodes[router_id], out))
        for router_id in changed:
            if router_id in routes:
                self._set_route(self.nodes[router_id], out)
        for node in appeared:
            out.extend([MobileAdd(node.id, key, treatment) for key, treatment in node.mobiles.items()])
        lost = [self.nodes[router_id] for router_id in changed if router_id not in routes]
        for node in lost:
            self._clear_route(node, out)
        for node in lost:
            self._remove_reachable(node, out)
        out.append(LogEvent("debug", "ROUTER_LS", f"Paths computed: {len(routes)} routers reachable"))
        out.append(TopologyChanged(self.change_id, since))
        return appeared

    def _add_reachable(self, node: Node, out: list[Effect]) -> Node:
        node.up = True
        if self._free_indexes:
            node.index = heapq.heappop(self._free_indexes)
        else:
            node.index = self._next_index
            self._next_index += 1
        out.append(NodeUp(node.id))
        return node

    def _set_link(self, node: Node, out: list[Effect]) -> None:
        link_id = self._links.get(node.id)
        if link_id != node.link_id:
            node.link_id = link_id
            out.append(SetLink(node.id, link_id))

    def _set_route(self, node: Node, out: list[Effect]) -> None:
        route = self._paths.routes[node.id]
        next_hop = None if route.next_hop == node.id else route.next_hop
        self._set_link(node, out)
        if next_hop != node.next_hop:
            node.next_hop = next_hop
            out.append(SetNextHop(node.id, next_hop))
        if route.cost != node.cost:
            node.cost = route.cost
            out.append(SetCost(node.id, route.cost))
        if route.origins is not node.origins:
            node.origins = route.origins
            out.append(SetValidOrigins(node.id, route.origins))

    def _clear_route(self, node: Node, out: list[Effect]) -> None:
        flush_node(node, out)
        self._set_link(node, out)
        if node.next_hop is not None:
            node.next_hop = None
            out.append(SetNextHop(node.id, None))
        node.origins = frozenset()

    def _remove_reachable(self, node: Node, out: list[Effect]) -> None:
        out.append(NodeDown(node.id))
        heapq.heappush(self._free_indexes, node.index)
        node.up, node.index, node.cost = False, 0, 0
