"""Selects the outgoing link for the next delivery of an address.

Routing chapter "Message Distribution", inter-router.md Paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.core.addresses.keys import RELAYED

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.priorities import leads_to_leader, pick_prioritized
    from cython.cimports.waymesh_router.core.forwarding.spread import (
        concurrency_of,
        has_room,
        is_full,
        limited,
        spread_over_several,
        windows_hold,
    )
    from cython.cimports.waymesh_router.core.forwarding.target_lists import by_load, load_of, nearest, ways, ways_from
    from cython.cimports.waymesh_router.core.link_kinds import CLOSEST, DEFAULT_PRIORITY
else:
    from waymesh_router.core.forwarding.priorities import leads_to_leader, pick_prioritized
    from waymesh_router.core.forwarding.spread import (
        concurrency_of,
        has_room,
        is_full,
        limited,
        spread_over_several,
        windows_hold,
    )
    from waymesh_router.core.forwarding.target_lists import by_load, load_of, nearest, ways, ways_from
    from waymesh_router.core.link_kinds import CLOSEST, DEFAULT_PRIORITY

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.spread import Spread
    from waymesh_router.core.model import Address, Node, RouterConnection, RouterLink, Target

LIMITLESS = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
"""Larger than any number of deliveries."""
NEVER = cython.declare(cython.double, 1e300)
"""Longer than any time, in seconds."""
SLOW = cython.declare(cython.double, 1.5)
"""An idle consumer gets the next delivery at once unless it needs more than the usual time, times this."""
RUN = cython.declare(cython.longlong, 4)
"""Most deliveries that a consumer gets after one another without a comparison with the others."""
RUN_PART = cython.declare(cython.longlong, 64)
"""One for so many that are outstanding there: its time to settle them hardly changes."""


class ConsumerChoice:
    """Selects among local consumers and data links toward remote routers."""

    def __init__(self, spread: Spread) -> None:
        self.spread = spread
        self.priority = DEFAULT_PRIORITY  # priority of the current delivery: it selects the data link
        self.settled = False  # whether the current delivery is pre-settled
        self.slot = 0  # of the message group of the delivery that arrives, see groups.py; 0: none
        self.picked: Target | None = None  # the remote router selected by the last `pick`, None for a local consumer
        self.paths = 0  # counts changes of the paths to remote routers
        self.barred: Connection | None = None  # edge router of the delivery, to which it must not return

    def pick(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """A ready link for the next delivery of an anycast address; sets `picked`."""
        self.picked = None
        if len(address.consumers) == 1 and not address.targets:
            only: RouterLink = address.consumers[0]
            return only if only.connection is not self.barred and only.ready() else None
        if address.prioritized:
            first: RouterLink | None = pick_prioritized(self, address, annotations)
            return first
        if address.treatment == CLOSEST:
            return self.pick_closest(address, annotations)
        if self.settled or not spread_over_several(address, self.barred):
            return self.pick_balanced(address, annotations)
        return pick_soonest(self, address, annotations)

    def pick_elsewhere(self, address: Address, annotations: Annotations, lk: RouterLink) -> RouterLink | None:
        """Like `pick`, for a delivery from an edge router: not back to it. Source: protocol/edge.md "No echo"."""
        self.barred = lk.connection
        try:
            return self.pick(address, annotations)
        finally:
            self.barred = None

    def only_ready(self, address: Address, out: RouterLink) -> cython.bint:
        """Whether `out`, which has issued credit, is the only ready consumer: `pick` selects it as long as it is ready.
        The others are examined only if one of them may have credit, see `Address.lone`."""
        lone: RouterLink | None = address.lone
        address.lone = out if lone is out or (lone is not None and lone.credit <= 0) else None
        if address.targets or address.exclusive is not None or not self.takes(address, out):
            return False
        links: list[RouterLink] = address.consumers
        n: cython.Py_ssize_t = len(links)
        i: cython.Py_ssize_t = out.place
        if address.lone is not None and 0 <= i < n and links[i] is out:
            address.turn = i
            return True
        found: cython.Py_ssize_t = -1
        alone: cython.bint = True  # no other has credit
        other: RouterLink
        for i in range(n):
            other = links[i]
            if other is out:
                found = i
            elif other.credit > 0:
                if address.prioritized or self.takes(address, other):
                    return False
                alone = False
        if found < 0:
            return False
        address.turn = out.place = found
        address.lone = out if alone else None
        return True

    def any_ready(self, address: Address) -> cython.bint:
        """Whether any consumer is ready, for whichever delivery."""
        out: RouterLink
        target: Target
        for e in address.consumers:
            out = e
            if self.takes(address, out):
                return True
        by_window: cython.bint = windows_hold(address)
        for t in address.targets.values():
            target = t
            if by_window and is_full(target):
                continue
            if target.link is not None:
                if target.link.ready():
                    return True
                continue
            neighbour: Node | None = target.neighbour()
            if neighbour is not None and neighbour.connection is not None:
                for e in neighbour.connection.data_out:
                    out = e
                    if out.ready():
                        return True
        return False

    def pick_closest(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """Round-robin among the nearest: local consumers, else the remote routers with the lowest cost."""
        links: list[RouterLink] = address.consumers
        n: cython.Py_ssize_t = len(links)
        i: cython.Py_ssize_t = address.turn
        _: cython.Py_ssize_t
        out: RouterLink
        found_local: cython.bint = False
        for _ in range(n):
            i += 1
            if i >= n:
                i = 0
            out = links[i]
            if out.connection is self.barred:
                continue
            found_local = True
            if out.ready():
                address.turn = i
                return out
        return None if found_local else self.pick_nearest(address, annotations)

    def pick_nearest(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """Round-robin among the remote routers with the lowest cost."""
        targets = nearest(address, self.paths)
        n: cython.Py_ssize_t = len(targets)
        i: cython.Py_ssize_t = address.turn
        _: cython.Py_ssize_t
        target: Target
        for _ in range(n):
            i += 1
            if i >= n:
                i = 0
            target = targets[i]
            found = self.remote_link(target, annotations)
            if found is not None and found.ready():
                address.turn = i
                self.picked = target
                return found
        return None

    def pick_balanced(self, address: Address, annotations: Annotations) -> RouterLink | None:
        """The path with the fewest unsettled deliveries; the cost of a remote path counts as additional deliveries."""
        links: list[RouterLink] = address.consumers
        n: cython.Py_ssize_t = len(links)
        i: cython.Py_ssize_t = address.turn
        _: cython.Py_ssize_t
        best: RouterLink | None = None
        least: cython.longlong = LIMITLESS
        out: RouterLink
        for _ in range(n):
            i += 1
            if i >= n:
                i = 0
            out = links[i]
            if out.unsettled < least and out.credit > 0 and out.connection is not self.barred and out.ready():
                best = out
                least = out.unsettled
                address.turn = i
                if least == 0:
                    return best
        return self.pick_remote(address, annotations, best, least) if address.targets else best

    def takes(self, address: Address, out: RouterLink) -> cython.bint:
        """Whether a local consumer is ready, and its window, if it has one, has room."""
        if out.window is None:
            if not address.hungry and concurrency_of(out) == 0:
                return out.ready()
            self.spread.hold(out)
        room: cython.bint = has_room(out) or not windows_hold(address)
        return room and out.ready()

    def pick_remote(
        self, address: Address, annotations: Annotations, best: RouterLink | None, least: cython.longlong
    ) -> RouterLink | None:
        """The remote path with the lowest load if it is below `least`, else `best`."""
        load: cython.longlong
        target: Target
        order = by_load(address, self.paths)
        if order is not None:
            for t in order:
                target = t
                if load_of(target) >= least:
                    break
                found = self.remote_link(target, annotations)
                if found is not None and found.ready():
                    self.picked = target
                    return found
            return best
        for t in address.targets.values():
            target = t
            load = load_of(target)
            if load < least:
                found = self.remote_link(target, annotations)
                if found is not None and found.ready():
                    best = found
                    least = load
                    self.picked = target
        return best

    def remote_link(self, target: Target, annotations: Annotations) -> RouterLink | None:
        """The link toward a remote router, if it is a valid path for the ingress router of the delivery.

        At an edge router, a delivery with another router in its trace came from the uplink, and does not return to it.
        """
        if target.link is not None:
            return None if annotations.trace else target.link
        neighbour: Node | None = target.neighbour()
        if neighbour is None or neighbour.connection is None:
            return None
        if annotations.trace:
            if neighbour.id in annotations.trace:
                return None
            if annotations.ingress not in target.node.valid_origins:
                return None
        link: RouterLink | None = neighbour.connection.data_link(self.priority)
        return link

    def has_path(self, address: Address, annotations: Annotations) -> cython.bint:
        """Whether `pick` can find a link for the delivery, now or after a consumer issues credit."""
        if address.exclusive is not None:
            return leads_to_leader(self, address, annotations)
        if self.has_local(address) or address.key.startswith(RELAYED):
            return True
        target: Target
        for t in nearest(address, self.paths) if address.treatment == CLOSEST else address.targets.values():
            target = t
            if self.remote_link(target, annotations) is not None:
                return True
        return False

    def has_local(self, address: Address) -> cython.bint:
        """Whether the delivery may go to a local consumer."""
        if self.barred is None:
            return len(address.consumers) > 0
        out: RouterLink
        for e in address.consumers:
            out = e
            if out.connection is not self.barred:
                return True
        return False

    def has_path_elsewhere(self, address: Address, annotations: Annotations, lk: RouterLink) -> cython.bint:
        """Whether `pick_elsewhere` can find a link, now or after a consumer issues credit."""
        self.barred = lk.connection
        try:
            return self.has_path(address, annotations)
        finally:
            self.barred = None

    def all_links(self, address: Address, annotations: Annotations, came_by: object) -> list[RouterLink]:
        """For multicast: local consumers, and one link to each neighbour that leads to remote consumers.

        The neighbours are those on the ingress router's tree, without the connection `came_by` of the message.
        """
        target: Target
        neighbour: Node | None
        if not address.targets:
            return address.consumers
        outs: list[RouterLink] = list(address.consumers)
        seen: dict[RouterConnection | None, None] = {}
        enters: cython.bint = came_by is None and not annotations.trace
        for t in ways(address, self.paths) if enters else ways_from(address, annotations, self.paths):
            target = t
            neighbour = target.neighbour()
            if neighbour is None or neighbour.connection is came_by or neighbour.connection in seen:
                continue
            found = self.remote_link(target, annotations)
            if found is not None:
                seen[neighbour.connection] = None
                outs.append(found)
        return outs


def pick_soonest(choice: ConsumerChoice, address: Address, annotations: Annotations) -> RouterLink | None:
    """Where the delivery will probably be settled first, by the number of those outstanding there and the time that
    each takes; a consumer that can begin at once and is not much slower than usual is soon enough. Where many are
    outstanding, the consumer that was found gets some more before the others are compared again, see `RUN`."""
    links: list[RouterLink] = address.consumers
    n: cython.Py_ssize_t = len(links)
    i: cython.Py_ssize_t = address.turn
    _: cython.Py_ssize_t
    best: RouterLink | None = None
    least: cython.double = NEVER
    out: RouterLink
    usual: cython.double = address.usual if address.usual > 0.0 else 1.0
    each: cython.double
    cost: cython.double
    rounds: cython.double
    if address.run > 0:
        if i < n and not address.targets:
            out = links[i]
            if out.credit > 0 and out.connection is not choice.barred and choice.takes(address, out):
                address.run -= 1
                return out
        address.run = 0
    for _ in range(n):
        i += 1
        if i >= n:
            i = 0
        out = links[i]
        if out.credit <= 0:
            continue
        if out.speed is None:
            choice.spread.measure_link(out)
        each = out.speed.each or usual
        rounds = out.unsettled + 1
        if out.window is not None and out.window.concurrency > 1:
            rounds = max(rounds / out.window.concurrency, 1.0)
        cost = rounds * each
        if cost < least and out.connection is not choice.barred and choice.takes(address, out):
            best = out
            least = cost
            address.turn = i
            if rounds == 1.0 and each <= SLOW * usual:
                return best
    if not address.targets and best is not None and best.window is None:
        address.run = min(best.unsettled // RUN_PART, RUN)
    if not address.targets or (annotations.here and n > 0):
        return best
    return pick_soonest_remote(choice, address, annotations, best, least)


def pick_soonest_remote(
    choice: ConsumerChoice, address: Address, annotations: Annotations, best: RouterLink | None, least: cython.double
) -> RouterLink | None:
    """The remote path with the least expected time if it is below `least`, else `best`.

    Without a ready local consumer, the windows limit what is sent, as a consumer here could take it soon; those that
    other routers have told do so always. What is on its way through this router to consumers elsewhere is not limited:
    it would stop a link between routers.
    """
    usual: cython.double = address.usual if address.usual > 0.0 else 1.0
    each: cython.double
    cost: cython.double
    by_window: cython.bint = limited(address, False, annotations) and windows_hold(address)
    none_here: cython.bint = best is None
    target: Target
    for t in address.targets.values():
        target = t
        if target.speed is None:
            choice.spread.measure_target(target)
        each = target.speed.each if target.speed.each > 0.0 else usual
        cost = (load_of(target) + 1) * each
        if cost < target.window.least:
            cost = target.window.least
        if cost < least:
            if by_window and (none_here or target.window.announced >= 0.0) and is_full(target):
                continue
            found = choice.remote_link(target, annotations)
            if found is not None and found.ready():
                best = found
                least = cost
                choice.picked = target
    return best
