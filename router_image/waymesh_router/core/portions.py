"""Walks over many things, of which each turn of the event loop does a small portion, after it has served all clients.

A walk does not see the state of one moment: other events come between its portions. So each step looks at the current
state of its thing, and does what is right for it now. Decision 0053.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key")
Thing = TypeVar("Thing")
Part = TypeVar("Part")

AT_ONCE = 500
"""Number of deliveries or links up to which work on them is done at once: a tenth of a millisecond."""
COST_A_TURN = 100
"""Maximum cost of the steps of one turn; a step with cost 1 takes about a microsecond."""
COPIED = 200
"""Keys that are copied at a cost of 1."""


class Walk(Protocol):
    """Long work in steps."""

    def step(self) -> int:
        """Do the next step. Returns its cost, 0 if nothing is left to do.

        If it raises, the walk continues with the step after it.
        """


class Portions:
    """The walks under way. They take turns, one in each turn of the event loop."""

    def __init__(self) -> None:
        self.walks: dict[Walk, None] = {}
        """Those under way; for others to read only."""
        self.on_error: Callable[[str, Exception], None] = _raise
        """Called with a description and the error when a step fails."""

    def __bool__(self) -> bool:
        return bool(self.walks)

    def add(self, walk: Walk) -> None:
        """Do the steps of a walk in the next turns. No effect if it is under way."""
        self.walks.setdefault(walk)

    def remove(self, walk: Walk) -> None:
        """Do no further steps of a walk."""
        self.walks.pop(walk, None)

    def begin(self, walk: Walk) -> None:
        """Do the first portion of a walk now, the others in the next turns: most walks are short."""
        if walk not in self.walks:
            self.walks[walk] = None
            self._do(walk, COST_A_TURN)

    def run(self) -> None:
        """Do one portion."""
        left = COST_A_TURN
        while left > 0 and self.walks:
            left = self._do(next(iter(self.walks)), left)

    def _do(self, walk: Walk, left: int) -> int:
        """Do steps of a walk; returns how much of the cost is left. The walk that comes next is another one."""
        while left > 0 and walk in self.walks:
            try:
                cost = walk.step()
            except Exception as error:  # noqa: BLE001 - the edge of walks
                self.on_error(f"in a walk over {walk}", error)
                cost = COST_A_TURN
            if cost == 0:
                self.walks.pop(walk, None)
            left -= cost
        if walk in self.walks:
            del self.walks[walk]
            self.walks[walk] = None
        return left


class Rounds(Generic[Key]):
    """A walk over all keys of a table whenever something has changed that concerns all of them.

    A change while a round is under way causes another one after it. So each entry is visited after each change, and
    changes that come one after the other do not keep the last entries from being visited. Entries that were added
    later are not visited: they begin with the current state.
    """

    def __init__(self, portions: Portions, name: str, keys: Collection[Key], visit: Callable[[Key], int]) -> None:
        """`name`: of the things, for the log. `visit` returns its cost."""
        self._portions = portions
        self._name = name
        self._keys = keys
        self._visit = visit
        self._left: list[Key] = []  # of this round, last one first
        self._again = False

    def __str__(self) -> str:
        return self._name

    def begin(self) -> None:
        """Visit all entries: the first ones now."""
        self._again = True
        self._portions.begin(self)

    def step(self) -> int:
        if not self._left:
            if not self._again:
                return 0
            self._again = False
            self._left = list(self._keys)
            self._left.reverse()
            return 1 + len(self._left) // COPIED
        return self._visit(self._left.pop())


class RoundsOfEach(Generic[Thing, Part]):
    """Like `Rounds`, for the parts of each thing that has changed, e.g. the producers of an address.

    `visit` takes some parts from the end of a list, visits them, and returns its cost. A part that stays in the list is
    visited again. The things come one after the other.
    """

    def __init__(
        self,
        portions: Portions,
        name: str,
        parts: Callable[[Thing], Collection[Part]],
        visit: Callable[[Thing, list[Part]], int],
    ) -> None:
        """`name`: of the parts, for the log. `parts`: what a thing has now."""
        self._portions = portions
        self._name = name
        self._parts = parts
        self._visit = visit
        self._left: dict[Thing, list[Part]] = {}  # of this round of each thing, last one first
        self._again: set[Thing] = set()  # things that have changed since

    def __str__(self) -> str:
        return self._name

    def begin(self, thing: Thing) -> None:
        """Visit all parts of a thing: the first ones now, unless a walk is under way."""
        self._again.add(thing)
        self._left.setdefault(thing, [])
        self._portions.begin(self)

    def begin_later(self, thing: Thing) -> None:
        """Visit all parts of a thing in the next turns: for callers with many things in one turn."""
        self._again.add(thing)
        self._left.setdefault(thing, [])
        self._portions.add(self)

    def step(self) -> int:
        """Visit some parts of one thing."""
        if not self._left:
            return 0
        thing, left = next(iter(self._left.items()))
        if left:
            return self._visit(thing, left)
        if thing in self._again:
            self._again.discard(thing)
            left.extend(self._parts(thing))
            left.reverse()
            return 1 + len(left) // COPIED
        del self._left[thing]
        return 1


def _raise(_where: str, error: Exception) -> None:
    """Default until `on_error` is set."""
    raise error
