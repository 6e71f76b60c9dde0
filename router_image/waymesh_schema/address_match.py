"""How a configured prefix or pattern is read, in routers and in the operator."""

from __future__ import annotations

from typing import Final

SEPARATORS: Final = "./"
"""Each of these separates the words of an address."""


def trimmed_match(match: str) -> str:
    """A configured prefix or pattern without separators at its start and end, which do not count."""
    return match.strip(SEPARATORS)
