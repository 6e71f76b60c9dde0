"""Directed links between routers, and the distances from one router.

Choice of path: of all routers u with dist[u] + cost(u, v) == dist[v] the one before v is the one with the lowest
(dist[u], id of u). That is a pure function of the link states, so all routers agree; and what lies behind a router on
another's path is that router's own path, so who forwards by its own next hops stays on the tree of the ingress router.
"""

from __future__ import annotations

from heapq import heappop, heappush

UNREACHED = 1 << 60
NO_SLOT = -1


class Graph:
    """Routers by slot (a small int) and the directed links between them, by slot and cost."""

    __slots__ = ("_free", "ids", "into", "out", "slots")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.out: list[dict[int, int]] = []
        self.into: list[dict[int, int]] = []
        self.slots: dict[str, int] = {}
        self._free: list[int] = []

    def slot(self, router_id: str) -> int:
        """Slot of a router, allotted when it has none."""
        slot = self.slots.get(router_id)
        if slot is None:
            if self._free:
                slot = self._free.pop()
                self.ids[slot] = router_id
            else:
                slot = len(self.ids)
                self.ids.append(router_id)
                self.out.append({})
                self.into.append({})
            self.slots[router_id] = slot
        return slot

    def set_link(self, tail: int, head: int, cost: int) -> bool:
        """Set the cost of a link; UNREACHED removes it. Returns whether the cost is a new one."""
        if self.out[tail].get(head, UNREACHED) == cost:
            return False
        if cost == UNREACHED:
            del self.out[tail][head]
            del self.into[head][tail]
        else:
            self.out[tail][head] = cost
            self.into[head][tail] = cost
        return True

    def release_isolated(self, keep: int) -> None:
        """Free the slots of routers without any link, except `keep`."""
        for slot, router_id in enumerate(self.ids):
            if not self.out[slot] and not self.into[slot] and slot != keep and self.slots.get(router_id) == slot:
                del self.slots[router_id]
                self._free.append(slot)

    def distances(self, root: int) -> list[int]:
        """Length of the shortest path from `root` to every slot, UNREACHED where there is none (Dijkstra).

        Most links of a mesh have equal costs, so there are few different distances: the heap holds each distance once,
        and `levels` the slots found at it.
        """
        out = self.out
        dist = [UNREACHED] * len(self.ids)
        dist[root] = 0
        levels = {0: [root]}
        heap = [0]
        while heap:
            near = heappop(heap)
            for slot in levels.pop(near):
                if dist[slot] != near:
                    continue  # A shorter path was found after the slot was put at this level.
                for head, cost in out[slot].items():
                    far = near + cost
                    if far < dist[head]:
                        dist[head] = far
                        level = levels.get(far)
                        if level is None:
                            levels[far] = [head]
                            heappush(heap, far)
                        else:
                            level.append(head)
        return dist

    def before(self, dist: list[int], slot: int) -> int:
        """The router before this one on the path (NO_SLOT: it is the root or out of reach)."""
        here, ids = dist[slot], self.ids
        best, best_dist = NO_SLOT, UNREACHED
        for tail, cost in self.into[slot].items():
            near = dist[tail]
            if near + cost == here and (near < best_dist or (near == best_dist and ids[tail] < ids[best])):
                best, best_dist = tail, near
        return best
