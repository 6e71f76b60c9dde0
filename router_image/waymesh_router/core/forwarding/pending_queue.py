# cython: boundscheck=False
"""The deliveries that wait at one address, in order of arrival, and those from edge routers grouped by connection.

A delivery from an edge router must not return on the connection on which it came (protocol/edge.md "No echo"): that
connection bars it. So it may have to wait while later deliveries from elsewhere can be sent. All deliveries that the
same connection bars form a group, and so do all others. Within a group, none overtakes another. No operation examines
the deliveries behind the first one of a group, however many wait.

Those that came from other routers are a group, too: their ingress routers may have sent them to the consumers of this
router, so that they do not go elsewhere. They and those that entered the mesh here take turns, so that neither stops
the other. The group does not depend on what an ingress router has chosen: it chooses only while it knows windows, and
later deliveries of a link would overtake earlier ones (decision 0085).

Deliveries of message groups (groups.py) wait here only until it is known where their group is. Those of each slot are a
group, which `first` does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import cython

if TYPE_CHECKING:
    from waymesh_router.core.model import Queued, RouterConnection, RouterLink

MANY_LEFT = cython.declare(cython.Py_ssize_t, 64)
"""A group is compacted when more than this number of places, and more than half of them, are empty."""


class PendingGroup:
    """Deliveries in order of arrival. `items[at]` is the first one. A list, because compiled code reads it without a
    call, unlike a deque. Each place is compared with the length of the list before it is read.
    """

    def __init__(self) -> None:
        self.items: list[Any] = []  # None: has left
        self.at = 0
        self.base = 0  # `Queued.place` of items[0]
        self.count = 0

    def append(self, q: Queued) -> None:
        q.place = self.base + len(self.items)
        self.items.append(q)
        self.count += 1

    def first(self) -> Queued:
        """The oldest delivery; the group must not be empty."""
        q: Queued = self.items[self.at]
        return q

    def waiting(self) -> list[Any]:
        """All deliveries, in order."""
        return [e for e in self.items if e is not None]

    def remove(self, q: Queued) -> cython.bint:
        """Remove a delivery; False if it is not in the group."""
        items: list[Any] = self.items
        n: cython.Py_ssize_t = len(items)
        i: cython.Py_ssize_t = q.place - self.base
        at: cython.Py_ssize_t = self.at
        if i < 0 or i >= n or items[i] is not q:
            return False
        items[i] = None
        self.count -= 1
        if i == at:
            at += 1
            while at < n and items[at] is None:
                at += 1
            self.at = at
        if at > MANY_LEFT and at * 2 > n:
            del items[:at]
            self.base += at
            self.at = 0
        elif n - at > 2 * self.count + MANY_LEFT:
            self.compact()
        return True

    def compact(self) -> None:
        """Free the places of deliveries that left from among the others."""
        q: Queued
        place: cython.Py_ssize_t
        self.items = self.waiting()
        for place, e in enumerate(self.items):
            q = e
            q.place = place
        self.at = self.base = 0


class PendingWalk:
    """A walk over the deliveries of a group, the newest ones first."""

    def __init__(self, group: PendingGroup) -> None:
        self.group = group
        self.left = len(group.items)  # places that it has not reached

    def some(self, count: cython.Py_ssize_t) -> list[Any]:
        """The next deliveries, in order of arrival; None: one has left. [] at the end.

        Places only move to the front, so none is left out that does not arrive or leave meanwhile.
        """
        end: cython.Py_ssize_t = min(self.left, len(self.group.items))
        self.left = max(end - count, 0)
        return self.group.items[self.left : end]


class PendingQueue:
    """The groups of one address."""

    def __init__(self) -> None:
        self.count = 0
        self.settled = 0  # pre-settled deliveries
        self.passing = 0  # unsettled deliveries that came from other routers
        self.awaited = 0  # neighbours of which `PendingDeliveries.await_credit` waits for credit
        self.free = PendingGroup()  # deliveries that entered the mesh here
        self.mesh = PendingGroup()  # those from other routers
        self.mesh_waits = False  # `first` ignores them
        self.free_waits = False  # `first` ignores those of `free`
        self.free_next = False  # one of them was sent last
        self.grouped: dict[int, PendingGroup] | None = None  # deliveries of message groups, by slot
        self.grouped_count = 0
        self.barred: dict[RouterConnection, PendingGroup] | None = None  # by the connection that bars them
        # (arrival of the first delivery, id and connection) of each group of `barred` that is not passed over. If that
        # delivery was removed, `oldest_barred` corrects the entry.
        self.heads: list[tuple[int, int, RouterConnection]] = []
        self.passed_over: list[RouterConnection] = []

    def __len__(self) -> int:
        return int(self.count)

    def __iter__(self) -> Iterator[Queued]:
        found: list[Any] = self.free.waiting() + self.mesh.waiting()
        if self.barred is not None:
            group: PendingGroup
            for e in self.barred.values():
                group = e
                found += group.waiting()
        if self.grouped is not None:
            for e in self.grouped.values():
                group = e
                found += group.waiting()
        if self.barred is not None or self.grouped is not None or (self.mesh.count and self.free.count):
            found.sort(key=_arrival)
        return iter(found)

    def walks(self) -> list[Any]:
        """A walk over each group."""
        found: list[Any] = [self.free, self.mesh]
        if self.barred is not None:
            found += self.barred.values()
        if self.grouped is not None:
            found += self.grouped.values()
        return [PendingWalk(group) for group in found]

    def may_be_overtaken(self) -> cython.bint:
        """Whether deliveries wait that a connection bars or that came from other routers: others may overtake them."""
        return self.barred is not None or self.grouped is not None or self.mesh.count > 0

    def own(self) -> int:
        """Number of unsettled deliveries that entered the mesh here, without those of message groups."""
        return int(self.count - self.settled - self.passing - self.grouped_count)

    def free_for(self, connection: RouterConnection) -> int:
        """Number of deliveries that this connection does not bar."""
        if self.barred is None:
            return int(self.count)
        found = self.barred.get(connection)
        if found is None:
            return int(self.count)
        group: PendingGroup = found
        return int(self.count - group.count)

    def append(self, q: Queued) -> None:
        """A delivery begins to wait, for any consumer, also if it had been meant for those of another router."""
        if q.annotations.original is not None:
            q.annotations = q.annotations.original
        if q.slot and q.address.groups is None:
            q.slot = 0
        lk: RouterLink | None = q.link
        self.count += 1
        self.count_kind(q, 1)
        if q.slot:
            self.group_in(q.slot).append(q)
        elif lk is not None and lk.edge and q.barring() is not None:
            self.group_barred_by(lk.connection, q.arrival).append(q)
        elif q.annotations.trace:
            self.mesh.append(q)
        else:
            self.free.append(q)

    def group_in(self, slot: cython.int) -> PendingGroup:
        """The deliveries of a slot."""
        if self.grouped is None:
            self.grouped = {}
        found = self.grouped.get(slot)
        if found is None:
            found = self.grouped[slot] = PendingGroup()
        group: PendingGroup = found
        return group

    def group_barred_by(self, connection: RouterConnection, arrival: cython.longlong) -> PendingGroup:
        """The group of a connection; if it is new, its first delivery is the one with this number of arrival."""
        if self.barred is None:
            self.barred = {}
        found = self.barred.get(connection)
        if found is None:
            found = self.barred[connection] = PendingGroup()
            heappush(self.heads, (arrival, connection.id, connection))
        group: PendingGroup = found
        return group

    def first_of_all(self) -> Queued | None:
        """As `first`; if there is none, a delivery of a message group."""
        group: PendingGroup
        q: Queued | None = self.first()
        if q is not None:
            return q
        for e in (self.grouped or {}).values():
            group = e
            return group.first()
        return None

    def group_of(self, q: Queued) -> PendingGroup | None:
        """The group to which a delivery belongs, if it waits here."""
        if q.slot:
            return self.grouped.get(q.slot) if self.grouped is not None else None
        if self.barred is None:
            return self.mesh if q.annotations.trace else self.free
        lk: RouterLink | None = q.barring()
        if lk is None:
            return self.mesh if q.annotations.trace else self.free
        return self.barred.get(lk.connection)

    def leads(self, q: Queued) -> cython.bint:
        """Whether a delivery is the first of its group."""
        group: PendingGroup | None = self.group_of(q)
        return group is not None and group.count > 0 and group.first() is q

    def first(self) -> Queued | None:
        """The oldest delivery, except those of groups that are passed over; None if there is no other."""
        if self.mesh.count == 0 or self.mesh_waits:
            if self.barred is None and self.free.count > 0 and not self.free_waits:
                return self.free.first()
            return self.first_here()
        if not (self.free_next and self.count > self.mesh.count):
            return self.mesh.first()
        own = self.first_here()
        return self.mesh.first() if own is None else own

    def first_here(self) -> Queued | None:
        """The oldest delivery that entered the mesh here or at an edge router, as of `first`."""
        q: Queued
        oldest: Queued
        from_here: cython.bint = self.free.count > 0 and not self.free_waits
        if self.barred is None:
            return self.free.first() if from_here else None
        head = self.oldest_barred()
        if not from_here:
            return head
        q = self.free.first()
        if head is not None:
            oldest = head
            if oldest.arrival < q.arrival:
                return oldest
        return q

    def oldest_barred(self) -> Queued | None:
        """The oldest delivery of the groups in `heads`; removes empty groups that it finds."""
        group: PendingGroup
        q: Queued
        barred: dict[RouterConnection, PendingGroup] = self.barred  # type: ignore[assignment]  # the caller has checked
        while self.heads:
            arrival, number, connection = self.heads[0]
            group = barred[connection]
            if group.count:
                q = group.first()
                if q.arrival == arrival:
                    return q
                heappop(self.heads)
                heappush(self.heads, (q.arrival, number, connection))
            else:
                heappop(self.heads)
                del barred[connection]
        if not self.passed_over:
            self.barred = None
        return None

    def pass_over(self) -> None:
        """`first` ignores the group of the delivery that it returns until `restore`; this may not go anywhere."""
        q: Queued = self.first()  # type: ignore[assignment]  # the caller has looked at it
        if q.barring() is not None:
            self.passed_over.append(heappop(self.heads)[2])
        elif q.annotations.trace:
            self.mesh_waits = True
        else:
            self.free_waits = True

    def restore(self) -> None:
        """End `pass_over`."""
        self.mesh_waits = self.free_waits = False
        passed_over = self.passed_over
        self.passed_over = []
        group: PendingGroup
        for connection in passed_over:
            group = self.barred[connection]  # type: ignore[index]  # it is kept while it is in `passed_over`
            if group.count:
                heappush(self.heads, (group.first().arrival, connection.id, connection))
            else:
                del self.barred[connection]  # type: ignore[union-attr]

    def remove(self, q: Queued) -> cython.bint:
        """Remove a delivery, if it waits here; returns whether it did."""
        group: PendingGroup | None = self.group_of(q)
        if group is None or not group.remove(q):
            return False
        self.count -= 1
        self.count_kind(q, -1)
        if q.slot:
            if group.count == 0:
                del self.grouped[q.slot]  # type: ignore[union-attr]  # `group` is in it
                self.grouped = self.grouped or None
            return True
        self.free_next = group is self.mesh
        return True

    def count_kind(self, q: Queued, change: cython.int) -> None:
        """Count a delivery that has come or left."""
        if q.slot:
            self.grouped_count += change
        elif q.settled:
            self.settled += change
        elif q.annotations.trace:
            self.passing += change
        elif q.link is not None:
            q.link.waiting += change
            if q.link.pace is not None:
                q.link.pace.touch(q.link)


def _arrival(q: Queued) -> int:
    return q.arrival
