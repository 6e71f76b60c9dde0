"""The numbers in the lines of links that have ended, and their sums for a lost connection with many links."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

from waymesh_router.core.link_health import LinkHealth, counts_of, is_blocked

if TYPE_CHECKING:
    from waymesh_router.core.model import RouterLink

LINES = 100
"""Links of a lost connection that have a line each. A line takes as long as the rest of the end of a link or longer, so
that a line for each of thousands would delay the clients that come next."""
_NAMES = ("del", "presett", "psdrop", "acc", "rej", "rel", "mod", "delay1", "delay10")
_NOTHING = (0,) * (len(_NAMES) + 1)

Numbers = tuple[int, ...]
"""In the order of _NAMES, and then the number of links that were blocked."""


def numbers_of(link: RouterLink, health: LinkHealth) -> Numbers:
    """The deliveries of a link by outcome and delay."""
    return (*counts_of(link, health.of(link)), int(is_blocked(link, health.now)))


def detail_of(numbers: Numbers) -> dict[str, str | int]:
    """The numbers as members of an event, as of Qpid Dispatch."""
    counts: dict[str, str | int] = dict(zip(_NAMES, numbers, strict=False))
    return counts | {"blocked": "yes" if numbers[-1] else "no"}


class LostLinks:
    """The links of a lost connection that have ended so far: LINES of them have a line each, the others are summed."""

    def __init__(self) -> None:
        self.summed = 0  # links since the last `take`
        self._lines = 0
        self._numbers: Numbers = _NOTHING

    def has_line(self) -> bool:
        """Whether the next link has a line of its own; else its numbers are to be added."""
        self._lines += 1
        return self._lines <= LINES

    def add(self, numbers: Numbers) -> None:
        """Add the numbers of a link without a line."""
        self.summed += 1
        if any(numbers):
            self._numbers = tuple(map(add, self._numbers, numbers))

    def take(self) -> tuple[int, Numbers]:
        """The number of links without a line and the sums of their numbers, once."""
        taken = self.summed, self._numbers
        self.summed, self._numbers = 0, _NOTHING
        return taken
