"""Finds the configured prefix or pattern that best matches an address.

Routing chapter "Pattern Matching for Addresses".
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from waymesh_schema.address_match import SEPARATORS, trimmed_match

V = TypeVar("V")

_SEPARATOR = re.compile(f"[{SEPARATORS}]")
_LITERAL, _ONE, _ANY, _END = 0, 1, 2, 3
Rank = tuple[int, ...]
"""Rank of a pattern, word by word: smaller is more specific. With _END last, the longer of equal beginnings wins."""


class _Branch(Generic[V]):
    """A node of the tree: children by literal word, `*` and `#`, and the `value` of the pattern that ends here."""

    __slots__ = ("literals", "one", "rest", "value")

    def __init__(self) -> None:
        self.literals: dict[str, _Branch[V]] = {}
        self.one: _Branch[V] | None = None
        self.rest: _Branch[V] | None = None
        self.value: V | None = None

    def best(self, words: list[str], reach: set[int]) -> tuple[Rank, V] | None:
        """The best pattern below this node; `reach`: the possible numbers of words that the path to it has matched."""
        found = [
            (rank, value)
            for word in {words[i] for i in reach if i < len(words)}
            if word in self.literals
            and (hit := self.literals[word].best(words, {i + 1 for i in reach if words[i : i + 1] == [word]}))
            for rank, value in [hit]
        ]
        if found:
            rank, value = min(found, key=lambda hit: hit[0])
            return (_LITERAL, *rank), value
        after = {i + 1 for i in reach if i < len(words)}
        hit = self.one.best(words, after) if self.one is not None and after else None
        if hit is not None:
            return (_ONE, *hit[0]), hit[1]
        hit = self.rest.best(words, set(range(min(reach), len(words) + 1))) if self.rest is not None else None
        if hit is not None:
            return (_ANY, *hit[0]), hit[1]
        return ((_END,), self.value) if self.value is not None and len(words) in reach else None


class PatternTree(Generic[V]):
    """Patterns of words between `.` or `/`, with `*` for exactly one word and `#` for any number of them.

    A prefix `a.b` is the pattern `a.b.#`. If several match, the most specific one wins, word by word from the left: a
    literal word before `*` before `#`. The cost of a match depends on the number of words of the address and hardly on
    the number of patterns. Values are not None.
    """

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, ...], V] = {}
        self._root: _Branch[V] = _Branch()

    def add(self, pattern: str, value: V) -> None:
        """Raises KeyError if the tree already has an equal pattern."""
        words = _words_of(pattern)
        if words in self._patterns:
            raise KeyError(pattern)
        self._patterns[words] = value
        branch = self._root
        for word in words:
            branch = _step(branch, word)
        branch.value = value

    def remove(self, pattern: str) -> None:
        """Raises KeyError if the tree does not have the pattern."""
        words = _words_of(pattern)
        del self._patterns[words]
        _prune(self._root, words)

    def get(self, pattern: str) -> V | None:
        """The value of an equal pattern, None if the tree has none."""
        return self._patterns.get(_words_of(pattern))

    def match(self, address: str) -> V | None:
        """The value of the best matching pattern, None if no pattern matches."""
        found = self._root.best(split_words(address), {0}) if self._patterns else None
        return None if found is None else found[1]


def _step(branch: _Branch[V], word: str) -> _Branch[V]:
    """The child for the next word, created if needed."""
    if word == "*":
        branch.one = branch.one or _Branch()
        return branch.one
    if word == "#":
        branch.rest = branch.rest or _Branch()
        return branch.rest
    return branch.literals.setdefault(word, _Branch())


def _prune(branch: _Branch[V], words: tuple[str, ...]) -> bool:
    """Remove a pattern below this node; returns whether the node is empty then."""
    if not words:
        branch.value = None
    elif _prune(_step(branch, words[0]), words[1:]):
        if words[0] == "*":
            branch.one = None
        elif words[0] == "#":
            branch.rest = None
        else:
            del branch.literals[words[0]]
    return not (branch.literals or branch.one or branch.rest or branch.value is not None)


def split_words(text: str) -> list[str]:
    """The words between separators. Separators at the start and one separator at the end do not count."""
    words = _SEPARATOR.split(text.lstrip(SEPARATORS))
    if not words[-1]:
        words.pop()
    return words


def _words_of(pattern: str) -> tuple[str, ...]:
    return tuple(split_words(trimmed_match(pattern)))


def prefix_pattern(prefix: str) -> str:
    """The pattern that is equivalent to a prefix."""
    return trimmed_match(prefix) + "/#"
