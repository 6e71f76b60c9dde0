"""Strict JSON: no duplicate keys, no NaN, bounded nesting, and errors that tell the line."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MAX_DEPTH = 32
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\])*"?|,(\s*[}\]])', re.DOTALL)
_MARK = re.compile(r'"(?:\\.|[^"\\])*"?|[\[{\]}]', re.DOTALL)


class JsonError(ValueError):
    """JSON that is refused; `line` counts from 1 within the text."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


def load(text: str) -> Any:
    """The value of the text; raises JsonError."""
    _check_depth(text)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise JsonError(error.lineno, f"invalid JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise JsonError(1, f"invalid JSON: {error}") from None


def without_trailing_commas(text: str) -> str:
    """The text with a blank in place of each comma that stands before a closing bracket."""
    return _LAST_COMMA.sub(lambda found: found[0] if found[1] is None else " " + found[1], text)


def elements(text: str) -> list[tuple[int, Any]]:
    """The elements of the list that the text is, each with the line it begins at; raises JsonError."""
    if not isinstance(load(text), list):
        raise JsonError(1, "must be a JSON list")
    decoder = json.JSONDecoder()
    found: list[tuple[int, Any]] = []
    position, line = text.index("[") + 1, 1 + text.count("\n", 0, text.index("[") + 1)
    while True:
        gap = _gap_end(text, position)
        line += text.count("\n", position, gap)
        if text[gap] == "]":
            return found
        value, position = decoder.raw_decode(text, gap)
        found.append((line, value))
        line += text.count("\n", gap, position)


def _gap_end(text: str, position: int) -> int:
    while text[position] in " \t\r\n,":
        position += 1
    return position


def _check_depth(text: str) -> None:
    depth = 0
    for mark in _MARK.finditer(text):
        if mark[0] in "[{":
            depth += 1
        elif mark[0] in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            raise JsonError(1 + text.count("\n", 0, mark.start()), f"nested more than {MAX_DEPTH} deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is given twice")
        found[key] = value
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
