"""Which configured address an address belongs to: prefixes and patterns, best match.

Seed 003 "Pattern Matching for Addresses".
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

V = TypeVar("V")

_DELIMITERS = re.compile(r"[./]")
_RANK = {"*": 1, "#": 2}


class PatternTree(Generic[V]):
    """Patterns of words between `.` or `/`, with `*` for exactly one word and `#` for any number of them.

    A prefix `a.b` is the pattern `a.b.#`. Where several match, the most specific wins, word by word from the left:
    a literal word before `*` before `#`.
    """

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, ...], V] = {}
        self._by_first: dict[str, set[tuple[str, ...]]] = {}

    def add(self, pattern: str, value: V) -> None:
        """Raises KeyError if an equal pattern is there already."""
        words = tuple(split_words(pattern))
        if words in self._patterns:
            raise KeyError(pattern)
        self._patterns[words] = value
        self._by_first.setdefault(words[0] if words else "", set()).add(words)

    def remove(self, pattern: str) -> None:
        """Raises KeyError for a pattern that is not there."""
        words = tuple(split_words(pattern))
        del self._patterns[words]
        first = words[0] if words else ""
        self._by_first[first].discard(words)
        if not self._by_first[first]:
            del self._by_first[first]

    def get(self, pattern: str) -> V | None:
        """The value of an equal pattern."""
        return self._patterns.get(tuple(split_words(pattern)))

    def match(self, address: str) -> V | None:
        """The value of the best matching pattern."""
        words = split_words(address)
        best: tuple[str, ...] | None = None
        for first in (words[0] if words else "", "*", "#"):
            for pattern in self._by_first.get(first, ()):
                if matches(pattern, words) and (best is None or rank(pattern) < rank(best)):
                    best = pattern
        return None if best is None else self._patterns[best]


def split_words(text: str) -> list[str]:
    """The words between delimiters; a leading or trailing delimiter makes no word."""
    words = _DELIMITERS.split(text)
    if words and not words[0]:
        words.pop(0)
    if words and not words[-1]:
        words.pop()
    return words


def prefix_pattern(prefix: str) -> str:
    """The pattern that a prefix stands for."""
    return prefix + "/#"


def rank(pattern: tuple[str, ...]) -> tuple[int, ...]:
    """Smaller is more specific; the 3 at the end makes the longer of two equal beginnings the better one."""
    return (*(_RANK.get(word, 0) for word in pattern), 3)


def matches(pattern: tuple[str, ...], words: list[str]) -> bool:
    """Whether the words fit the pattern; linear in len(pattern) * len(words)."""
    reach = {0}
    for token in pattern:
        if token == "#":
            reach = set(range(min(reach), len(words) + 1)) if reach else reach
        else:
            reach = {i + 1 for i in reach if i < len(words) and token in ("*", words[i])}
        if not reach:
            return False
    return len(words) in reach
