"""The page of the report in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.browser import Page, opened

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
TABLE = "document.querySelector('#talkers ~ .scroll table')"
PICTURES = "[...document.querySelectorAll('figure')].map(e => [e.role, e.ariaLabel, e.querySelectorAll('svg').length])"
CUT_OFF = """[...document.querySelectorAll("body *")].filter(
    e => !e.closest(".scroll *, svg *") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)"""
DARK = "rgb(13, 17, 23)"


def head(column: int) -> str:
    return f"{TABLE}.tHead.rows[0].cells[{column}]"


def values(page: Page, column: int) -> list[float]:
    found = page.run(f"[...{TABLE}.tBodies[0].rows].map(row => row.cells[{column}].textContent)")
    return [float(text.replace(",", "")) for text in found]


def sorts(page: Page, count: int) -> None:
    """By a click and by the keyboard, downwards first; the next head is one Tab away."""
    page.run(f"{head(count)}.firstChild.click()")
    assert values(page, count) == sorted(values(page, count), reverse=True)
    page.run(f"{head(count)}.firstChild.focus()")
    page.press("Enter", "\r")
    assert values(page, count) == sorted(values(page, count))
    assert page.run(f"{head(count)}.ariaSort") == "ascending"
    page.press("Tab")
    assert page.run(f"document.activeElement === {head(count + 1)}.firstChild")
    page.press("Enter", "\r")
    assert values(page, count + 1) == sorted(values(page, count + 1), reverse=True)
    assert page.run(f"{head(count)}.ariaSort") is None


def test_the_page_in_a_browser(analyzed: Any, exported: Path, tmp_path: Path) -> None:
    """It loads nothing, has no errors, its tables sort, pictures say what they are, nothing is cut off."""
    file = exported.parent / "out/report.html"
    with opened(tmp_path) as page:
        page.open(file)
        sorts(page, [column.name for column in analyzed.tables["talkers"].columns].index("deliveries"))
        pictures = page.run(PICTURES)
        assert [(role, count) for role, _, count in pictures] == [("img", 1)] * 3
        assert all("as a picture" in label for _, label, _ in pictures)
        for width in (1280, 360):
            for scheme in ("light", "dark"):
                page.look(width, scheme)
                assert page.run("document.documentElement.scrollWidth") <= width
                assert page.run(CUT_OFF) == []
        assert page.run("getComputedStyle(document.body).backgroundColor") == DARK
        assert page.errors == []
        assert [address for address in page.requested if not address.startswith("data:")] == [file.as_uri()]
