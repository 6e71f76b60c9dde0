"""docs/compatibility-items.md lists each item once, and its tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine_independent

ROOT = Path(__file__).parents[2]
ROWS = [line for line in (ROOT / "docs/compatibility-items.md").read_text().splitlines() if re.match(r"\| \d", line)]
SOURCES = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_each_item_is_listed_once() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 43))


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_the_tests_of_an_item_exist_and_bear_its_number(row: str) -> None:
    number = int(row.split("|")[1])
    named = re.findall(r"`(test_\w+)`", row)
    assert named or "none" in row or "tests/unit" in row
    for name in named:
        assert name.startswith(f"test_compat_{number:02}_")
        assert f"def {name}(" in SOURCES, name


def test_each_test_of_an_item_is_listed() -> None:
    for row in ROWS:
        number = int(row.split("|")[1])
        if "`test_compat" in row:
            found = set(re.findall(rf"def (test_compat_{number:02}_\w+)\(", SOURCES))
            assert not {name for name in found if f"`{name}`" not in row}
