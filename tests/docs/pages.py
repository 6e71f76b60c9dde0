"""The pages of the documentation and the examples on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages() -> list[Path]:
    """README and the pages of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(block: re.Pattern[str]) -> list[tuple[str, int, str]]:
    """Page, line and text of each match; the text is the first group of the pattern."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        found += [(page.name, text.count("\n", 0, m.start(1)) + 1, m[1]) for m in block.finditer(text)]
    return found
