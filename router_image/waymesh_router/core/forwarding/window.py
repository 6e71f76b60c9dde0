"""How many deliveries of an address may be outstanding at another router, or at an edge router.

Nothing says how many consumers are ready there. The window follows from the time between sending and settlement: while
consumers are idle, more deliveries take no longer; once all are busy, each further delivery waits. So of the
outstanding ones, the share that is being worked on is the least time by the average one (Little's law); half as many
more may wait, so that no consumer does. The least time is measured again now and then, with a third of the window:
consumers come and go, and jobs change.
"""

from __future__ import annotations

import cython

FIRST = cython.declare(cython.double, 4.0)
"""The window before anything is known, and a larger one after two deliveries were settled one by one."""
WEIGHT = cython.declare(cython.double, 0.1)
"""Weight of a settlement in the average time."""
MORE = cython.declare(cython.double, 1.5)
"""The window by the number of deliveries that are being worked on; this many more are added."""
PART = cython.declare(cython.double, 3.0)
"""The least time is measured with this part of the window: less than two thirds, or the window would only grow."""
CYCLE = cython.declare(cython.double, 32.0)
LEAST_CYCLE = cython.declare(cython.double, 64.0)
"""It is measured again after this multiple of the window in settlements, and at least this number."""
SAMPLES = cython.declare(cython.longlong, 4)
"""Least number of settlements of such a measurement."""
PATIENCE_S = cython.declare(cython.double, 0.25)
PATIENCE = cython.declare(cython.double, 4.0)
"""Without any settlement for this time, or this multiple of the average one or of the usual one for so many deliveries,
the window doubles, and again after twice the time, four times the time, and so on."""
SINGLES = cython.declare(cython.longlong, 32)
"""After so many settlements that came one by one, they no longer come in batches."""


class Window:
    """The window, and what it is derived from."""

    def __init__(self, first: cython.double) -> None:
        self.first = first  # the limit before anything is known
        self.limit = first
        self.announced = -1.0  # what the other router has told, see Demand; less than 0: nothing
        self.least = 0.0  # seconds from sending to settlement while none waits; 0: unknown
        self._average = 0.0
        self._count = 0  # settlements of this cycle, or of this measurement
        self._kept = 0.0  # the window, while a part of it is used for a measurement; else 0
        self._since = 0.0  # when no more than that part was outstanding; 0: not yet
        self._sum = 0.0
        self._settled_at = 0.0
        self._patience = PATIENCE_S
        self._before = 0.0  # the window before it grew without a settlement; 0: it did not
        self._together = 0  # settlements at `_settled_at`
        self._goes_on = False  # since then, something was settled
        self.batches = False  # the consumers settle in batches: the window only grows
        self._singles = 0  # settlements since two came together, while that is so

    def full(self, outstanding: cython.longlong) -> cython.bint:
        """Whether nothing more may be sent."""
        return outstanding >= (self.limit if self.announced < 0.0 else self.announced)

    def settled(self, now: cython.double, sent_at: cython.double, outstanding: cython.longlong) -> None:
        """A delivery was settled, one of `outstanding`."""
        alone: cython.bint = self._together == 1 and now > self._settled_at
        self._together = self._together + 1 if now <= self._settled_at else 1
        self._settled_at = now
        if self._before != 0.0:
            self._after_stall()
            if self._before != 0.0:
                return
        if self.batches:
            self._in_batches()
            return
        if self._kept != 0.0:
            self._measure(now, sent_at, outstanding)
            return
        took: cython.double = now - sent_at
        if self.limit == self.first > FIRST:
            if self._average == 0.0:
                self._average = self.least = took
                return
            if alone:
                self.limit = FIRST
        self._average = took if self._average == 0.0 else self._average + WEIGHT * (took - self._average)
        if self.least == 0.0 or self._average < self.least:
            self.least = self._average
        self._patience = max(PATIENCE_S, PATIENCE * self._average)
        if outstanding + 1 < self.limit:
            return  # something else limits what is sent
        if outstanding > self.limit + 1:
            return  # they were sent when it was larger
        busy: cython.double = outstanding
        if self._average > 0.0:
            busy = outstanding * self.least / self._average
        self.limit += (MORE * busy + MORE - self.limit) / self.limit
        if self.limit < 1.0:
            self.limit = 1.0
        self._count += 1
        if self._count >= LEAST_CYCLE and self._count >= CYCLE * self.limit:
            self._kept = self.limit
            self._count = 0
            self._sum = self._since = 0.0
            self.limit = max(self.limit / PART, 1.0)

    def _measure(self, now: cython.double, sent_at: cython.double, outstanding: cython.longlong) -> None:
        """Wait until few deliveries are outstanding; the average time of those that are sent then is the least time."""
        if self._since == 0.0:
            if outstanding - 1 <= self.limit:
                self._since = now
            return
        if sent_at < self._since:
            return
        self._sum += now - sent_at
        self._count += 1
        if self._count >= SAMPLES and self._count >= self.limit:
            self.least = self._sum / self._count
            self._average = max(self._average, self.least)
            self.limit = self._kept
            self._kept = 0.0
            self._count = 0

    # ---- nothing is settled
    def look(
        self, now: cython.double, outstanding: cython.longlong, since: cython.double, usual: cython.double
    ) -> cython.bint:
        """Deliveries wait, since then at the latest: double the window if it is full and nothing was settled for long.

        The consumers may settle only when they have more. `usual`: the time that a consumer of the address mostly needs
        for a delivery; if it is long, their jobs are. Returns whether the window has grown.
        """
        patience: cython.double = max(self._patience, PATIENCE * usual * outstanding)
        if not self.full(outstanding) or now - max(since, self._settled_at) < patience:
            return False
        if self._before == 0.0 and not self.batches:
            self._before = self._kept if self._kept != 0.0 else self.limit
            self._kept = 0.0
            self._count = 0
        self.limit *= 2.0
        self._patience = 2.0 * patience
        return True

    def _after_stall(self) -> None:
        """Settlements go on. The window gets its former size at the second time, unless more come together than it had
        room for: then these are batches. It gets room for those that are not complete, too.
        """
        if self._together > self._before:
            self.batches = True
            self.limit *= 2.0
            self._singles = 0
        elif self._together > 1 or not self._goes_on:
            self._goes_on = True
            return
        else:
            self.limit = self._before
        self._before = 0.0
        self._goes_on = False
        self._patience = PATIENCE_S

    def _in_batches(self) -> None:
        """Begin anew when deliveries are settled one by one again."""
        self._patience = PATIENCE_S
        self._singles = self._singles + 1 if self._together == 1 else 0
        if self._singles > SINGLES:
            self.batches = False
            self.limit = self.first
            self.least = self._average = self._kept = 0.0
            self._count = 0
