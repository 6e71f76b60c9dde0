"""Free memory that Python's allocator keeps, so that `maxMemory` counts only what is in use. Decision 0062."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import repeat

from waymesh_router.core.portions import Portions

BLOCK_BYTES = 512
"""The largest objects that share pools."""
_BLOCK = BLOCK_BYTES - sys.getsizeof(b"")
A_STEP = 512
"""Number of objects that a step allocates or frees."""
STEP_BYTES = A_STEP * BLOCK_BYTES
STEP_COST = 60
GROWTH_BYTES = 2 << 20
"""The process has grown if its resident memory is larger by this: the kernel counts it in larger units on each core."""


class FreePools:
    """Measures the free memory in the blocks of 1 MiB that Python cannot return because a few objects are in each.

    There is no call for it that a router could afford. So a walk allocates objects until the process grows: what they
    took before was free. Then it frees them. From then on, each object that is allocated anywhere is taken to use up as
    much of this memory as the largest ones, so that the estimate never is too high.
    """

    def __init__(self, portions: Portions, resident: Callable[[], int], most: int = sys.maxsize) -> None:
        """`resident()`: memory of the process in bytes. `most`: bytes to allocate at most."""
        self._portions = portions
        self._resident = resident
        self._most = most
        self._taken: list[list[bytes]] = []
        self._again = False
        self._least = 0  # memory of the process since the walk began
        self._measured = 0  # -1: not yet in this walk
        self._free = 0
        self._blocks = 0  # number of all small objects then

    def __str__(self) -> str:
        return "free pools"

    def begin(self) -> None:
        """Measure in the next turns; once more if a measurement is under way, as more may have become free since."""
        self._again = True
        self._portions.add(self)

    def step(self) -> int:
        """Allocate some objects or, after the measurement, free some."""
        if self._again and not self._taken:
            self._again = False
            self._least = self._resident()
            self._measured = -1
        if self._measured < 0:
            self._taken.append(list(map(bytes, repeat(_BLOCK, A_STEP))))
            used = self._resident()
            self._least = min(self._least, used)
            taken = len(self._taken) * STEP_BYTES
            if used - self._least >= GROWTH_BYTES or taken >= self._most:
                self._measured = max(taken - max(used - self._least, GROWTH_BYTES), 0)
        elif self._taken:
            self._taken.pop()
            if not self._taken:
                self._free, self._blocks = self._measured, sys.getallocatedblocks()
        else:
            return 0
        return STEP_COST

    def free(self) -> int:
        """Bytes that are free at least."""
        if not self._free:
            return 0
        more = sys.getallocatedblocks() - self._blocks
        return max(self._free - max(more, 0) * BLOCK_BYTES, 0)
