"""Limits for the size of files and functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.tree import python_files, text_of

pytestmark = pytest.mark.engine_independent

FILE_LINES = 400
FUNCTION_LINES_P90 = 30

LONGER: dict[str, tuple[int, str]] = {}
"""Files that may be longer: path -> (lines, why splitting them would be worse)."""


def test_files_are_short() -> None:
    too_long = []
    for path in python_files():
        lines = text_of(path).count("\n")
        if lines > LONGER.get(str(path), (FILE_LINES, ""))[0]:
            too_long.append(f"{path}: {lines} lines")
    assert not too_long, "\n".join(too_long)


def test_exceptions_are_few_and_needed() -> None:
    assert len(LONGER) <= 5
    for name, (limit, reason) in LONGER.items():
        assert reason, f"{name}: no reason"
        assert FILE_LINES < text_of(Path(name)).count("\n") <= limit, f"{name} needs no exception any more"


def function_lengths(path: Path) -> list[int]:
    """Lines of each function, its docstring not counted: explaining must not look like sprawl."""
    lengths = []
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lengths.append((node.end_lineno or 0) - body[0].lineno + 1 if body else 1)
    return lengths


def test_nine_functions_of_ten_fit_on_a_screen() -> None:
    lengths = sorted(length for path in python_files(product_only=True) for length in function_lengths(path))
    assert lengths[len(lengths) * 9 // 10] <= FUNCTION_LINES_P90
