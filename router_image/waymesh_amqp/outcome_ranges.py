"""Merges delivery-ids with the same outcome into ranges, for as few dispositions as possible.

Delivery-ids are serial numbers: 0 follows 0xFFFFFFFF. Spec: 2.8.10 (RFC 1982), 2.7.6.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.waymesh_amqp.wire import serial_add, serial_gap
else:
    from waymesh_amqp.wire import serial_add, serial_gap


class OutcomeRanges:
    """Collects ids. `pending`: there are any; `first` to `last`: the current range."""

    def __init__(self) -> None:
        self.pending = False
        self.first = 0
        self.last = 0
        self.earlier: list[tuple[int, int]] = []

    def add(self, did: cython.uint) -> None:
        """Add an id. Nearly all ids arrive in order and extend the current range."""
        if self.pending:
            if serial_add(self.last, 1) == did:
                self.last = did
                return
            self.earlier.append((self.first, self.last))
        self.pending = True
        self.first = did
        self.last = did

    def single(self) -> cython.bint:
        """Whether the range `first` to `last` has all ids."""
        return not self.earlier

    def merged(self) -> list[tuple[int, int]]:
        """All ids as ranges (first, last) that neither overlap nor touch, in serial order.

        The order starts at the first id that was added: ids that are settled in one turn are close together.
        """
        if not self.pending:
            return []
        base: cython.uint = self.first
        if self.earlier:
            base = self.earlier[0][0]
        offsets: list[tuple[int, int]] = []
        for a, z in [*self.earlier, (self.first, self.last)]:
            offset: cython.longlong = serial_gap(a, base)
            length: cython.longlong = serial_gap(z, a)
            offsets.append((offset, offset + length))
        offsets.sort()
        ranges: list[tuple[int, int]] = []
        start, end = offsets[0]
        for a, z in offsets:
            if a > end + 1:
                ranges.append(((base + start) & 0xFFFFFFFF, (base + end) & 0xFFFFFFFF))
                start = end = a
            if z > end:
                end = z
        ranges.append(((base + start) & 0xFFFFFFFF, (base + end) & 0xFFFFFFFF))
        return ranges

    def clear(self) -> None:
        """Forget all ids."""
        self.pending = False
        self.earlier.clear()
