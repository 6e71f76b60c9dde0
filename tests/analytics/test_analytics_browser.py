"""The page of the report in a real browser."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.kit.browser import Page, opened

pytestmark = [pytest.mark.spark, pytest.mark.engine_independent, pytest.mark.timeout(900)]
TABLE = "document.querySelector('#talkers ~ .scroll table')"
PICTURES = "[...document.querySelectorAll('figure')].map(e => [e.role, e.ariaLabel, e.querySelectorAll('svg').length])"
CUT_OFF = """[...document.querySelectorAll("body *")].filter(
    e => !e.closest(".scroll *, svg *") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)"""
INVISIBLE = """[...document.querySelectorAll("section, section h2, figure, .findings li, .findings li p")].filter(
    e => e.offsetWidth < 100 || e.offsetHeight < 10).map(e => e.outerHTML)"""
DARK = "rgb(13, 17, 23)"
SCHEMES = {
    "light": ((255, 255, 255), (207, 34, 46)),
    "dark": ((13, 17, 23), (255, 123, 114)),
}
"""The background and the red of each scheme of colours."""


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


def searches(page: Page) -> None:
    """The rows of one table by what they contain, in any case; an empty field shows all again."""
    field = "document.querySelector('#talkers ~ label input')"
    count = len(page.run(f"[...{TABLE}.tBodies[0].rows].map(row => 1)"))
    shown = f"[...{TABLE}.tBodies[0].rows].filter(row => row.offsetHeight).map(row => row.textContent)"
    for text, some in (("NEWS", True), ("", False)):
        page.run(f"{field}.value = '{text}', {field}.dispatchEvent(new Event('input'))")
        found = page.run(shown)
        assert all(text.lower() in row.lower() for row in found)
        assert 0 < len(found) < count if some else len(found) == count


def colours(png: bytes) -> Counter[tuple[int, int, int]]:
    """How many pixels of a screenshot have each colour."""
    from PIL import Image

    image = Image.open(BytesIO(png)).convert("RGB")
    found = image.getcolors(image.width * image.height) or []
    return Counter({colour: count for count, colour in found})


def shows_the_mesh(page: Page, scheme: str) -> None:
    """The picture has the background of the page, and the red of losses; a chart is not empty either."""
    background, red = SCHEMES[scheme]
    seen = colours(page.picture("document.querySelector('svg.mesh')"))
    assert seen.most_common(1)[0][0] == background
    assert seen[red] > 50, "two broken links and a restarted router"
    chart = colours(page.picture("document.querySelector('#hours ~ figure svg')"))
    assert chart[background] < chart.total()
    assert len(chart) > 20


def test_the_page_in_a_browser(analyzed: Any, exported: Path, tmp_path: Path) -> None:
    """It loads nothing, has no errors, its tables sort, pictures say what they are, nothing is cut off."""
    file = exported.parent / "out/report.html"
    with opened(tmp_path) as page:
        page.open(file)
        sorts(page, [column.name for column in analyzed.tables["talkers"].columns].index("deliveries"))
        searches(page)
        pictures = page.run(PICTURES)
        assert [(role, count) for role, _, count in pictures] == [("img", 1)] * 5
        assert all("as a picture" in label for _, label, _ in pictures)
        for width in (1280, 360):
            for scheme in ("light", "dark"):
                page.look(width, scheme)
                assert page.run("document.documentElement.scrollWidth") <= width
                assert page.run(CUT_OFF) == []
                assert page.run(INVISIBLE) == []
                shows_the_mesh(page, scheme)
        assert page.run("getComputedStyle(document.body).backgroundColor") == DARK
        assert page.errors == []
        assert [address for address in page.requested if not address.startswith("data:")] == [file.as_uri()]
