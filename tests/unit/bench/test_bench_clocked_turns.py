"""Turns of the event loop, by the CPU clock of its thread."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from tests.bench.clocked_turns import turns_of, within

pytestmark = pytest.mark.engine_independent


def test_turns_are_read_in_ascending_order(tmp_path: Path) -> None:
    file = tmp_path / "turns"
    file.write_bytes(array("q", [3_000_000, 1_000_000, 2_000_000]).tobytes())
    assert turns_of(file) == [0.001, 0.002, 0.003]


@pytest.mark.parametrize(
    ("turns", "part", "turn"),
    [
        ([1.0] * 100, 0.99, 1.0),
        ([1.0] * 98 + [98.0], 0.5, 1.0),  # half of the time is spent in short turns
        ([1.0] * 98 + [98.0], 0.51, 98.0),
        ([2.0], 0.01, 2.0),
    ],
)
def test_a_long_turn_counts_for_as_long_as_it_lasts(turns: list[float], part: float, turn: float) -> None:
    assert within(turns, part) == turn
