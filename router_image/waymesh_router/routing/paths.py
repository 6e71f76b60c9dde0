"""The routes of a router: cost, next hop and valid origins for every reachable router.

Sources: protocol/inter-router.md, "Paths". As in Dispatch, a link counts in the direction in which a router's link
state lists it, regardless of the link state of the other end. (One end drops it at once, the other a moment later.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from waymesh_router.routing.graph import UNREACHED, Graph


class ValidOrigins(Set[str]):
    """The routers whose shortest path to a destination leads through this router: a live view of `Paths`.

    Membership of a router is computed on the first query after a change of links.
    """

    __slots__ = ("_paths", "_slot")

    def __init__(self, paths: Paths, slot: int) -> None:
        self._paths = paths
        self._slot = slot

    def __contains__(self, origin: object) -> bool:
        behind = self._paths.behind.get(origin)
        if behind is None:
            behind = self._paths.find_behind(origin)
        return behind[self._slot] != 0

    def __iter__(self) -> Iterator[str]:
        return (origin for origin in self._paths.routes if origin in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"ValidOrigins({sorted(self)})"


class Route(NamedTuple):
    """Route to a router: cost of the path, first router on it (itself for a direct link), valid origins."""

    cost: int
    next_hop: str
    origins: ValidOrigins


class Paths:
    """Keeps `routes` up to date with the link states.

    Only the tree of this router is computed on each change. The tree of another router matters only when one of its
    messages arrives here; the part of it behind this router is computed then. To compute all trees at once would
    cost the memory and time of N Dijkstra runs for each change, also for routers that send nothing.
    """

    def __init__(self, router_id: str) -> None:
        self.routes: dict[str, Route] = {}
        # Incremented when routes or valid origins may have changed.
        self.version = 0
        # By origin: for each slot 1 if the path from the origin to the slot leads through this router, else 0.
        self.behind: dict[object, bytes] = {}
        self._graph = Graph()
        self._me = self._graph.slot(router_id)
        # Link states that the next `update` applies.
        self._pending: dict[str, Mapping[str, int]] = {}
        # The tree of this router: the successors of each slot.
        self._next: dict[int, list[int]] = {}
        self._nothing = bytes(1)

    def set_links(self, router_id: str, peers: Mapping[str, int]) -> None:
        """Replace the outgoing links of a router: peer id → cost (>= 1). An empty map removes them."""
        self._pending[router_id] = peers

    def update(self) -> set[str]:
        """Update `routes`; returns the ids whose route is new, gone or has another cost or next hop."""
        if not self._apply_pending():
            return set()
        graph = self._graph
        dist = graph.distances(self._me)
        reached = [slot for slot, cost in enumerate(dist) if 0 < cost < UNREACHED]
        self._next = {}
        for slot in reached:
            self._next.setdefault(graph.before(dist, slot), []).append(slot)
        transit = self._is_transit()
        self.behind.clear()
        self._nothing = bytes(len(graph.ids))
        changed = self._publish(dist, reached)
        # A router with one neighbour is on no path of others: valid origins are empty, as before.
        if changed or transit:
            self.version += 1
        graph.release_isolated(self._me)
        return changed

    def find_behind(self, origin: object) -> bytes:
        """Compute the entry of `behind` for this origin, and store it if the origin is reachable."""
        if origin not in self.routes:
            return self._nothing
        if not self._is_transit():
            found = self._nothing
        else:
            graph = self._graph
            found = graph.behind(graph.slots[str(origin)], self._me, self._next) or self._nothing
        self.behind[origin] = found
        return found

    def _apply_pending(self) -> bool:
        """Apply the pending link states; returns whether any link has changed."""
        graph = self._graph
        differs = False
        for router_id, peers in self._pending.items():
            tail = graph.slot(router_id)
            wanted = {graph.slot(peer): cost for peer, cost in peers.items() if peer != router_id}
            for head in [head for head in graph.out[tail] if head not in wanted]:
                differs |= graph.set_link(tail, head, UNREACHED)
            for head, cost in wanted.items():
                differs |= graph.set_link(tail, head, cost)
        self._pending.clear()
        return differs

    def _is_transit(self) -> bool:
        graph = self._graph
        return len(graph.out[self._me].keys() | graph.into[self._me].keys()) > 1

    def _publish(self, dist: list[int], reached: list[int]) -> set[str]:
        """Update the routes to the reached slots and drop the others."""
        ids = self._graph.ids
        alive = {ids[slot] for slot in reached}
        changed = self.routes.keys() - alive
        for router_id in changed:
            del self.routes[router_id]
        hops = self._first_hops()
        for slot in reached:
            router_id = ids[slot]
            cost, hop = dist[slot], ids[hops[slot]]
            old = self.routes.get(router_id)
            if old is None:
                self.routes[router_id] = Route(cost, hop, ValidOrigins(self, slot))
            elif (old.cost, old.next_hop) != (cost, hop):
                self.routes[router_id] = Route(cost, hop, old.origins)
            else:
                continue
            changed.add(router_id)
        return changed

    def _first_hops(self) -> dict[int, int]:
        """First router on the path of this router to each slot."""
        hops = {slot: slot for slot in self._next.get(self._me, ())}
        stack = list(hops)
        while stack:
            at = stack.pop()
            for head in self._next.get(at, ()):
                hops[head] = hops[at]
                stack.append(head)
        return hops
