"""Spreads the unsettled deliveries of balanced addresses over consumers and other routers, by what they settle.

Measures at what speed each of them settles (`Speed`), keeps the windows of other routers and of edge routers
(`Window`), and remembers the addresses whose waiting deliveries can go on because a window has room again. See
decision 0065.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.speed import Speed
from waymesh_router.core.forwarding.window import Window
from waymesh_router.core.model import Address, RouterLink, Target
from waymesh_router.core.portions import RoundsOfEach

if cython.compiled:
    from cython.cimports.waymesh_router.core.link_kinds import BALANCED
else:
    from waymesh_router.core.link_kinds import BALANCED

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_amqp.delivery import Delivery
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.forwarding.pending_queue import PendingQueue
    from waymesh_router.core.model import Queued
    from waymesh_router.core.portions import Portions

FIRST = cython.declare(cython.double, 4.0)
"""The window of another router, or of an edge router, before anything is known; 1 for one that will tell it, at an
address with autolinks from a broker: so it takes less out of the queue (pacing.py)."""
FIRST_HERE = cython.declare(cython.double, 10.0)
"""The same for a local consumer: most of those that settle in batches need no more."""
BRIEF_S = cython.declare(cython.double, 0.001)
"""A local consumer that needs less time for a delivery gets what its credit allows: what it holds is done soon."""
USUAL_WEIGHT = cython.declare(cython.double, 0.0625)
"""Weight of a settlement in the usual time of an address."""
LOOK_S = cython.declare(cython.double, 0.25)
"""Time between two looks at an address whose deliveries wait."""
WITH_ROOM = cython.declare(cython.int, 1)
"""`PendingQueue.awaited`: neighbours that lead to consumers whose windows have room."""
ALL = cython.declare(cython.int, 2)
"""All that lead to consumers."""
LOOKS = 64
"""Most addresses that are looked at in one tick."""
CONSUMERS = 25
"""Most consumers of an address that are looked at in one portion, at a cost of 1 each."""


class Spread:
    """What is measured, and the addresses that have to be drained because of it."""

    def __init__(self, now: cython.double, portions: Portions) -> None:
        self.now = now  # as in CoreContext, here without the cost of an attribute of Python
        self.freed: dict[Address, None] = {}  # deliveries wait there, and a window has room again
        self.began: dict[Address, None] = {}  # deliveries began to wait there, see Demand
        self._watched: deque[tuple[float, Address]] = deque()  # (when to look at it, address): deliveries wait there
        self._looks = RoundsOfEach(portions, "consumers for which deliveries wait", consumers_of, self.look_at_some)

    # ---- deliveries
    def measure_link(self, out: RouterLink) -> None:
        """Measure a consumer from now on. Edge routers have windows, and those that say how many deliveries they work
        on at a time; others while their address is hungry."""
        out.speed = Speed()
        if out.edge:
            out.window = Window(FIRST)
        elif holds(out):
            out.window = Window(FIRST_HERE, concurrency_of(out))

    def measure_target(self, target: Target) -> None:
        """Measure another router from now on."""
        target.speed = Speed()
        target.window = Window(1.0 if target.address.paced is not None and is_told(target.address) else FIRST)

    def sent_to_link(self, d: Delivery, out: RouterLink) -> None:
        """A delivery was sent to a consumer that is measured."""
        if out.unsettled == 1 or (out.window is not None and holds(out)):
            now: cython.double = self.now
            d.at = now
            if out.unsettled == 1:
                out.speed.began(now)

    def sent_to_target(self, d: Delivery, target: Target) -> None:
        """A delivery was sent to another router that is measured."""
        now: cython.double = self.now
        d.at = now
        if target.outstanding == 1:
            target.speed.began(now)

    def link_settled(self, d: Delivery, out: RouterLink, done: cython.bint) -> None:
        """A consumer that is measured has settled a delivery, which no longer counts. `done`: it was accepted; other
        outcomes say nothing about its speed."""
        address: Address | None = out.address
        if address is None:
            return
        if out.unsettled == 0:
            address.run = 0  # it can begin at once
        now: cython.double = self.now
        if out.window is None:  # most consumers
            if done and out.usable():
                out.speed.settled(now)
                self.learn(address, out.speed, None)
            return
        if done and out.usable():
            if out.window.concurrency != concurrency_of(out):
                out.window = None
                self.measure_link(out)  # anew, as the configuration of the address has changed
                self.freed[address] = None
            else:
                self.learn_time(d, out)
                if d.at > 0.0:
                    out.window.settled(now, d.at, out.unsettled + 1)
                self.learn(address, out.speed, out.window)
        if out.window is not None and address.pending is not None and holds(out):
            self.freed[address] = None

    def learn_time(self, d: Delivery, out: RouterLink) -> None:
        """A consumer with a window has settled a delivery. If it is known how many it works on at a time, the time for
        one is that from sending to settlement, of which it waited there while the consumer had more (Little's law)."""
        now: cython.double = self.now
        if out.window.concurrency == 0:
            out.speed.settled(now)
        elif d.at > 0.0:
            took: cython.double = now - d.at
            concurrency: cython.double = out.window.concurrency
            if out.unsettled + 1 > concurrency:
                took *= concurrency / (out.unsettled + 1)
            out.speed.took(took)

    def target_settled(self, d: Delivery, target: Target, done: cython.bint) -> None:
        """The same for another router."""
        if done and d.at > 0.0:
            now: cython.double = self.now
            target.speed.settled(now)
            target.window.settled(now, d.at, target.outstanding + 1)
            self.learn(target.address, target.speed, target.window)
        if target.address.pending is not None:
            self.freed[target.address] = None

    def learn(self, address: Address, speed: Speed, window: Window | None) -> None:
        """Consumers that are not known yet are expected to be as fast as is usual at the address, as are those that
        settle in batches: if they do not have enough for one, they seem slow."""
        if window is not None and window.batches:
            speed.each = 0.0
        elif address.usual == 0.0:
            address.usual = speed.each
        else:
            address.usual += USUAL_WEIGHT * (speed.each - address.usual)

    # ---- hungry addresses
    def hold(self, out: RouterLink) -> None:
        """Somebody in the mesh waits for the consumers of an address: this one gets what it works on, and a little
        more, whatever its credit; all else waits for who is free first. Those that say how many they work on at a time
        are always held back."""
        if out.speed is None:
            self.measure_link(out)
        if out.window is None:
            out.window = Window(FIRST if out.speed.each > 0.0 else FIRST_HERE, concurrency_of(out))

    def release(self, address: Address) -> None:
        """Nobody waits any more. Windows remain for the next time: a consumer that settles in batches remains known."""
        address.hungry = False
        if address.pending is not None:
            self.freed[address] = None

    # ---- windows that nothing opens
    def watch(self, address: Address) -> None:
        """Deliveries wait at the address: look at its windows after a while, and again."""
        if not address.watched:
            address.watched = True
            self.began[address] = None
            now: cython.double = self.now
            address.held_since = now
            self._watched.append((now + LOOK_S, address))

    def tick(self, now: cython.double) -> None:
        """Look at the addresses for which it is time, a limited number of them."""
        for _ in range(LOOKS):
            if not self._watched or self._watched[0][0] > now:
                return
            address: Address = self._watched.popleft()[1]
            address.watched = False
            if address.pending is not None:
                self.look(address, now)
                address.watched = True
                self.began[address] = None
                self._watched.append((now + LOOK_S, address))

    def look(self, address: Address, now: cython.double) -> None:
        """Let windows grow that are full although nothing was settled for long; those of consumers in portions."""
        since: cython.double = address.held_since
        target: Target
        for t in address.targets.values():
            target = t
            if target.window is not None and target.window.look(now, target.outstanding, since, address.usual):
                self.freed[address] = None
        if address.consumers:
            self._looks.begin_later(address)

    def look_at_some(self, address: Address, left: list[RouterLink]) -> int:
        """Take some consumers from the end of the list, and do the same for their windows; returns the cost."""
        now: cython.double = self.now
        since: cython.double = address.held_since
        count: cython.Py_ssize_t = min(len(left), CONSUMERS)
        out: RouterLink
        _: cython.Py_ssize_t
        for _ in range(count):
            out = left.pop()
            if out.address is not address or out.window is None or out.credit <= 0 or not holds(out):
                continue  # a window stops nobody who has no credit
            if out.window.look(now, out.unsettled, since, address.usual) and address.pending is not None:
                self.freed[address] = None
        return int(count)


def consumers_of(address: Address) -> list[RouterLink]:
    """The local consumers of an address."""
    return address.consumers


# ---- what windows limit
def is_spread(address: Address) -> cython.bint:
    """Whether unsettled deliveries are spread over several consumers or routers by what they settle, or wait for those
    of the highest priority in the mesh, or for the exclusive one."""
    several: cython.bint = len(address.consumers) + len(address.targets) > 1 or address.exclusive is not None
    if address.paced is not None and not several:
        several = is_told(address)
    return several and address.treatment == BALANCED and (address.ranked or not address.prioritized)


def is_told(address: Address) -> cython.bint:
    """Whether another router tells what its consumers can take: of those behind a queue, none does."""
    target: Target
    if not address.key.startswith("M0"):
        return False
    for t in address.targets.values():
        target = t
        if target.node.demand:
            return True
    return False


def is_spread_here(address: Address) -> cython.bint:
    """Whether demand has a meaning for the address: several could ask for its consumers."""
    if address.treatment != BALANCED:
        return False
    return len(address.consumers) > 0 or is_spread(address)


def spread_over_several(address: Address, barred: Connection | None) -> cython.bint:
    """Whether that is so for a delivery that must not go to the edge router of the connection `barred`."""
    if not is_spread(address):
        return False
    if barred is None or len(address.consumers) + len(address.targets) > 2:
        return True
    out: RouterLink
    for e in address.consumers:
        out = e
        if out.connection is barred:
            return False
    return True


def is_full(target: Target) -> cython.bint:
    """Whether the window of another router has no room."""
    return bool(target.window is not None and target.window.full(target.outstanding))


def has_announced_window(target: Target, annotations: Annotations, settled: cython.bint) -> cython.bint:
    """Whether a delivery that enters the mesh here goes to another router because this has told a window: neither that
    router nor one on the way must choose again, or nobody would know how many deliveries are outstanding where."""
    return not settled and not annotations.trace and target.window is not None and target.window.announced >= 0.0


def has_room(out: RouterLink) -> cython.bint:
    """Whether a local consumer with a window may have one more delivery, if windows hold."""
    return not holds(out) or not out.window.full(out.unsettled) or is_brief(out)


def holds(out: RouterLink) -> cython.bint:
    """Whether the window of a local consumer holds: that of an edge router always, and that of one that says how many
    it works on at a time; others at a hungry address."""
    address: Address | None = out.address
    if out.edge or address is None:
        return out.edge
    return address.hungry or (concurrency_of(out) > 0 and not address.prioritized)


def concurrency_of(out: RouterLink) -> cython.int:
    """How many deliveries a consumer works on at a time: what it says itself, or what its address says of clients; 0:
    unknown."""
    address: Address | None = out.address
    if out.concurrency > 0 or out.edge or out.container or address is None:
        return out.concurrency
    return address.concurrency


def is_brief(out: RouterLink) -> cython.bint:
    """Whether a local consumer that is measured needs so little time that it may have what its credit allows."""
    return not out.edge and 0.0 < out.speed.each < BRIEF_S


def windows_hold(address: Address) -> cython.bint:
    """Whether deliveries wait for windows: not while something waits at the address that these do not limit, and that
    would have to wait behind them. It waits only for credit of links between routers, which comes soon."""
    pending: PendingQueue | None = address.pending
    if not is_spread(address):
        return False
    return pending is None or not (pending.settled > 0 or (pending.passing > 0 and not address.consumers))


def limited(address: Address, settled: cython.bint, annotations: Annotations) -> cython.bint:
    """Whether windows limit a delivery: unless it is pre-settled, or only passes a router without consumers."""
    return not settled and (len(address.consumers) > 0 or not annotations.trace)


def overtakes(address: Address, settled: cython.bint, annotations: Annotations) -> cython.bint:
    """Whether a new delivery may overtake all that waits, as this waits for windows, which do not limit it."""
    return not limited(address, settled, annotations) and windows_hold(address)


def passes(address: Address, q: Queued) -> cython.bint:
    """The same for one that was appended to the queue."""
    pending: PendingQueue | None = address.pending
    if pending is None or pending.settled + pending.passing != 1 or not is_spread(address):
        return False
    return not limited(address, q.settled, q.annotations)


def waits_for_consumers(address: Address, q: Queued) -> cython.bint:
    """Whether a delivery that was appended to the queue waits for a consumer, here or behind a window, and not only for
    the credit of a link between routers, which comes soon."""
    if address.consumers:
        return True
    return is_spread(address) and limited(address, q.settled, q.annotations)


# ---- the credit of neighbours
def await_neighbours(address: Address) -> None:
    """The part of `await_credit` that concerns other routers."""
    target: Target
    pending: PendingQueue = address.pending  # type: ignore[assignment]  # some wait
    by_window: cython.bint = windows_hold(address)
    for t in address.targets.values():
        target = t
        if by_window and is_full(target):
            continue
        neighbour = target.neighbour()
        if neighbour is not None and neighbour.connection is not None:
            neighbour.connection.waiting[address] = None
    pending.awaited = WITH_ROOM if by_window else ALL


def is_awaited(address: Address, pending: PendingQueue) -> cython.bint:
    """Whether the queue is checked already when a neighbour issues credit, so that one more delivery changes nothing.

    Whatever changes that calls `await_credit`, or `drain` while deliveries wait: a neighbour has issued credit, windows
    have room again, there are other consumers or paths.
    """
    return pending.awaited == ALL or (pending.awaited == WITH_ROOM and windows_hold(address))
