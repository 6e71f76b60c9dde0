"""The page of settings that are read differently is what the router says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from waymesh_router.runtime.main import main

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("old_settings", REPO / "tools/old_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    module = tool()
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run `python tools/old_settings.py`"


@pytest.mark.parametrize("setting", tool().STARTS, ids=lambda setting: setting.title)
def test_strict_checks_do_not_accept_a_warning(setting: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "router.conf"
    path.write_text(setting[1], encoding="utf-8")
    assert main(["--check", "-c", str(path)]) == 0
    assert main(["--check", "--strict", "-c", str(path)]) == 1
