"""The pictures of the concepts are those that tools/pictures.py draws, and pages say what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.scripts import load_script

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[2]
pictures = load_script("tools/pictures.py")


@pytest.mark.parametrize("name", sorted(pictures.PICTURES))
def test_pictures_are_current_and_have_their_text(name: str) -> None:
    picture = pictures.PICTURES[name]
    assert (REPO / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == pictures.draw(picture), (
        "run python tools/pictures.py"
    )
    pages = "".join(path.read_text(encoding="utf-8") for path in (REPO / "docs").glob("*.md"))
    assert re.findall(rf"!\[([^\]]*)\]\(pictures/{name}\.svg\)", pages) == [picture.says]


def test_the_console_is_in_the_readme() -> None:
    data = (REPO / "docs" / "pictures" / "console.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(data[16:20]), len(data) <= 150_000) == (1200, True)
    assert "](docs/pictures/console.png)" in (REPO / "README.md").read_text(encoding="utf-8")
