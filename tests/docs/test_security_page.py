"""docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[2]
TABLE = (REPO / "docs" / "security.md").read_text(encoding="utf-8").split("| attack |")[1].split("###")[0]
ROWS = [line for line in TABLE.splitlines()[2:] if line.startswith("|")]


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_each_attack_has_a_test_that_exists(row: str) -> None:
    known = {path.stem for path in (REPO / "tests").rglob("test_*.py")}
    for path in (REPO / "tests").rglob("test_*.py"):
        known.update(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"`([^`]+)`", row.split("|")[4])
    assert named
    for name in named:
        part = name.split("[")[0].strip("…")
        assert any(part in test for test in known), name
