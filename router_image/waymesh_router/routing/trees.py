"""Shortest-path trees over directed links, repaired in place when links change.

`prev[v]` is a pure function of the distances: of all routers u with dist[u] + cost(u, v) == dist[v] it is the one with
the lowest (dist[u], id of u). Therefore all routers compute the same tree for the same root, and the part of a root's
path that lies behind a router on it is that router's own path: who forwards by its own next hops stays on the tree of
the ingress router.
"""

from __future__ import annotations

from heapq import heappop, heappush

UNREACHED = 1 << 60
NO_SLOT = -1
# Heap entries are distance << SLOT_BITS | slot: one int compares several times faster than a tuple.
SLOT_BITS = 20
SLOT_MASK = (1 << SLOT_BITS) - 1


class Graph:
    """Routers by slot (a small int) and the directed links between them, by slot and cost."""

    __slots__ = ("changed", "free", "ids", "into", "out", "slots")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.slots: dict[str, int] = {}
        self.out: list[dict[int, int]] = []
        self.into: list[dict[int, int]] = []
        self.free: list[int] = []
        self.changed: dict[tuple[int, int], int] = {}
        """Links changed since the trees were last repaired, with the cost they had then (UNREACHED: no link)."""

    def slot(self, router_id: str) -> int:
        """Slot of a router, allotted when it has none."""
        slot = self.slots.get(router_id)
        if slot is None:
            if self.free:
                slot = self.free.pop()
                self.ids[slot] = router_id
            else:
                slot = len(self.ids)
                self.ids.append(router_id)
                self.out.append({})
                self.into.append({})
            self.slots[router_id] = slot
        return slot

    def set_link(self, tail: int, head: int, cost: int) -> None:
        """Give a link its cost; UNREACHED removes it."""
        old = self.out[tail].get(head, UNREACHED)
        if old == cost:
            return
        self.changed.setdefault((tail, head), old)
        if cost == UNREACHED:
            del self.out[tail][head]
            del self.into[head][tail]
        else:
            self.out[tail][head] = cost
            self.into[head][tail] = cost

    def release_isolated(self, keep: int) -> None:
        """Free the slots of routers without any link, except `keep`. Only after the trees were repaired."""
        for slot, router_id in enumerate(self.ids):
            if not self.out[slot] and not self.into[slot] and slot != keep and self.slots.get(router_id) == slot:
                del self.slots[router_id]
                self.free.append(slot)


class Tree:
    """Shortest paths from one root to every slot: distance and the router before it on the path."""

    __slots__ = ("dist", "prev", "root")

    def __init__(self, graph: Graph, root: int) -> None:
        self.root = root
        self.dist = [UNREACHED] * len(graph.ids)
        self.prev = [NO_SLOT] * len(graph.ids)
        self.dist[root] = 0
        reached = {root}
        self._spread(graph, [root], reached)
        reached.discard(root)
        self._choose(graph, reached)

    def repair(self, graph: Graph, links: list[tuple[int, int, int, int]]) -> bool:
        """Adapt to changed links (tail, head, old cost, new cost); says whether paths or costs differ."""
        grow = len(graph.ids) - len(self.dist)
        if grow > 0:
            self.dist.extend([UNREACHED] * grow)
            self.prev.extend([NO_SLOT] * grow)
        dist, prev = self.dist, self.prev
        orphans = [head for tail, head, old, new in links if new > old and prev[head] == tail]
        touched = self._cut(graph, orphans) if orphans else set()
        heap: list[int] = []
        recheck: set[int] = set()
        for orphan in touched:
            best = min((dist[tail] + cost for tail, cost in graph.into[orphan].items()), default=UNREACHED)
            if best < UNREACHED:
                dist[orphan] = best
                heappush(heap, best << SLOT_BITS | orphan)
        for tail, head, old, new in links:
            if new < old and dist[tail] + new <= dist[head]:
                recheck.add(head)
                if dist[tail] + new < dist[head]:
                    dist[head] = dist[tail] + new
                    touched.add(head)
                    heappush(heap, dist[head] << SLOT_BITS | head)
        if not touched and not recheck:
            return False
        self._spread(graph, heap, touched)
        recheck |= touched
        for slot in touched:
            recheck.update(graph.out[slot])
        recheck.discard(self.root)
        return self._choose(graph, recheck) or bool(touched)

    def _cut(self, graph: Graph, orphans: list[int]) -> set[int]:
        """Forget the distance of these slots and of everything behind them on the tree."""
        dist, prev = self.dist, self.prev
        lost: set[int] = set()
        while orphans:
            slot = orphans.pop()
            if slot in lost:
                continue
            lost.add(slot)
            dist[slot] = UNREACHED
            orphans.extend(head for head in graph.out[slot] if prev[head] == slot)
        return lost

    def _spread(self, graph: Graph, heap: list[int], touched: set[int]) -> None:
        """Dijkstra from the slots on the heap; adds each slot that came nearer to `touched`."""
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
                    touched.add(head)
                    heappush(heap, far << SLOT_BITS | head)

    def _choose(self, graph: Graph, slots: set[int]) -> bool:
        """Choose the router before each of these slots; say whether any choice is another than before."""
        dist, prev, ids, into = self.dist, self.prev, graph.ids, graph.into
        differs = False
        for slot in slots:
            here = dist[slot]
            best = NO_SLOT
            if here != UNREACHED:
                best_dist = UNREACHED
                for tail, cost in into[slot].items():
                    near = dist[tail]
                    if near + cost == here and (near < best_dist or (near == best_dist and ids[tail] < ids[best])):
                        best = tail
                        best_dist = near
            if prev[slot] != best:
                prev[slot] = best
                differs = True
        return differs

    def behind(self, graph: Graph, slot: int) -> set[int]:
        """Every slot whose path from the root passes through `slot`."""
        prev = self.prev
        found: set[int] = set()
        stack = [slot]
        while stack:
            at = stack.pop()
            for head in graph.out[at]:
                if prev[head] == at:
                    found.add(head)
                    stack.append(head)
        return found
