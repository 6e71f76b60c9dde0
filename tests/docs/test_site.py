"""The documentation as a site: links that hold, pages that can be found, and nothing from other hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.kit.scripts import load_script

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[2]
docs_site = load_script("tools/docs_site.py")


def pages(**texts: str) -> dict[PurePosixPath, str]:
    return {PurePosixPath(f"{name.replace('_', '/')}.md"): text for name, text in texts.items()}


def test_links_that_lead_nowhere_and_pages_without_a_link_are_named() -> None:
    there = pages(
        README="[a](docs/a.md#x) [b](https://example.org) [man](docs/man)\n```\n[c](none.md)\n```\n",
        docs_a="[up](../README.md) [no](b.md) [example](../examples/mesh.yaml)",
        docs_lonely="",
    )
    files = [*map(str, there), "docs/man/x.1", "examples/mesh.yaml"]
    assert docs_site.problems(there, files) == ["docs/a.md: no docs/b.md", "docs/lonely.md: no page links to it"]


def test_a_link_out_of_the_repository_leads_nowhere() -> None:
    assert docs_site.problems(pages(README="[x](../etc/passwd)"), ["README.md"]) == ["README.md: no ../etc/passwd"]


def test_names_of_modules_are_links() -> None:
    there = {"router_image/waymesh_router/core/model.py", "tests/kit/ports.py"}
    text = docs_site.link_modules("`core/model.py` `tests/kit/ports.py` `core/none.py` `make docs`", there)
    assert text == (
        "[`core/model.py`](../router_image/waymesh_router/core/model.py) [`tests/kit/ports.py`](../tests/kit/ports.py) "
        "[`core/none.py`](../core/none.py) `make docs`"
    )


def test_the_navigation_has_all_pages_of_the_documents_table() -> None:
    made = docs_site.navigation((REPO / "README.md").read_text(encoding="utf-8"))
    named = [path for group in made[1:] for rows in group.values() for row in rows for path in row.values()]
    assert {path.name for path in (REPO / "docs").glob("*.md")} == {
        Path(path).name for path in named if re.fullmatch(r"docs/[^/]+\.md", path)
    }
    assert len(named) == len(set(named))


def test_the_site_is_built_without_warnings_and_names_no_other_host() -> None:
    built = subprocess.run(
        [sys.executable, "tools/docs_site.py"], cwd=REPO, check=False, capture_output=True, text=True, timeout=240
    )
    assert built.returncode == 0, built.stderr
    site = REPO / "build" / "site"
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//([^/"]+)')
    hosts = {host for page in site.rglob("*.html") for host in loaded.findall(page.read_text(encoding="utf-8"))}
    assert hosts == set()
    found = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("first-mesh" in row["location"] for row in found["docs"])
