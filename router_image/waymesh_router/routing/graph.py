"""Directed links between routers, and the distances from one router, repaired in place when links change.

Choice of path: of all routers u with dist[u] + cost(u, v) == dist[v] the one before v is the one with the lowest
(dist[u], id of u). That is a pure function of the link states, so all routers agree; and what lies behind a router on
another's path is that router's own path, so who forwards by its own next hops stays on the tree of the ingress router.
"""

from __future__ import annotations

from heapq import heappop, heappush

UNREACHED = 1 << 60
NO_SLOT = -1
# Heap entries are distance << SLOT_BITS | slot: one int compares several times faster than a tuple.
SLOT_BITS = 20
SLOT_MASK = (1 << SLOT_BITS) - 1

LinkChange = tuple[int, int, int, int]
"""Tail, head, cost before, cost now (UNREACHED: no link)."""


class Graph:
    """Routers by slot (a small int) and the directed links between them, by slot and cost."""

    __slots__ = ("_changed", "_free", "_slots", "ids", "into", "out")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.out: list[dict[int, int]] = []
        self.into: list[dict[int, int]] = []
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._changed: dict[tuple[int, int], int] = {}

    def slot(self, router_id: str) -> int:
        """Slot of a router, allotted when it has none."""
        slot = self._slots.get(router_id)
        if slot is None:
            if self._free:
                slot = self._free.pop()
                self.ids[slot] = router_id
            else:
                slot = len(self.ids)
                self.ids.append(router_id)
                self.out.append({})
                self.into.append({})
            self._slots[router_id] = slot
        return slot

    def set_link(self, tail: int, head: int, cost: int) -> None:
        """Give a link its cost; UNREACHED removes it."""
        old = self.out[tail].get(head, UNREACHED)
        if old == cost:
            return
        self._changed.setdefault((tail, head), old)
        if cost == UNREACHED:
            del self.out[tail][head]
            del self.into[head][tail]
        else:
            self.out[tail][head] = cost
            self.into[head][tail] = cost

    def take_changes(self) -> list[LinkChange]:
        """The links that differ from what they were when this was last called."""
        changes = [
            (tail, head, old, new)
            for (tail, head), old in self._changed.items()
            if (new := self.out[tail].get(head, UNREACHED)) != old
        ]
        self._changed.clear()
        return changes

    def release_isolated(self, keep: int) -> None:
        """Free the slots of routers without any link, except `keep`. Only after all distances were repaired."""
        for slot, router_id in enumerate(self.ids):
            if not self.out[slot] and not self.into[slot] and slot != keep and self._slots.get(router_id) == slot:
                del self._slots[router_id]
                self._free.append(slot)

    def before(self, dist: list[int], slot: int) -> int:
        """The router before this one on the path (NO_SLOT: it is the root or out of reach)."""
        here, ids = dist[slot], self.ids
        best, best_dist = NO_SLOT, UNREACHED
        for tail, cost in self.into[slot].items():
            near = dist[tail]
            if near + cost == here and (near < best_dist or (near == best_dist and ids[tail] < ids[best])):
                best, best_dist = tail, near
        return best


class Distances:
    """Length of the shortest path from one root to every slot, UNREACHED where there is none."""

    __slots__ = ("dist",)

    def __init__(self, graph: Graph, root: int) -> None:
        self.dist = [UNREACHED] * len(graph.ids)
        self.dist[root] = 0
        self._spread(graph, [root])

    def repair(self, graph: Graph, changes: list[LinkChange]) -> bool:
        """Adapt to changed links; False: no path can differ."""
        self.dist.extend([UNREACHED] * (len(graph.ids) - len(self.dist)))
        dist = self.dist
        weakened = [head for tail, head, old, new in changes if new > old and dist[tail] + old == dist[head]]
        heap = self._cut(graph, weakened) if weakened else []
        concerned = bool(weakened)
        for tail, head, old, new in changes:
            if new < old and dist[tail] + new <= dist[head]:
                concerned = True
                if dist[tail] + new < dist[head]:
                    dist[head] = dist[tail] + new
                    heappush(heap, dist[head] << SLOT_BITS | head)
        if heap:
            self._spread(graph, heap)
        return concerned

    def _cut(self, graph: Graph, weakened: list[int]) -> list[int]:
        """Find the slots that have lost every path of their length, give them the best there is beside them for now.

        Returns the heap from which to spread. Slots are looked at in the order of their distance, so that all that can
        lie before one is decided when its turn comes (costs are at least 1).
        """
        dist, out, into = self.dist, graph.out, graph.into
        lost: set[int] = set()
        heap = [dist[slot] << SLOT_BITS | slot for slot in weakened]
        heap.sort()
        while heap:
            slot = heappop(heap) & SLOT_MASK
            here = dist[slot]
            if slot in lost or any(dist[tail] + cost <= here and tail not in lost for tail, cost in into[slot].items()):
                continue
            lost.add(slot)
            for head, cost in out[slot].items():
                if here + cost <= dist[head]:  # Less: the link became cheaper while the path to it became longer.
                    heappush(heap, dist[head] << SLOT_BITS | head)
        for slot in lost:
            dist[slot] = UNREACHED
        heap = []
        for slot in lost:
            best = min((dist[tail] + cost for tail, cost in into[slot].items()), default=UNREACHED)
            if best < UNREACHED:
                dist[slot] = best
                heappush(heap, best << SLOT_BITS | slot)
        return heap

    def _spread(self, graph: Graph, heap: list[int]) -> None:
        """Dijkstra from the slots on the heap."""
        dist, out = self.dist, graph.out
        while heap:
            entry = heappop(heap)
            slot = entry & SLOT_MASK
            near = entry >> SLOT_BITS
            if near > dist[slot]:
                continue
            for head, cost in out[slot].items():
                far = near + cost
                if far < dist[head]:
                    dist[head] = far
                    heappush(heap, far << SLOT_BITS | head)
