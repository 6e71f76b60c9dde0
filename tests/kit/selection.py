"""Which tests a session runs: finds those that start processes, and leaves tests with other programs out on the
interpreted engine that the compiled one runs anyway."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

import waymesh_amqp
from tests.kit.changes import changed_files, words

STARTERS = frozenset(
    {"subprocess", "multiprocessing", "tests.kit.boot", "tests.kit.built", "tests.kit.browser", "tests.kit.forked",
     "tests.kit.interrupted", "tests.kit.local_mode", "tests.kit.process"}
)  # fmt: skip
"""Modules that start processes: a test whose module has something of them, or of a module of tests that has, is marked
`processes`."""
WITH_PROGRAMS = frozenset(Path(__file__).parents[1] / name for name in ("interop", "reconcile"))
"""Folders of tests whose time is that of routers and other programs: the compiled engine runs them whole."""
PARTS = 3
"""On the interpreted engine one file of so many of these folders runs, and those that the last changes concern."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests that start processes, and deselects files of WITH_PROGRAMS on the interpreted engine, except for what
    the compiled one does not run."""
    known: dict[str, bool] = {}
    for item in items:
        if isinstance(item, pytest.Function) and starts_processes(item, known):
            item.add_marker(pytest.mark.processes)
    if waymesh_amqp.engine() == "compiled" or os.environ.get("WAYMESH_TEST_ALL") == "1":
        return
    # A file that is named on the command line runs.
    named = {Path(argument.partition("::")[0]).name for argument in config.args}
    files = {item.path for item in items if WITH_PROGRAMS & set(item.path.parents) and item.path.name not in named}
    left_out = files - set(chosen(files, changed_files()))
    gone = {item for item in items if item.path in left_out and runs_compiled(item)}
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]


def runs_compiled(item: pytest.Item) -> bool:
    """Whether `make test-compiled` runs the test."""
    return item.get_closest_marker("engine_independent") is None


def starts_processes(item: pytest.Function, known: dict[str, bool]) -> bool:
    """Whether the test's module, or that of one of its fixtures, has something of a module in STARTERS."""
    fixtures = [one.func.__module__ for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    return any(leads_to_starter(name, known, sys.modules) for name in (item.module.__name__, *fixtures))


def leads_to_starter(name: str, known: dict[str, bool], modules: Mapping[str, ModuleType]) -> bool:
    """Whether a module of tests is in STARTERS, or has an object of a module that leads there."""
    if name in STARTERS:
        return True
    if not name.startswith("tests.") or name not in modules:
        return False
    if name not in known:
        known[name] = False  # until it is known: modules may have objects of each other
        known[name] = any(leads_to_starter(origin(value), known, modules) for value in vars(modules[name]).values())
    return known[name]


def origin(value: object) -> str:
    """The name of the module that a value is, or was defined in."""
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", "") or "") if callable(value) else ""


def chosen(files: set[Path], changed: list[Path]) -> list[Path]:
    """The files of WITH_PROGRAMS that run on the interpreted engine: a fixed third by the names, those that have
    changed, and those whose name has a word of a changed module's."""
    about = {word for path in changed if path.suffix == ".py" and "tests" not in path.parts for word in words(path)}
    names = {path.name for path in changed}
    return [
        path
        for path in files
        if zlib.crc32(path.name.encode()) % PARTS == 0 or path.name in names or about & set(words(path))
    ]
