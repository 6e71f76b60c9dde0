# cython: boundscheck=False
"""Forwarded unsettled deliveries, and ring buffers that map delivery-ids to them. Spec: 2.6.12."""

from __future__ import annotations

from typing import Any

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import serial_gap
else:
    from waymesh_amqp.wire import serial_gap

INITIAL_SLOTS = cython.declare(cython.int, 8)


@cython.freelist(4096)  # has no effect in the .pxd
@cython.cclass
class Delivery:
    """One unsettled delivery in this router, with its incoming and outgoing link."""

    def __init__(self) -> None:
        # Any: None or an object of the handler, with its own class of links
        self.link: Any = None  # incoming link; None: sent by the router itself, or the sender is gone
        self.out: Any = None  # outgoing link
        self.group: Any = None  # used by the router: joins the branches of a multicast
        self.target: Any = None  # used by the router: the remote router for which it counts as outstanding
        self.sample: Any = None  # used by the router: its telemetry sample
        self.state = b""  # the last reported state that did not settle it
        self.did = 0  # incoming delivery-id
        self.oid = 0  # outgoing delivery-id
        self.at = 0.0  # used by the router: when it was sent, if that is measured
        self.sent = True  # its last frame was sent


def new_delivery() -> Delivery:
    """A new delivery; compiled code takes it from a free list without a call of `__init__`."""
    if cython.compiled:
        d: Delivery = Delivery.__new__(Delivery)
        d.sent = True
        d.state = b""
        return d
    return Delivery()


class DeliveryRing:
    """Deliveries by id, in slot `id & mask`. Ids are serial numbers, so those in use are close together.

    On a collision, a well-filled ring doubles its size. Otherwise the older delivery moves to a dict, so that the ring
    does not grow without limit because of a delivery that its receiver never settles.

    `by_link`: the deliveries of each link, computed when links end, valid until the next delivery.
    """

    def __init__(self, outgoing: cython.bint) -> None:
        self.outgoing = outgoing
        self.mask = INITIAL_SLOTS - 1
        self.slots: list[Delivery | None] = [None] * INITIAL_SLOTS
        self.count = 0
        self.overflow: dict[int, Delivery] | None = None
        self.by_link: dict[object, list[Delivery]] | None = None

    def put(self, d: Delivery) -> cython.bint:
        """Store d under its id. False if the id is in use."""
        i: cython.uint = d.oid if self.outgoing else d.did
        while self.slots[i & self.mask] is not None:
            if self.find(i) is not None:
                return False
            if self.count * 4 >= len(self.slots):
                self.grow()
            else:
                self.move_to_overflow(i & self.mask)
        self.slots[i & self.mask] = d
        self.count += 1
        if self.by_link is not None:
            self.by_link = None
        return True

    def move_to_overflow(self, slot: cython.uint) -> None:
        """Move the delivery of a slot to the dict."""
        d: Delivery = self.slots[slot]
        if self.overflow is None:
            self.overflow = {}
        self.overflow[d.oid if self.outgoing else d.did] = d
        self.slots[slot] = None

    def keep_ahead(self, first: cython.uint) -> None:
        """A half of all ids begins with `first`. Move deliveries that have ids of it since the last wrap to the dict:
        new ids are compared only while it is not empty, as those of later deliveries come up only in the next half."""
        d: Delivery
        for e in list(self.slots):
            if e is not None:
                d = e
                if serial_gap(d.oid, first) >= 0:
                    self.move_to_overflow(d.oid & self.mask)

    def grow(self) -> None:
        """Double the number of slots."""
        old: list[Delivery | None] = self.slots
        n: cython.Py_ssize_t = len(old) * 2
        new: list[Delivery | None] = [None] * n
        self.mask = n - 1
        d: Delivery
        for e in old:
            if e is not None:
                d = e
                new[(d.oid if self.outgoing else d.did) & self.mask] = d
        self.slots = new

    def find(self, i: cython.uint) -> Delivery | None:
        """The delivery with id i."""
        e = self.slots[i & self.mask]
        if e is not None:
            d: Delivery = e
            if (d.oid if self.outgoing else d.did) == i:
                return d
        if self.overflow is not None:
            return self.overflow.get(i)
        return None

    def take(self, i: cython.uint) -> Delivery | None:
        """Remove and return the delivery with id i."""
        e = self.slots[i & self.mask]
        if e is not None:
            d: Delivery = e
            if (d.oid if self.outgoing else d.did) == i:
                self.slots[i & self.mask] = None
                self.count -= 1
                return d
        if self.overflow is None:
            return None
        found = self.overflow.get(i)
        if found is not None:
            self.drop(found)
        return found

    def drop(self, d: Delivery) -> None:
        """Remove d, if it is stored."""
        i: cython.uint = d.oid if self.outgoing else d.did
        if self.slots[i & self.mask] is d:
            self.slots[i & self.mask] = None
            self.count -= 1
        elif self.overflow is not None and self.overflow.get(i) is d:
            del self.overflow[i]
            self.count -= 1
            if not self.overflow:
                self.overflow = None

    def live(self) -> list[Delivery]:
        """All deliveries, in no order."""
        found: list[Delivery] = [e for e in self.slots if e is not None]
        if self.overflow is not None:
            found.extend(self.overflow.values())
        return found

    def span(self, first: cython.uint, count: cython.longlong) -> list[Delivery]:
        """The deliveries with one of `count` ids from `first` on, and perhaps others; the last one first."""
        size: cython.Py_ssize_t = len(self.slots)
        start: cython.Py_ssize_t = first & self.mask
        end: cython.Py_ssize_t = start + min(count, size)
        found: list[Delivery | None] = self.slots[start:end] + self.slots[: max(end - size, 0)]
        if self.overflow is not None:
            found.extend(self.overflow.values())
        found.reverse()
        return [e for e in found if e is not None]

    def of(self, link: object) -> list[Delivery]:
        """The deliveries of a link that ends, and perhaps some that have left it already.

        If all links of a session end together, each delivery is examined once only. A link is asked for once, and then
        forgotten: else it and its session would keep each other until the collector examines all objects, once an hour.
        """
        if self.by_link is None:
            self.by_link = {}
            d: Delivery
            for e in self.live():
                d = e
                self.by_link.setdefault(d.out if self.outgoing else d.link, []).append(d)
        return self.by_link.pop(link, [])
