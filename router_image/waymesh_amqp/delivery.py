# cython: boundscheck=False
"""Unsettled deliveries that were forwarded, and the rings that find them by delivery-id. Spec: 2.6.12."""

from __future__ import annotations

from typing import Any

import cython

INITIAL_SLOTS = cython.declare(cython.int, 8)


class Delivery:
    """One unsettled delivery on its way through this router: where it came in and where it went out.

    `link`/`did`: the incoming link and its session's delivery-id (link None: sent by the router itself, or the sender
    is gone). `out`/`oid`: the outgoing link and delivery-id. `sent`: the last frame has gone out. `state`: the last
    one reported that did not settle. `group`, `target` and `sample` belong to the router: what joins the branches
    of a multicast, what is counted down, what is recorded of it.
    """

    def __init__(self) -> None:
        # Any: None or what the handler works with, a link of its own class and records that only it knows
        self.link: Any = None
        self.out: Any = None
        self.group: Any = None
        self.target: Any = None
        self.sample: Any = None
        self.state = b""
        self.did = 0
        self.oid = 0
        self.sent = True


def new_delivery() -> Delivery:
    """A fresh delivery; compiled, it comes from a free list without a call of `__init__`."""
    if cython.compiled:
        d: Delivery = Delivery.__new__(Delivery)
        d.sent = True
        d.state = b""
        return d
    return Delivery()


class DeliveryRing:
    """Deliveries by id at slot `id & mask`; ids are serial numbers, so live ones are close together.

    On collision the ring doubles while it is well filled; else the older delivery (one that its receiver never settles)
    moves to a dict, so that one forgotten delivery does not stretch the ring without bound.

    `by_link`: the deliveries of each link, worked out when links end, and valid until another delivery comes.
    """

    def __init__(self, outgoing: cython.bint) -> None:
        self.outgoing = outgoing
        self.mask = INITIAL_SLOTS - 1
        self.slots: list[Any] = [None] * INITIAL_SLOTS  # a Delivery or None
        self.count = 0
        self.aside: dict[int, Delivery] | None = None
        self.by_link: dict[Any, list[Any]] | None = None

    def put(self, d: Delivery) -> None:
        """Remember d under its id. Raises KeyError where a live delivery has the same id."""
        i: cython.uint = d.oid if self.outgoing else d.did
        while self.slots[i & self.mask] is not None:
            if self.find(i) is not None:
                raise KeyError(i)
            if self.count * 4 >= len(self.slots):
                self.grow()
            else:
                self.set_aside(i & self.mask)
        self.slots[i & self.mask] = d
        self.count += 1
        self.by_link = None

    def set_aside(self, slot: cython.uint) -> None:
        """Move the delivery of a slot to the dict."""
        d: Delivery = self.slots[slot]
        if self.aside is None:
            self.aside = {}
        self.aside[d.oid if self.outgoing else d.did] = d
        self.slots[slot] = None

    def grow(self) -> None:
        """Twice as many slots."""
        old: list[Any] = self.slots
        n: cython.Py_ssize_t = len(old) * 2
        new: list[Any] = [None] * n
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
        if self.aside is not None:
            return self.aside.get(i)
        return None

    def drop(self, d: Delivery) -> None:
        """Forget d, if it is here."""
        i: cython.uint = d.oid if self.outgoing else d.did
        if self.slots[i & self.mask] is d:
            self.slots[i & self.mask] = None
            self.count -= 1
        elif self.aside is not None and self.aside.get(i) is d:
            del self.aside[i]
            self.count -= 1
            if not self.aside:
                self.aside = None

    def live(self) -> list[Any]:
        """All deliveries, in no order."""
        found: list[Any] = [e for e in self.slots if e is not None]
        if self.aside is not None:
            found.extend(self.aside.values())
        return found

    def of(self, link: Any) -> list[Any]:
        """The deliveries of a link that ends, and maybe some that it has no more: all links of a session that end
        together cost one look at each delivery.
        """
        if self.by_link is None:
            self.by_link = {}
            d: Delivery
            for e in self.live():
                d = e
                self.by_link.setdefault(d.out if self.outgoing else d.link, []).append(d)
        return self.by_link.get(link, [])
