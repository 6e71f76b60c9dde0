"""How a configured prefix or pattern is read, in routers and in the operator."""

from __future__ import annotations

import re
from typing import Final

SEPARATORS: Final = "./"
"""Each of these separates the words of an address."""


def trimmed_match(match: str) -> str:
    """A configured prefix or pattern without separators at its start and end, which do not count."""
    return match.strip(SEPARATORS)


def words_of(pattern: str) -> tuple[str, ...]:
    """The words of a configured pattern."""
    trimmed = trimmed_match(pattern)
    return tuple(re.split(f"[{SEPARATORS}]", trimmed)) if trimmed else ()


def matches_all(pattern: str) -> bool:
    """Whether a pattern matches every address, also none at all: that of a dynamic source."""
    words = words_of(pattern)
    return bool(words) and all(word == "#" for word in words)


def covers(wide: str, pattern: str) -> bool:
    """Whether `wide` matches all addresses that `pattern` matches. In doubt, as for `a.*.#` and `a.#.*`, False."""
    outer = words_of(wide)

    def with_skipped(places: set[int]) -> set[int]:
        """Also the places after each `#`, which may match no word."""
        found = set()
        for place in places:
            found.add(place)
            while place < len(outer) and outer[place] == "#":
                place += 1
                found.add(place)
        return found

    reached = with_skipped({0})
    for word in words_of(pattern):
        after = {at for at in reached if at < len(outer) and outer[at] == "#"}
        if word != "#":
            after |= {at + 1 for at in reached if at < len(outer) and outer[at] in ("*", word)}
        reached = with_skipped(after)
    return len(outer) in reached
