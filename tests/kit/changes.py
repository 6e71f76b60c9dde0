"""What has changed in the checkout, as git says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAST_COMMITS = 10
"""What counts as changed where nothing else is said: these commits, and what is not committed."""
NO_SUBJECT = {"test", "init", "main", "core", "runtime", "router", "waymesh", "image", "operator", "spark", "proton"}
"""Words of paths that say nothing about what a module does."""


def changed_files(since: str = "") -> list[Path]:
    """Files that differ from a revision (WAYMESH_SINCE, else some commits ago), relative to the checkout; those that
    git does not know yet, too. None where there is no git."""
    base = since or os.environ.get("WAYMESH_SINCE") or f"HEAD~{LAST_COMMITS}"
    return [
        Path(name)
        for command in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
        for name in _git(*command)
    ]


def words(path: Path) -> list[str]:
    """The words in the names of a module and its folder that say what it is about, in the singular: `tests/interop/
    test_proton_limits_memory.py` -> limit, memory."""
    names = [path.stem] if path.stem.startswith("test_") else [path.stem, path.parent.name]
    found = [word.rstrip("s") for name in names for word in name.split("_")]
    return [word for word in found if len(word) > 2 and word not in NO_SUBJECT]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
