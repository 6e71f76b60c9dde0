"""The routes of one router: cost, next hop and valid origins of every router it can reach.

Sources: protocol/inter-router.md, "Paths". As in Dispatch a link counts in the direction in which a router's link state
lists it; the other end's link state is not asked. (One end drops it at once, the other a moment later.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from waymesh_router.routing.graph import UNREACHED, Distances, Graph, LinkChange


class Route(NamedTuple):
    """How a router is reached: cost of the path, first router on it (itself, for a direct link), valid origins."""

    cost: int
    next_hop: str
    origins: frozenset[str]


class Paths:
    """Keeps `routes` for the link states it is given.

    The distances from every reachable router are kept and repaired on change, because computing those of 200 routers
    anew for one link costs some fifty times more than repairing them.
    """

    def __init__(self, router_id: str) -> None:
        self.routes: dict[str, Route] = {}
        self._graph = Graph()
        self._me = self._graph.slot(router_id)
        self._own = Distances(self._graph, self._me)
        self._next: dict[int, list[int]] = {}
        """Our own tree: the slots that come right after a slot."""
        self._others: dict[int, Distances] = {}
        self._behind: dict[int, set[int]] = {}
        self._origins: dict[int, set[int]] = {}

    def set_links(self, router_id: str, peers: Mapping[str, int]) -> None:
        """Replace the links that go out from a router: peer id → cost (>= 1). An empty map removes them."""
        graph = self._graph
        tail = graph.slot(router_id)
        wanted = {graph.slot(peer): cost for peer, cost in peers.items() if peer != router_id}
        for head in [head for head in graph.out[tail] if head not in wanted]:
            graph.set_link(tail, head, UNREACHED)
        for head, cost in wanted.items():
            graph.set_link(tail, head, cost)

    def update(self) -> set[str]:
        """Bring `routes` up to date; returns the ids whose route is new, gone or different."""
        graph = self._graph
        changes = graph.take_changes()
        if not changes:
            return set()
        moved = self._own.repair(graph, changes)
        reached = {slot for slot, dist in enumerate(self._own.dist) if 0 < dist < UNREACHED}
        if moved:
            self._grow_tree(reached)
        stale = self._update_origins(reached, changes, moved)
        changed = self._publish(reached, reached if moved else stale & reached)
        graph.release_isolated(self._me)
        return changed

    def _grow_tree(self, reached: set[int]) -> None:
        self._next = {}
        for slot in reached:
            self._next.setdefault(self._graph.before(self._own.dist, slot), []).append(slot)

    def _update_origins(self, reached: set[int], changes: list[LinkChange], moved: bool) -> set[int]:
        """Repair the distances of every origin; returns the destinations whose valid origins changed."""
        graph = self._graph
        stale: set[int] = set()
        # Who has one neighbour only is on nobody's way.
        roots = reached if len(graph.out[self._me].keys() | graph.into[self._me].keys()) > 1 else set()
        for root in [root for root in self._others if root not in roots]:
            del self._others[root]
            self._set_behind(root, set(), stale)
        for root in roots:
            distances = self._others.get(root)
            if distances is None:
                distances = self._others[root] = Distances(graph, root)
            elif not distances.repair(graph, changes) and not moved:
                continue
            self._set_behind(root, self._find_behind(distances.dist), stale)
        return stale

    def _find_behind(self, dist: list[int]) -> set[int]:
        """The slots whose path from the origin with these distances passes through us. They are on our own tree."""
        graph = self._graph
        found: set[int] = set()
        stack = [self._me]
        while stack:
            at = stack.pop()
            for head in self._next.get(at, ()):
                if dist[at] + graph.out[at][head] == dist[head] and graph.before(dist, head) == at:
                    found.add(head)
                    stack.append(head)
        return found

    def _set_behind(self, root: int, slots: set[int], stale: set[int]) -> None:
        """Note which destinations lie behind us on this origin's tree."""
        old = self._behind.pop(root, set())
        if slots:
            self._behind[root] = slots
        for slot in old - slots:
            self._origins[slot].discard(root)
        for slot in slots - old:
            self._origins.setdefault(slot, set()).add(root)
        stale |= old ^ slots

    def _publish(self, reached: set[int], slots: set[int]) -> set[str]:
        """Bring the routes to these slots up to date and drop those out of reach."""
        ids = self._graph.ids
        alive = {ids[slot] for slot in reached}
        changed = {router_id for router_id in self.routes if router_id not in alive}
        for router_id in changed:
            del self.routes[router_id]
        hops = self._first_hops()
        for slot in slots:
            origins = frozenset([ids[root] for root in self._origins.get(slot, ())])
            route = Route(self._own.dist[slot], ids[hops[slot]], origins)
            if self.routes.get(ids[slot]) != route:
                self.routes[ids[slot]] = route
                changed.add(ids[slot])
        return changed

    def _first_hops(self) -> dict[int, int]:
        """First router on our path to each slot."""
        hops = {slot: slot for slot in self._next.get(self._me, ())}
        stack = list(hops)
        while stack:
            at = stack.pop()
            for head in self._next.get(at, ()):
                hops[head] = hops[at]
                stack.append(head)
        return hops
