# cython: boundscheck=False
"""Merges delivery-ids with the same outcome into ranges, for as few dispositions as possible.

Delivery-ids are serial numbers: 0 follows 0xFFFFFFFF. Spec: 2.8.10 (RFC 1982), 2.7.6.

Several consumers settle the deliveries of one sender in any order, but those of a turn of the event loop have ids that
are close together. So ids are marked in an array instead of being sorted, without an object of Python for each of them.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import serial_add, serial_gap
else:
    from waymesh_amqp.wire import serial_add, serial_gap

MARKS = cython.declare(cython.longlong, 2048)
"""Ids that can be marked: as many before the first one as from it on. Ranges with others are sorted."""


class OutcomeRanges:
    """Collects ids. `pending`: there are any; `first` to `last`: the current range."""

    def __init__(self) -> None:
        self.pending = False
        self.first = 0
        self.last = 0
        # earlier ranges
        self.marks: bytearray | None = None  # 1 for each of their ids, by its distance from `base`
        self.base = 0
        self.low = 0  # the first one that is marked, and the last one
        self.high = 0
        self.far: list[tuple[int, int]] | None = None  # those that `marks` does not reach

    def add(self, did: cython.uint) -> None:
        """Add an id. Nearly all ids arrive in order and extend the current range."""
        if self.pending and serial_add(self.last, 1) == did:
            self.last = did
        else:
            if self.pending:
                self.put_aside()
            self.pending = True
            self.first = self.last = did

    def single(self) -> cython.bint:
        """Whether the range `first` to `last` has all ids."""
        return self.marks is None and self.far is None

    def put_aside(self) -> None:
        """The current range becomes an earlier one."""
        if self.marks is None:
            self.marks = bytearray(MARKS)
            self.base = (self.first - MARKS // 2) & 0xFFFFFFFF
            self.low = MARKS
            self.high = -1
        marks: bytearray = self.marks
        start: cython.longlong = serial_gap(self.first, self.base)
        end: cython.longlong = start + serial_gap(self.last, self.first)
        if 0 <= start <= end < MARKS:
            self.low = min(self.low, start)
            self.high = max(self.high, end)
            while start <= end:
                marks[start] = 1
                start += 1
        else:
            if self.far is None:
                self.far = []
            self.far.append((self.first, self.last))

    def take(self) -> cython.bint:
        """Make the next range the current one and forget it. False if none is left: then `clear` must be called.

        The ranges neither overlap nor touch. They come in serial order, in which no id is further from the first one
        that was added than half of all numbers.
        """
        if self.pending:
            self.put_aside()
            self.pending = False
            if self.far is not None:
                self.far = self.sorted_ranges()
        if self.far is not None:
            if not self.far:
                return False
            self.first, self.last = self.far.pop()
            return True
        return self.marks is not None and self.take_marked()

    def take_marked(self) -> cython.bint:
        """`take` where only marks are left."""
        marks: bytearray = self.marks  # type: ignore[assignment]  # `take` has made them
        at: cython.longlong = self.low
        high: cython.longlong = self.high
        while at <= high and marks[at] == 0:
            at += 1
        if at > high:
            return False
        self.first = (self.base + at) & 0xFFFFFFFF
        while at <= high and marks[at] != 0:
            at += 1
        self.last = (self.base + at - 1) & 0xFFFFFFFF
        self.low = at
        return True

    def sorted_ranges(self) -> list[tuple[int, int]]:
        """All ranges, merged, the last one first."""
        offsets: list[tuple[int, int]] = []
        start: cython.longlong
        end: cython.longlong
        for a, z in self.far or ():
            start = serial_gap(a, self.base)
            offsets.append((start, start + serial_gap(z, a)))
        while self.take_marked():
            start = serial_gap(self.first, self.base)
            offsets.append((start, start + serial_gap(self.last, self.first)))
        offsets.sort()
        base: cython.uint = self.base
        ranges: list[tuple[int, int]] = []
        start, end = offsets[0]
        for a, z in offsets:
            if a > end + 1:
                ranges.append(((base + start) & 0xFFFFFFFF, (base + end) & 0xFFFFFFFF))
                start = end = a
            if z > end:
                end = z
        ranges.append(((base + start) & 0xFFFFFFFF, (base + end) & 0xFFFFFFFF))
        ranges.reverse()
        return ranges

    def clear(self) -> None:
        """Forget all ids."""
        self.pending = False
        self.marks = None
        self.far = None
