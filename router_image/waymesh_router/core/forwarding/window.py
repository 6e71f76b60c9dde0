"""How many deliveries of an address may be outstanding at another router, or at an edge router.

Nothing says how many consumers are ready there. The window follows from the time between sending and settlement: while
consumers are idle, more deliveries take no longer; once all are busy, each further delivery waits. So of the
outstanding ones, the share that is being worked on is the least time by the average one (Little's law); half as many
more may wait, so that no consumer does. The least time is measured again now and then, with a third of the window:
consumers come and go, and jobs change.

A local consumer that says how many deliveries it works on at a time (`concurrency`) has at least these and half as many
more; it gets more than that if they are too few because of the time to it and back.
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
PATIENCE_KNOWN_S = cython.declare(cython.double, 60.0)
"""Instead of PATIENCE_S, of a consumer that says how many it works on at a time: its jobs are long."""
EARLY = cython.declare(cython.double, 2.0)
"""The window of a consumer that says how many it works on does not grow before this multiple of it was settled."""
SINGLES = cython.declare(cython.longlong, 32)
"""After so many settlements that came one by one, they no longer come in batches."""


class Window:
    """The window, and what it is derived from. `concurrency`: deliveries that a consumer works on at a time, as it
    says; 0: unknown. Then `first` is the limit before anything is known."""

    def __init__(self, first: cython.double, concurrency: cython.int = 0) -> None:
        self.concurrency = concurrency
        self.first = first if concurrency == 0 else enough_for(concurrency)
        self.limit = self.first
        self._base = 1.0 if concurrency == 0 else self.first  # least limit
        self._more = MORE if concurrency == 0 else 0.0
        self._calm = PATIENCE_S if concurrency == 0 else PATIENCE_KNOWN_S
        self.announced = -1.0  # what the other router has told, see Demand; less than 0: nothing
        self.least = 0.0  # seconds from sending to settlement while none waits; 0: unknown
        self._average = 0.0
        self._count = 0  # settlements of this cycle, or of this measurement
        self._kept = 0.0  # the window, while a part of it is used for a measurement; else 0
        self._since = 0.0  # when no more than that part was outstanding; 0: not yet
        self._sum = 0.0
        self._settled_at = 0.0
        self._patience = self._calm
        self._before = 0.0  # the window before it grew without a settlement; 0: it did not
        self._together = 0  # settlements at `_settled_at`
        self._goes_on = False  # since then, something was settled
        self.batches = False  # the consumers settle in batches: the window only grows
        self._singles = 0  # settlements since two came together, while that is so

    def full(self, outstanding: cython.longlong) -> cython.bint:
        """Whether nothing more may be sent. A consumer that says how many it works on gets no part of one more."""
        if self.concurrency > 0:
            return outstanding + 1 > self.limit
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
        if self.limit == self.first > FIRST and self.concurrency == 0:
            if self._average == 0.0:
                self._average = self.least = took
                return
            if alone:
                self.limit = FIRST
        self._average = took if self._average == 0.0 else self._average + WEIGHT * (took - self._average)
        if self.least == 0.0 or self._average < self.least:
            self.least = self._average
        self._patience = max(self._calm, PATIENCE * self._average)
        if outstanding + 1 < self.limit:
            return  # something else limits what is sent
        if outstanding > self.limit + 1:
            return  # they were sent when it was larger
        busy: cython.double = outstanding
        if self._average > 0.0:
            busy = outstanding * self.least / self._average
        if self.concurrency == 0 or self._count >= EARLY * self.first:  # else least and average are of the first ones
            self.limit += (MORE * busy + self._more - self.limit) / self.limit
        if self.limit < self._base:
            self.limit = self._base
        self._count += 1
        if self._count >= LEAST_CYCLE and self._count >= CYCLE * self.limit:
            self._kept = self.limit
            self._count = 0
            self._sum = self._since = 0.0
            self.limit = max(self.limit / PART, 1.0, self.concurrency)

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
        expected: cython.double = usual * outstanding
        if self.concurrency > 1:
            expected /= self.concurrency
        patience: cython.double = max(self._patience, PATIENCE * expected)
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
        self._patience = PATIENCE_S if self.batches else self._calm

    def _in_batches(self) -> None:
        """Begin anew when deliveries are settled one by one again."""
        self._patience = PATIENCE_S
        self._singles = self._singles + 1 if self._together == 1 else 0
        if self._singles > SINGLES:
            self.batches = False
            self.limit = self.first
            self.least = self._average = self._kept = 0.0
            self._count = 0


def enough_for(concurrency: cython.int) -> cython.double:
    """What a consumer that works on so many deliveries at a time should have: half as many more wait, at least one."""
    return concurrency + max(1.0, concurrency // 2)
