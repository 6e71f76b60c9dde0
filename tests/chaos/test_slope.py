"""Figures that are flat, noisy, fall or grow."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.slope import grows, growth, slope
from tests.chaos.soak import judge

pytestmark = pytest.mark.engine_independent

NOISE = [random.Random(1).uniform(-3, 3) for _ in range(50)]
FLAT = [100 + noise for noise in NOISE]


def test_a_line_has_its_slope_whatever_one_reading_says() -> None:
    assert slope([1, 3, 5, 7, 9]) == 2
    assert slope([1, 3, 5000, 7, 9]) == 2
    assert slope([4]) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (FLAT, False),
        ([number / 10 for number in range(1000, 950, -1)], False),
        ([200, 150, 120, *FLAT], False),
        ([20, 50, 80, 95, 99, *FLAT], False),
        ([value + number for number, value in enumerate(FLAT)], True),
        ([100.0] * 30 + [101.0] * 20, False),
        ([0.0] * 20, False),
        ([0.0] * 10 + [1.0] * 10, True),
    ],
    ids=["flat", "falls", "high at first", "low at first", "grows", "a small step", "nothing", "from nothing"],
)
def test_what_grows_is_found(values: list[float], expected: bool) -> None:
    assert grows(values, 0.05) is expected


def test_growth_is_a_share_of_the_level() -> None:
    assert growth([float(value) for value in range(100, 151)]) == pytest.approx(0.31, abs=0.02)


def test_a_soak_names_the_figures_that_grew() -> None:
    flat, grown = [800.0, 810.0, 790.0] * 20, [800.0 + 2 * number for number in range(60)]
    assert judge({"A objects": flat, "A rss": flat, "B descriptors": [9.0] * 60}, {}) == []
    types = {"A": [{"list": 500, "dict": 300 - number, "Link": 3 * number} for number in range(60)]}
    found = judge({"A objects": grown, "B rss": flat}, types)
    assert found == ["A objects grew by 10.8%, from 800 to 918: Link +96"]


COUNTING = """
import gc, sys
from pathlib import Path
from tests.chaos.counted import Counter, read

class Kept(list):
    pass

file = Path(sys.argv[1])
counter = Counter(file)

def count():
    counter.write()
    types = read(file)
    return types.total(), types["__main__.Kept"]

gc.collect()
gc.freeze()
aside = count()
gc.unfreeze()
among = count()
kept = [Kept([number]) for number in range(1000)]
print(*aside, *among, *count())
"""


def test_objects_of_the_start_do_not_count_whether_they_are_set_aside_or_not(tmp_path: Path) -> None:
    """A router sets them aside, and lets them go again when many links have ended: no growth. In a process of its own:
    here, other tests have threads and caches."""
    words = [sys.executable, "-c", COUNTING, str(tmp_path / "objects.json")]
    run = subprocess.run(words, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True, timeout=60)
    aside, none_aside, among, none_among, more, kept = map(int, run.stdout.split())
    assert abs(among - aside) < 100
    assert more - among == pytest.approx(1000, abs=50)
    assert (none_aside, none_among, kept) == (0, 0, 1000)
