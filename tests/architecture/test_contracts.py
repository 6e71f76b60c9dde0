"""The import rules of docs/architecture.md hold, and no package escapes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGE_FOLDERS, REPO, pyproject

pytestmark = pytest.mark.engine_independent


def test_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=REPO, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_is_under_contract() -> None:
    packages = {init.parent.name for folder in PACKAGE_FOLDERS for init in REPO.glob(f"{folder}/*/__init__.py")}
    assert set(pyproject()["tool"]["importlinter"]["root_packages"]) == packages


def test_container_folders_are_no_packages() -> None:
    """A package named `operator` would shadow the standard library's."""
    assert not [folder for folder in PACKAGE_FOLDERS if (REPO / folder / "__init__.py").exists()]


def test_every_package_is_typed_and_described() -> None:
    for folder in PACKAGE_FOLDERS:
        for init in REPO.glob(f"{folder}/*/__init__.py"):
            assert init.with_name("py.typed").exists(), f"{init.parent} has no py.typed"
            assert init.read_text().startswith('"""'), f"{init} has no docstring"
