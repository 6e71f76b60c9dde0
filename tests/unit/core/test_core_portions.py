"""Walks over many things, in portions."""

from __future__ import annotations

import pytest

from waymesh_router.core.portions import COST_A_TURN, Portions, Rounds, RoundsOfEach

STEP = COST_A_TURN // 10


class Counting:
    """A walk of a number of steps; some raise."""

    def __init__(self, steps: int, broken: tuple[int, ...] = ()) -> None:
        self.left = steps
        self.broken = broken

    def __str__(self) -> str:
        return "numbers"

    def step(self) -> int:
        if not self.left:
            return 0
        self.left -= 1
        if self.left in self.broken:
            raise RuntimeError("a bug")
        return STEP


def test_each_turn_does_a_portion_of_one_walk_and_the_walks_take_turns() -> None:
    portions, one, other = Portions(), Counting(25), Counting(15)
    portions.add(one)
    portions.add(other)
    portions.add(one)
    seen = []
    while portions:
        portions.run()
        seen.append((one.left, other.left))
    assert seen == [(15, 15), (15, 5), (5, 5), (0, 0), (0, 0)]


def test_the_first_portion_of_a_walk_may_be_done_at_once() -> None:
    portions, short, long = Portions(), Counting(9), Counting(11)
    portions.begin(short)
    assert (short.left, bool(portions)) == (0, False)
    portions.begin(long)
    portions.begin(long)
    assert (long.left, bool(portions)) == (1, True), "it is under way: no second portion in this turn"


def test_a_walk_that_is_removed_goes_on_no_more() -> None:
    portions, walk = Portions(), Counting(25)
    portions.add(walk)
    portions.run()
    portions.remove(walk)
    portions.remove(walk)
    assert (walk.left, bool(portions)) == (15, False)


def test_a_step_that_raises_costs_the_walk_nothing_but_time() -> None:
    portions, walk, other = Portions(), Counting(3, broken=(1,)), Counting(1)
    with pytest.raises(RuntimeError):
        portions.begin(walk)
    portions, walk, told = Portions(), Counting(3, broken=(1,)), []
    portions.on_error = lambda where, error: told.append(f"{where}: {error}")
    portions.add(walk)
    portions.add(other)
    portions.run()
    assert (walk.left, other.left) == (1, 1)
    portions.run()
    assert (walk.left, other.left, bool(portions)) == (0, 0, False)
    assert told == ["in a walk over numbers: a bug"]


def rounds(table: dict[str, int], visited: list[str]) -> tuple[Portions, Rounds[str]]:
    portions = Portions()

    def visit(key: str) -> int:
        if key in table:
            visited.append(key)
        return STEP

    return portions, Rounds(portions, "entries", table, visit)


def test_a_short_round_visits_all_at_once() -> None:
    visited: list[str] = []
    portions, walk = rounds(dict.fromkeys("abc", 0), visited)
    walk.begin()
    walk.begin()
    assert ("".join(visited), bool(portions)) == ("abcabc", False)


def test_entries_come_and_go_during_a_round() -> None:
    visited: list[str] = []
    table = dict.fromkeys("abcdefghijklmnopq", 0)
    portions, walk = rounds(table, visited)
    walk.begin()
    assert "".join(visited) == "abcdefghij"
    del table["p"]
    table["new"] = 0
    while portions:
        portions.run()
    assert "".join(visited) == "abcdefghijklmnoq"


def test_a_change_during_a_round_causes_another_one() -> None:
    visited: list[str] = []
    portions, walk = rounds(dict.fromkeys("abcdefghijklmnopq", 0), visited)
    walk.begin()
    walk.begin()
    walk.begin()
    while portions:
        portions.run()
    assert "".join(visited) == "abcdefghijklmnopq" * 2


def test_a_change_that_an_entry_causes_ends() -> None:
    table = dict.fromkeys("ab", 0)
    portions = Portions()

    def visit(key: str) -> int:
        table[key] += 1
        if table == {"a": 1, "b": 1}:
            walk.begin()
        return STEP

    walk = Rounds(portions, "entries", table, visit)
    walk.begin()
    assert (table, bool(portions)) == ({"a": 2, "b": 2}, False)


class Things:
    """Things with parts, of which a step visits one."""

    def __init__(self, parts: dict[str, str], broken: str = "", again: str = "") -> None:
        self.parts = parts
        self.visited: list[str] = []
        self.broken = broken
        self.again = again  # stays after its first visit
        self.portions = Portions()
        self.walk = RoundsOfEach(self.portions, "parts", self.parts.__getitem__, self.visit)

    def visit(self, thing: str, left: list[str]) -> int:
        part = left.pop()
        self.visited.append(thing + part)
        if part == self.broken:
            raise RuntimeError("a bug")
        if part == self.again:
            self.again = ""
            left.append(part)
        return STEP

    def finish(self) -> str:
        while self.portions:
            self.portions.run()
        return " ".join(self.visited)


def test_the_parts_of_each_thing_are_visited_after_each_change() -> None:
    things = Things({"A": "abcdefghijkl", "B": "xy"})
    things.walk.begin("A")
    things.walk.begin("A")
    things.walk.begin("B")
    things.parts["A"] = "am"
    assert things.finish() == "Aa Ab Ac Ad Ae Af Ag Ah Ai Aj Ak Al Aa Am Bx By"
    things.walk.begin("B")
    assert things.finish().endswith(" Bx By Bx By")


def test_parts_are_not_visited_before_the_next_turn_if_the_caller_has_many_things() -> None:
    things = Things({"A": "ab", "B": "x"})
    for name in "AB":
        things.walk.begin_later(name)
    assert things.visited == []
    assert things.finish() == "Aa Ab Bx"


def test_a_part_that_stays_is_visited_again() -> None:
    things = Things({"A": "abc"}, again="b")
    things.walk.begin("A")
    assert things.finish() == "Aa Ab Ab Ac"


def test_a_broken_part_is_left_out() -> None:
    things = Things({"A": "abc"}, broken="b")
    told: list[str] = []
    things.portions.on_error = lambda where, error: told.append(f"{where}: {error}")
    things.walk.begin("A")
    assert things.finish() == "Aa Ab Ac"
    assert told == ["in a walk over parts: a bug"]
