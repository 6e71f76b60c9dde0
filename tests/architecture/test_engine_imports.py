"""Each hot module can be imported first; imports between the files of the engine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.tree import text_of
from waymesh_amqp import _engine

FOLDER = Path("router_image/waymesh_amqp")
ENDPOINTS = {"connection", "session", "link", "handler", "delivery", "transfer"}
"""Their `.pxd` files name each other's classes: a connection has sessions and a handler, a session links and
deliveries, each of them knows what it belongs to, and the handler is called with all of them."""

CLASS_LINES = 400

FIRST_IMPORTS = """
import importlib, os, sys, traceback
import waymesh_amqp
failed = 0
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed)
"""


def test_each_hot_module_can_be_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_IMPORTS, *_engine.HOT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def run_time_imports(name: str) -> set[str]:
    """Modules of the engine that a module imports when it is interpreted, not those that only type checkers import."""
    body = ast.parse(text_of(FOLDER / f"{name}.py")).body
    for node in list(body):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "cython.compiled":
            body += node.orelse
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {module.removeprefix("waymesh_amqp.") for module in found}


@pytest.mark.engine_independent
def test_modules_import_each_other_in_one_direction() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    graph = {name: (run_time_imports(name) & names) - {name} for name in names}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.engine_independent
def test_declarations_form_one_known_circle() -> None:
    names = {path.stem for path in FOLDER.glob("*.pxd")}
    graph = {}
    for name in names:
        words = re.findall(r"^from waymesh_amqp\.(\w+) cimport", text_of(FOLDER / f"{name}.pxd"), re.MULTILINE)
        graph[name] = set(words) - {name}
        assert name not in ENDPOINTS or graph[name] & ENDPOINTS, f"{name} is no part of the circle any more"
    TopologicalSorter({name: graph[name] - ENDPOINTS for name in names - ENDPOINTS}).prepare()
    assert not {name for name in names - ENDPOINTS for e in ENDPOINTS if name in graph[e] and graph[name] & ENDPOINTS}


@pytest.mark.engine_independent
def test_classes_are_short() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.ClassDef):
                assert (node.end_lineno or 0) - node.lineno < CLASS_LINES, f"{path}: {node.name}"
