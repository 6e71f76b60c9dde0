"""What routers tell of the priorities of consumers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waymesh_router.core.forwarding.demand_messages import MOST
from waymesh_router.core.forwarding.ranks import (
    MOST_PRIORITIES,
    Room,
    add_consumer,
    decoded,
    differs,
    encoded,
    has_priorities,
    part_of,
)


def consumer(priority: int, unsettled: int, credit: int, edge: bool = False, window: Any = None) -> Any:
    """A link to a consumer."""
    return SimpleNamespace(consumer_priority=priority, unsettled=unsettled, credit=credit, edge=edge, window=window)


def test_room_is_what_consumers_have_and_their_credit() -> None:
    room: Room = {}
    for priority, unsettled, credit in ((5, 2, 8), (0, 0, 3), (5, 1, 0), (-1, 4, -2), (0, 0, MOST)):
        add_consumer(room, consumer(priority, unsettled, credit))
    assert room == {5: 11, 0: MOST, -1: 4}


def test_room_of_an_edge_router_is_its_window() -> None:
    room: Room = {}
    for window in (None, SimpleNamespace(limit=3.5), SimpleNamespace(limit=900.0)):
        add_consumer(room, consumer(0, 2, 98, edge=True, window=window))
    assert room == {0: 100 + 4 + 100}


def test_a_message_has_the_highest_first_and_the_sums_are_read() -> None:
    told = encoded({0: 3, 9: 2, -4: 7})
    assert told == [9, 2, 0, 3, -4, 7]
    assert decoded({"ranks": told}) == ((9, 2), (0, 5), (-4, 12))


def test_of_very_many_priorities_the_lowest_are_told_together() -> None:
    told = encoded(dict.fromkeys(range(100), 1))
    assert len(told) == 2 * MOST_PRIORITIES
    assert (told[0], told[-2], told[-1]) == (99, 100 - MOST_PRIORITIES, 1 + 100 - MOST_PRIORITIES)
    ranks = decoded({"ranks": told})
    assert ranks is not None
    assert ranks[-1][1] == 100


NONSENSE: list[Any] = [
    None, [], [1], [1, 2, 3], [1, -1], [True, 1], [1, True], ["1", 1], [1, 1.5], [1, 1, 1, 1], [1, 1, 2, 1], {1: 1},
    [1 << 31, 1], [-(1 << 31) - 1, 1], [0, 1] * 40,
]  # fmt: skip


@pytest.mark.parametrize("told", NONSENSE)
def test_what_is_no_such_list_tells_nothing(told: Any) -> None:
    assert decoded({"ranks": told}) is None


def test_a_sum_has_a_limit() -> None:
    assert decoded({"ranks": [2, MOST, 1, 1 << 62]}) == ((2, MOST), (1, MOST))


def test_parts_add_up_and_the_remainder_goes_round() -> None:
    room = {7: 1, 0: 10}
    for turn in range(3):
        parts = [part_of(room, place, turn, 3) for place in range(3)]
        assert sum(part[7] for part in parts) == 1
        assert sum(part[0] for part in parts) == 10
    assert len({tuple(part_of(room, 0, turn, 3).values()) for turn in range(3)}) > 1
    assert part_of(room, 0, 5, 1) == room


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (None, {0: 1}, True),
        ({0: 10}, {0: 12}, False),
        ({0: 10}, {0: 10}, False),
        ({0: 10}, {0: 9}, True),
        ({0: 10}, {0: 13}, True),
        ({0: 10}, {0: 0}, True),
        ({0: 0}, {0: 1}, True),
        ({0: 10}, {0: 10, 4: 0}, True),
        ({0: 10, 4: 1}, {0: 10}, True),
    ],
)
def test_it_is_told_again_when_there_is_less_or_much_more(before: Room | None, now: Room, told: bool) -> None:
    assert differs(before, now) is told


@pytest.mark.parametrize(
    ("local", "remote", "found"),
    [
        ([], [], False),
        ([0, 0], [None, ((0, 5),)], False),
        ([0, -1], [], True),
        ([0], [((0, 5),), ((3, 0), (0, 5))], True),
    ],
)
def test_priorities_are_here_or_elsewhere(local: list[int], remote: list[Any], found: bool) -> None:
    targets = {str(number): SimpleNamespace(ranks=ranks, exclusive=0) for number, ranks in enumerate(remote)}
    preferred = sum(priority != 0 for priority in local)
    address: Any = SimpleNamespace(preferred=preferred, targets=targets, exclusive=None)
    assert has_priorities(address) is found
