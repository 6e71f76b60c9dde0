"""The routes of one router: cost, next hop and valid origins of every router it can reach.

Sources: protocol/inter-router.md, "Paths". As in Dispatch a link counts in the direction in which a router's link state
lists it; the other end's link state is not asked. (One end drops it at once, the other a moment later.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from waymesh_router.routing.trees import NO_SLOT, UNREACHED, Graph, Tree


class Route(NamedTuple):
    """How a router is reached: cost of the path, first router on it (itself, for a direct link), valid origins."""

    cost: int
    next_hop: str
    origins: frozenset[str]


class Paths:
    """Keeps `routes` for the link states it is given. A tree is kept for each reachable router and repaired on change,
    because computing 200 trees anew for one link costs some fifty times more than repairing them.
    """

    def __init__(self, router_id: str) -> None:
        self.routes: dict[str, Route] = {}
        self._graph = Graph()
        self._me = self._graph.slot(router_id)
        self._own = Tree(self._graph, self._me)
        self._trees: dict[int, Tree] = {}
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
        links = [
            (tail, head, old, new)
            for (tail, head), old in graph.changed.items()
            if (new := graph.out[tail].get(head, UNREACHED)) != old
        ]
        graph.changed.clear()
        if not links:
            return set()
        moved = self._own.repair(graph, links)
        reached = {slot for slot, dist in enumerate(self._own.dist) if 0 < dist < UNREACHED}
        stale = self._update_origins(reached, links)
        changed = self._publish(reached, reached if moved else stale & reached)
        graph.release_isolated(self._me)
        return changed

    def _update_origins(self, reached: set[int], links: list[tuple[int, int, int, int]]) -> set[int]:
        """Repair every origin's tree; returns the destinations whose valid origins changed."""
        stale: set[int] = set()
        for root in [root for root in self._trees if root not in reached]:
            del self._trees[root]
            self._set_behind(root, set(), stale)
        for root in reached:
            tree = self._trees.get(root)
            if tree is None:
                tree = self._trees[root] = Tree(self._graph, root)
            elif not tree.repair(self._graph, links):
                continue
            self._set_behind(root, tree.behind(self._graph, self._me), stale)
        return stale

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
        hops = self._first_hops(slots)
        for slot in slots:
            origins = frozenset([ids[root] for root in self._origins.get(slot, ())])
            route = Route(self._own.dist[slot], ids[hops[slot]], origins)
            if self.routes.get(ids[slot]) != route:
                self.routes[ids[slot]] = route
                changed.add(ids[slot])
        return changed

    def _first_hops(self, slots: set[int]) -> dict[int, int]:
        """First router on our path to each slot."""
        prev = self._own.prev
        hops: dict[int, int] = {}
        for slot in slots:
            walked = []
            at = slot
            while at not in hops and prev[at] not in (self._me, NO_SLOT):
                walked.append(at)
                at = prev[at]
            first = hops.setdefault(at, at)
            for behind in walked:
                hops[behind] = first
        return hops
