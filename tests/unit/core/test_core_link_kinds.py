"""The constants in link_kinds.pxd equal those in link_kinds.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from waymesh_router.core import link_kinds

pytestmark = pytest.mark.engine_independent


def test_compiled_and_interpreted_modules_use_the_same_numbers() -> None:
    declared = Path(link_kinds.__file__).with_suffix(".pxd").read_text()
    found = {name: int(number) for name, number in re.findall(r"(\w+) = (-?\d+)", declared)}
    assert found == {name: value for name, value in vars(link_kinds).items() if isinstance(value, int)}
