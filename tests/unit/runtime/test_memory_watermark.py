"""Memory levels depend on use and limit, with hysteresis."""

from __future__ import annotations

from pathlib import Path

import pytest

from waymesh_router.core.memory_levels import FULL, HIGH, NORMAL
from waymesh_router.memory.watermark import default_limit, level_of
from waymesh_router.runtime.memory import control_group_limit

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("used", "before", "level"),
    [
        (0, NORMAL, NORMAL),
        (799, NORMAL, NORMAL),
        (800, NORMAL, HIGH),
        (999, NORMAL, HIGH),
        (1000, NORMAL, FULL),
        (5000, NORMAL, FULL),
        (950, FULL, FULL),
        (949, FULL, HIGH),
        (750, HIGH, HIGH),
        (749, HIGH, NORMAL),
        (749, FULL, NORMAL),
        (999, HIGH, HIGH),
        (None, FULL, NORMAL),
    ],
)
def test_level(used: int | None, before: int, level: int) -> None:
    assert level_of(used, 1000, before) == level


def test_without_a_limit_memory_is_normal() -> None:
    assert level_of(1 << 50, 0, FULL) == NORMAL


def test_the_default_is_a_part_of_the_limit_of_the_control_group(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("100000000\n")
    assert default_limit(control_group_limit((limit,))) == 85_000_000


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n"])
def test_without_a_limit_of_the_control_group_there_is_none(tmp_path: Path, text: str) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    assert default_limit(control_group_limit((limit,))) == 0
    assert default_limit(control_group_limit((tmp_path / "absent",))) == 0


@pytest.mark.parametrize(
    ("resident", "free", "before", "level"),
    [
        (990, 500, FULL, NORMAL),
        (990, 100, FULL, HIGH),
        (990, 10, FULL, FULL),
        (1059, 900, NORMAL, NORMAL),
        (1060, 900, NORMAL, FULL),
        (1010, 900, FULL, FULL),
    ],
)
def test_free_memory_does_not_count_unless_the_process_is_larger_than_the_limit(
    resident: int, free: int, before: int, level: int
) -> None:
    assert level_of(resident, 1000, before, free) == level
