"""The page of settings that are read differently is what the router says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.scripts import load_script
from waymesh_router.runtime.main import main

pytestmark = pytest.mark.engine_independent

TOOL = load_script("tools/old_settings.py")


def test_the_page_is_current() -> None:
    assert TOOL.PAGE.read_text(encoding="utf-8") == TOOL.page(), "run `python tools/old_settings.py`"


@pytest.mark.parametrize("setting", TOOL.STARTS, ids=lambda setting: setting.title)
def test_strict_checks_do_not_accept_a_warning(setting: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "router.conf"
    path.write_text(setting[1], encoding="utf-8")
    assert main(["--check", "-c", str(path)]) == 0
    assert main(["--check", "--strict", "-c", str(path)]) == 1
