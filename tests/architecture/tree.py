"""The files of the repository for the tests of the tree, by relative path."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
PACKAGE_FOLDERS = ("router_image", "operator", "spark")


@cache
def tracked() -> tuple[Path, ...]:
    """Every file under version control that is still there."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True, text=True).stdout
    return tuple(sorted(Path(name) for name in listing.split("\0") if name and (REPO / name).is_file()))


def text_of(path: Path) -> str:
    """The file's text; bytes that are no text come out as replacement characters."""
    return (REPO / path).read_text(encoding="utf-8", errors="replace")


def python_files(*, product_only: bool = False) -> list[Path]:
    """The tracked `.py` files; with `product_only` those of the shipped packages."""
    files = [path for path in tracked() if path.suffix == ".py"]
    return [path for path in files if path.parts[0] in PACKAGE_FOLDERS] if product_only else files


def markdown_files() -> list[Path]:
    """The tracked documents."""
    return [path for path in tracked() if path.suffix == ".md"]


def pyproject() -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads(text_of(Path("pyproject.toml")))


def make_targets() -> set[str]:
    """The targets of the Makefile that `make help` lists."""
    return set(re.findall(r"^([a-z0-9-]+):.*## ", text_of(Path("Makefile")), flags=re.MULTILINE))
