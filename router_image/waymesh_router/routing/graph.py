"""Directed links between routers, and the distances from one router.

Choice of path: of all routers u with dist[u] + cost(u, v) == dist[v], the predecessor of v is the one with the lowest
(dist[u], id of u). This depends on the link states only, so all routers agree; and the part of a path behind a router
is that router's own path, so forwarding by each router's own next hops stays on the tree of the ingress router.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import cython

UNREACHED = 1 << 60
NO_SLOT = -1


class Graph:
    """Routers by slot (a small int) and the directed links between them, with their costs."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.out: list[dict[int, int]] = []
        self.into: list[dict[int, int]] = []
        self.slots: dict[str, int] = {}
        self._free: list[int] = []

    def slot(self, router_id: str) -> cython.Py_ssize_t:
        """The slot of a router, allocated if needed."""
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

    def set_link(self, tail: cython.Py_ssize_t, head: cython.Py_ssize_t, cost: cython.longlong) -> cython.bint:
        """Set the cost of a link; UNREACHED removes it. Returns whether the cost has changed."""
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
        """Free the slots of routers without links, except `keep`."""
        for slot, router_id in enumerate(self.ids):
            if not self.out[slot] and not self.into[slot] and slot != keep and self.slots.get(router_id) == slot:
                del self.slots[router_id]
                self._free.append(slot)

    def distances(self, root: cython.Py_ssize_t) -> list[int]:
        """Length of the shortest path from `root` to every slot, UNREACHED if there is none."""
        search: Search = Search(self, root)
        search.advance(NO_SLOT)
        return search.dist

    def before(self, dist: list[Any], slot: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The predecessor of a router on the path (NO_SLOT for the root and unreachable routers)."""
        ids = self.ids
        here: cython.longlong = dist[slot]
        best: cython.Py_ssize_t = NO_SLOT
        best_dist: cython.longlong = UNREACHED
        near: cython.longlong
        cost: cython.longlong
        tail: cython.Py_ssize_t
        links: dict[int, int] = self.into[slot]
        for tail, cost in links.items():
            near = dist[tail]
            if near + cost == here and (near < best_dist or (near == best_dist and ids[tail] < ids[best])):
                best, best_dist = tail, near
        return best

    def behind(
        self, root: cython.Py_ssize_t, via: cython.Py_ssize_t, successors: dict[Any, Any]
    ) -> bytes:
        """For each slot 1 if the path to it from `root` leads through `via`, else 0. Empty if there is no such slot.

        `successors` is the tree of `via`: what is behind it on another router's tree is behind it there, too.
        """
        search: Search = Search(self, root)
        search.advance(via)
        dist = search.dist
        found: bytearray | None = None
        stack = [via]
        here: cython.longlong
        cost: cython.longlong
        at: cython.Py_ssize_t
        head: cython.Py_ssize_t
        links: dict[int, int]
        while stack:
            at = stack.pop()
            here = dist[at]
            links = self.out[at]
            for head in successors.get(at, ()):
                search.advance(head)  # the predecessors on its shortest paths are nearer, so they are final, too
                cost = links[head]
                if here + cost == dist[head] and self.before(dist, head) == at:
                    if found is None:
                        found = bytearray(len(self.ids))
                    found[head] = 1
                    stack.append(head)
        return b"" if found is None else bytes(found)


class Search:
    """Dijkstra's algorithm from one router, which goes no further than it is asked to.

    Most links of a mesh have equal costs, so there are few different distances: the heap has each distance once, and
    `levels` has the slots at that distance.
    """

    def __init__(self, graph: Graph, root: cython.Py_ssize_t) -> None:
        self.dist: list[int] = [UNREACHED] * len(graph.ids)
        self.dist[root] = 0
        self._out = graph.out
        self._levels: dict[int, list[int]] = {0: [root]}
        self._heap = [0]

    def advance(self, goal: cython.Py_ssize_t) -> None:
        """Go on until `dist` is final for `goal` and for all slots that are nearer; NO_SLOT: for all slots."""
        dist = self.dist
        heap = self._heap
        levels = self._levels
        near: cython.longlong
        far: cython.longlong
        cost: cython.longlong
        slot: cython.Py_ssize_t
        head: cython.Py_ssize_t
        links: dict[int, int]
        while heap and (goal == NO_SLOT or heap[0] < dist[goal]):
            near = heappop(heap)
            for slot in levels.pop(near):
                if dist[slot] != near:
                    continue  # A shorter path was found after the slot was put at this level.
                links = self._out[slot]
                for head, cost in links.items():
                    far = near + cost
                    if far < dist[head]:
                        dist[head] = far
                        level = levels.get(far)
                        if level is None:
                            levels[far] = [head]
                            heappush(heap, far)
                        else:
                            level.append(head)
