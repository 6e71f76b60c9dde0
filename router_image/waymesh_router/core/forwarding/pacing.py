"""Autolinks take from their container what the consumers in the mesh are ready for, and little more.

A message that a router has taken from a queue is lost to all who could do it but are not consumers of this mesh, and to
the order of the queue. So the credit of an incoming autolink of a balanced address is what its consumers can take now,
here and as far as other routers have told it, and a look-ahead: as many deliveries as were accepted in a quarter of a
second (`AHEAD_S`), at least one. What waits at the address counts as look-ahead. So the next delivery is here when a
consumer becomes ready, a lone one needs no further round trip, and because one waits, other routers are asked what they
are ready for (demand.py). As before, no more than `linkCapacity` deliveries are unsettled.

Everything is counted for each delivery in constant time; credit is computed once in a turn of the event loop, and of
many consumers some are looked at each time. Decision 0095.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import cython

from waymesh_router.core.forwarding.pace import Pace
from waymesh_router.core.model import Address, RouterLink, Target

if cython.compiled:
    from cython.cimports.waymesh_router.core.forwarding.spread import concurrency_of, holds, is_brief
    from cython.cimports.waymesh_router.core.forwarding.window import enough_for
    from cython.cimports.waymesh_router.core.link_kinds import BALANCED
else:
    from waymesh_router.core.forwarding.spread import concurrency_of, holds, is_brief
    from waymesh_router.core.forwarding.window import enough_for
    from waymesh_router.core.link_kinds import BALANCED

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.spread import Spread

LOOKS = cython.declare(cython.Py_ssize_t, 25)
"""Most consumers, and most other routers, that are looked at in one turn; most links in one tick."""
SETTLED_ONLY = 1
"""snd-settle-mode of a container that sends all deliveries pre-settled."""


class Pacing:
    """The links whose credit follows their consumers."""

    def __init__(self, spread: Spread) -> None:
        self.spread = spread  # its clock
        self.links: dict[RouterLink, None] = {}
        self.changed: list[RouterLink] = []  # to be looked at in this turn
        self.grown: dict[Address, None] = {}  # whose consumers can take more: all links of these are looked at, too

    def begin(self, lk: RouterLink, settle_mode: cython.int) -> None:
        """The container has answered the attach of an incoming link, which has its address and capacity.

        Multicast and closest addresses, and containers that send all deliveries pre-settled, have all credit at once.
        """
        address: Address = lk.address  # type: ignore[assignment]  # the caller has set it
        if settle_mode == SETTLED_ONLY or address.treatment != BALANCED or address.subscriber is not None:
            return
        pace: Pace = Pace(self.spread.now, self.changed)
        lk.pace = pace
        self.links[lk] = None
        if address.paced is None:
            address.paced = {}
        address.paced[lk] = None
        pace.room = room_of(address, lk.capacity)
        lk.held_back = max(lk.capacity - pace.room - pace.ahead, 0)

    def end(self, lk: RouterLink) -> None:
        """The link has ended, or gets all credit from now on."""
        self.links.pop(lk, None)
        lk.pace = None
        lk.held_back = 0
        address: Address = lk.address  # type: ignore[assignment]
        if address.paced is not None:
            address.paced.pop(lk, None)
            if not address.paced:
                address.paced = None
        if lk.accepting and not lk.over:
            lk.grant()

    def room_grew(self, address: Address) -> None:
        """A consumer has issued credit, and nothing waits for it: look at the links to its address in this turn, once
        however many consumers have."""
        self.grown[address] = None

    def touch_grown(self) -> None:
        """The links to the addresses whose consumers can take more have changed."""
        lk: RouterLink
        address: Address
        for a in self.grown:
            address = a
            for e in address.paced or ():
                lk = e
                lk.pace.touch(lk)
        self.grown.clear()

    def run(self) -> None:
        """Issue credit on the links of which something has changed. Called in each turn of the event loop."""
        lk: RouterLink
        if self.grown:
            self.touch_grown()
        if not self.changed:
            return
        changed = list(self.changed)
        self.changed.clear()
        for e in changed:
            lk = e
            if lk.pace is not None:
                lk.pace.look(self.spread.now)
                if not lk.over:
                    self.renew(lk)

    def renew(self, lk: RouterLink) -> None:
        """Set the credit of a link to what its consumers are ready for; the container hears of it if it has little."""
        credit: cython.longlong = self.wanted(lk)
        address: Address = lk.address  # type: ignore[assignment]
        if lk.waiting > 0 and not address.hungry:
            self.spread.began[address] = None  # it may be sent again before `Demand` sees that it waits
        lk.held_back = max(lk.capacity - lk.outstanding - credit, 0)
        more: cython.longlong = credit - lk.credit
        if lk.accepting and more > 0 and (lk.credit <= 0 or more * 4 >= credit):
            lk.grant()

    def wanted(self, lk: RouterLink) -> cython.Py_ssize_t:
        """The credit that a link should have now."""
        pace: Pace = lk.pace
        address: Address = lk.address  # type: ignore[assignment]
        free: cython.longlong = lk.capacity - lk.outstanding
        pace.room = room_of(address, free) if free > 0 else 0
        return max(min(pace.room + pace.ahead - lk.waiting, free), 0)

    def tick(self, now: cython.double) -> None:
        """Look at some links, at all in turn: what consumers take from elsewhere, or take back, is not counted.

        Credit that a container does not use, because it has no messages, is lowered when consumers are ready for less:
        else it would send what comes next to nobody. One that has sent more by then may do so.
        """
        lk: RouterLink
        for e in tuple(islice(self.links, LOOKS)):
            lk = e
            address: Address = lk.address  # type: ignore[assignment]
            if lk.over or lk.presettled > 0 or address.treatment != BALANCED:
                self.end(lk)
                continue
            self.links[lk] = self.links.pop(lk)
            rests: cython.bint = lk.pace.seen == lk.delivery_count
            lk.pace.seen = lk.delivery_count
            if rests:
                lk.pace.rest(now)
            self.renew(lk)
            credit: cython.longlong = self.wanted(lk)
            if rests and lk.accepting and not lk.drain and lk.credit > credit > 0:
                lk.replenish = 0
                lk.set_credit(credit)


def room_of(address: Address, most: cython.longlong) -> cython.Py_ssize_t:
    """The number of deliveries that the consumers of an address can take now, or `most` if there are more. 0 while some
    wait: these get what becomes free."""
    room: cython.longlong = 0
    if address.pending is not None:
        return 0
    links: list[RouterLink] = address.consumers
    n: cython.Py_ssize_t = len(links)
    i: cython.Py_ssize_t = address.turn
    _: cython.Py_ssize_t
    out: RouterLink
    for _ in range(min(n, LOOKS)):
        i += 1
        if i >= n:
            i = 0
        out = links[i]
        if out.credit > 0 and out.attached:
            room += room_here(out)
            if room >= most:
                return most
    left: cython.Py_ssize_t = LOOKS
    target: Target
    for t in address.targets.values():
        target = t
        if left == 0:
            break
        left -= 1
        if target.neighbour() is not None:
            room += room_elsewhere(target)
            if room >= most:
                return most
    return room


def room_here(out: RouterLink) -> cython.Py_ssize_t:
    """What a local consumer with credit can take."""
    concurrency: cython.int = concurrency_of(out)
    if not holds(out) or (concurrency == 0 if out.window is None else is_brief(out)):
        return out.credit
    limit: cython.double = enough_for(concurrency) if out.window is None else out.window.limit
    free: cython.longlong = int(limit) - out.unsettled
    return max(min(free, out.credit), 0)


def room_elsewhere(target: Target) -> cython.Py_ssize_t:
    """What another router can take: what it has told or, as long as it is known that it settles, the window that was
    measured; else one delivery."""
    window: cython.double = 1.0
    if target.window is not None:
        if target.window.announced >= 0.0:
            window = target.window.announced
        elif target.window.least > 0.0:
            window = target.window.limit
    return max(int(window) - target.outstanding, 0)
