"""Each module of the router's core has a test file that one finds by its name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.test_core_layers import core_files, module_of
from tests.architecture.tree import python_files, text_of

pytestmark = pytest.mark.engine_independent

CORE = "waymesh_router.core."
TESTS = Path("tests/unit/core")
BY_FRAMES = {
    "tests.kit.pump",
    "tests.unit.core.edge_peer",
    "tests.unit.core.interior_peer",
    "tests.unit.core.many_deliveries",
}
"""Tests with these drive a whole core by frames. It is the only way to test compiled modules by the same tests on both
engines: most of their methods are not visible to Python."""
WITHOUT = {
    "core_context": "values without logic",
    "control_plane_hooks": "calls that do nothing until a control plane takes their place",
    "core": "joins the parts: every test that drives a core by frames tests it",
    "memory_levels": "values without logic",
    "telemetry_hooks": "calls that do nothing until telemetry takes their place",
}
"""Modules without a test file of their own, and why."""


def modules() -> list[str]:
    """Names below `waymesh_router.core`, such as `forwarding.choice`."""
    return [module_of(path).removeprefix(CORE) for path in core_files() if path.name != "__init__.py"]


def names_of(module: str, known: Counter[str]) -> set[str]:
    """What the test file may be called: with the folder, and where that is enough, without it."""
    folder, _, name = module.rpartition(".")
    long = f"test_core_{module.replace('.', '_')}.py"
    return {long, f"test_core_{name}.py"} if folder and known[name] == 1 else {long}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_each_module_has_a_test_file_of_its_name() -> None:
    files = {path.name: path for path in python_files() if path.parent == TESTS}
    known = Counter(module.rpartition(".")[2] for module in modules())
    missing, idle = [], []
    for module in modules():
        found = sorted(names_of(module, known) & files.keys())
        if not found and module not in WITHOUT:
            missing.append(module)
        idle += [name for name in found if not imports(files[name]) & {CORE + module, *BY_FRAMES}]
    assert missing == [], "modules without a test file"
    assert idle == [], "test files that neither import their module nor drive a core by frames"


def test_exceptions_are_modules_that_have_no_test_file() -> None:
    files = {path.name for path in python_files() if path.parent == TESTS}
    known = Counter(module.rpartition(".")[2] for module in modules())
    assert WITHOUT.keys() <= set(modules())
    assert [module for module in WITHOUT if names_of(module, known) & files] == []
