"""However many of a thing there are, no turn of the event loop takes more steps: `make bench ARGS="--only turns"` shows
the milliseconds for 100,000 of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tests.kit.routed_turns import ALL_CASES
from tests.kit.steps import steps

MANY: Final = 1_200
"""More than any portion has."""
LARGER: Final[Mapping[str, int]] = {"waiting-sent": 2 * MANY, "copies-sent": 2 * MANY, "excess": 4 * MANY}
"""More where a portion has more."""
GROWTH: Final = 1.2

LONG: Final[Mapping[str, str]] = {
    "ids-wrapped": "the ids in use are passed over, once each",
}
"""Cases in which the longest turn grows, and why."""


def longest(name: str, count: int) -> tuple[int, int]:
    """Steps of the longest turn, and the number of turns."""
    scene, event = ALL_CASES[name].build(count)
    counts = [steps(turn) for turn in scene.turns(event)]
    return max(counts), len(counts)


@pytest.mark.parametrize("name", [name for name in ALL_CASES if name not in LONG])
def test_the_longest_turn_does_not_grow(name: str) -> None:
    count = LARGER.get(name, MANY)
    many, turns = longest(name, count)
    more, more_turns = longest(name, 2 * count)
    assert more <= many * GROWTH
    assert more_turns >= turns
