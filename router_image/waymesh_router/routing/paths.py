"""The routes of one router: cost, next hop and valid origins of every router it can reach.

Sources: protocol/inter-router.md, "Paths". As in Dispatch a link counts in the direction in which a router's link state
lists it; the other end's link state is not asked. (One end drops it at once, the other a moment later.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from waymesh_router.routing.graph import UNREACHED, Graph


class ValidOrigins(Set[str]):
    """The routers whose shortest path to a destination leads through this router: a live view of `Paths`.

    Whether it contains a router is computed when it is first asked for that router after a change of links.
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
    """How a router is reached: cost of the path, first router on it (itself, for a direct link), valid origins."""

    cost: int
    next_hop: str
    origins: ValidOrigins


class Paths:
    """Keeps `routes` for the link states it is given.

    Only the tree of this router is computed on each change. The tree of another router matters when one of its messages
    passes through here; what lies behind us on it is computed at the first one. All trees at once would take the memory
    and the time of N Dijkstra runs for each change, also for routers that send nothing.
    """

    def __init__(self, router_id: str) -> None:
        self.routes: dict[str, Route] = {}
        # Counts up when routes or valid origins may differ from what they were.
        self.version = 0
        # By origin: for each slot 1 if the path from that origin to the slot passes through us, else 0.
        self.behind: dict[object, bytes] = {}
        self._graph = Graph()
        self._me = self._graph.slot(router_id)
        # Link states that `update` is to apply: until then everything follows from the former ones.
        self._pending: dict[str, Mapping[str, int]] = {}
        # Our own tree: the slots that come right after a slot.
        self._next: dict[int, list[int]] = {}
        self._nothing = bytes(1)

    def set_links(self, router_id: str, peers: Mapping[str, int]) -> None:
        """Replace the links that go out from a router: peer id → cost (>= 1). An empty map removes them."""
        self._pending[router_id] = peers

    def update(self) -> set[str]:
        """Bring `routes` up to date; returns the ids whose route is new, gone or has another cost or next hop."""
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
        # Who has one neighbour only is on nobody's way: valid origins are empty, as they were.
        if changed or transit:
            self.version += 1
        graph.release_isolated(self._me)
        return changed

    def find_behind(self, origin: object) -> bytes:
        """Compute the entry of `behind` for this origin, and keep it where the origin can be reached."""
        if origin not in self.routes:
            return self._nothing
        if not self._is_transit():
            found = self._nothing
        else:
            found = self._behind_on_tree(self._graph.slots[str(origin)])
        self.behind[origin] = found
        return found

    def _apply_pending(self) -> bool:
        """Set the links as the pending link states say; returns whether any is different."""
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

    def _behind_on_tree(self, root: int) -> bytes:
        """Mark the slots whose path from the root passes through us. They are behind us on our own tree as well."""
        graph = self._graph
        dist = graph.distances(root)
        found: bytearray | None = None
        stack = [self._me]
        while stack:
            at = stack.pop()
            for head in self._next.get(at, ()):
                if dist[at] + graph.out[at][head] == dist[head] and graph.before(dist, head) == at:
                    if found is None:
                        found = bytearray(len(graph.ids))
                    found[head] = 1
                    stack.append(head)
        return self._nothing if found is None else bytes(found)

    def _publish(self, dist: list[int], reached: list[int]) -> set[str]:
        """Bring the routes to the reached slots up to date and drop the others."""
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
        """First router on our path to each slot."""
        hops = {slot: slot for slot in self._next.get(self._me, ())}
        stack = list(hops)
        while stack:
            at = stack.pop()
            for head in self._next.get(at, ()):
                hops[head] = hops[at]
                stack.append(head)
        return hops
