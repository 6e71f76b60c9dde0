"""A release: the version is set everywhere, the change log has its section, checksums are those of sha256sum."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.kit.scripts import load_script

pytestmark = pytest.mark.engine_independent

REPO = Path(__file__).resolve().parents[2]
release = load_script("tools/release.py")

NOW = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
OTHERS = ("tests/", "docs/decisions/", "CHANGELOG.md", "constraints.txt")
"""Where a number that looks like the version is none, or is that of the past."""


def text_of(name: str) -> str:
    return (REPO / name).read_text(encoding="utf-8")


def test_no_place_of_the_version_is_forgotten() -> None:
    texts = release.set_version("7.8.9-rc.1", text_of)
    pattern = rf"(^|[^0-9.]){re.escape(NOW)}"  # 10.1.0, of another program, is another number
    listed = subprocess.run(
        ["git", "grep", "-lE", pattern], cwd=REPO, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert {name for name in listed if not name.startswith(OTHERS)} == set(texts)
    for name, text in texts.items():
        assert NOW not in text, name
        assert "7.8.9-rc.1" in text, name
    assert tomllib.loads(texts["pyproject.toml"])["project"]["version"] == "7.8.9-rc.1"


def test_a_place_that_is_gone_is_named() -> None:
    with pytest.raises(release.ReleaseError, match=r"pyproject.toml: no version"):
        release.set_version("1.0.0", lambda name: "")


def test_the_section_of_the_version_is_dated_and_becomes_the_notes() -> None:
    before = "# C\n\n## 0.2.0 (unreleased)\n\n- New.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"
    text, notes = release.dated(before, "0.2.0", "2026-02-03")
    assert "## 0.2.0 (2026-02-03)\n" in text
    assert notes == "- New."


@pytest.mark.parametrize(
    ("text", "says"), [("# C\n", "no section"), ("## 0.2.0 (unreleased)\n\n## 0.1.0 (x)\n", "says nothing")]
)
def test_a_change_log_without_the_version_prevents_the_release(text: str, says: str) -> None:
    with pytest.raises(release.ReleaseError, match=says):
        release.dated(text, "0.2.0", "2026-02-03")


def test_the_change_log_of_the_tree_is_ready_for_its_version() -> None:
    _, notes = release.dated(text_of("CHANGELOG.md"), NOW, "2026-02-03")
    assert "Before you upgrade" in notes


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tgz"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(release.checksums(tmp_path))
    command = ["sha256sum", "-c", "SHA256SUMS"]
    checked = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert re.findall(r"^(\S+): OK$", checked.stdout, re.MULTILINE) == ["a.tgz", "b.whl"]


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(release.ReleaseError, match="is not a version"):
        release.release("next", "2026-02-03")
