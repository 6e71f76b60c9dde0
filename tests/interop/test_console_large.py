"""The page Topology before a large mesh: what it compares while the picture is moved does not grow with the mesh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.console_page import build, panned, show
from tests.kit.browser import opened

pytestmark = [pytest.mark.interop, pytest.mark.e2e, pytest.mark.engine_independent]

MOST_COMPARED = 40
"""Elements of the picture's frame: buttons, texts, and the group that is moved."""


def test_a_moved_picture_is_not_drawn_anew(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "browser").mkdir()
    with opened(tmp_path / "browser") as page:
        page.call("Performance.enable")
        page.look(1400, "light")
        show(page, tmp_path, 30, 300, 300)
        assert panned(page)["compared"] <= MOST_COMPARED
        moved = page.run("document.querySelector('svg > g').getAttribute('transform')")
        assert moved.startswith("translate(")
        assert not moved.startswith("translate(0 0)")
        assert page.errors == []
