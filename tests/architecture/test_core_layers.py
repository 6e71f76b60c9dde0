"""The files of the router's core import each other in one direction, and its classes stay small and final."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.tree import python_files, text_of

pytestmark = pytest.mark.engine_independent

PACKAGE = "waymesh_router.core"
ROOT = Path("router_image")
CLASS_LINES = 300


def core_files() -> list[Path]:
    return [path for path in python_files() if path.is_relative_to(ROOT / "waymesh_router/core")]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, known: set[str]) -> set[str]:
    """Modules of the core that a file imports when it is run. What only type checkers import is left out."""
    found: set[str] = set()
    for node in ast.parse(text_of(path)).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(PACKAGE):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & known


def test_imports_have_no_circle() -> None:
    modules = {module_of(path): path for path in core_files()}
    graph = {name: imported(path, set(modules)) - {name} for name, path in modules.items()}
    assert len(graph) > 20
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_cimports_have_no_circle() -> None:
    paths = {module_of(path): path.with_suffix(".pxd") for path in core_files()}
    graph = {}
    for name, path in paths.items():
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split() for line in lines if line.startswith("from ")]
        graph[name] = {parts[1] for parts in words} & paths.keys() - {name}
    TopologicalSorter(graph).prepare()


def test_classes_are_short_and_share_no_code_by_inheritance() -> None:
    names = set()
    bases: list[tuple[str, str]] = []
    for path in core_files():
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.ClassDef):
                names.add(node.name)
                bases += [(node.name, ast.unparse(base)) for base in node.bases]
                assert (node.end_lineno or 0) - node.lineno < CLASS_LINES, f"{path}: {node.name}"
    assert [(name, base) for name, base in bases if base in names] == []
