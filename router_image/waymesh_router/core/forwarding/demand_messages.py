"""Numbers in messages about demand. Source: protocol/demand.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MICROSECONDS: Final = 1e6
PER_RATE: Final = 1000
"""Rates are told as deliveries in this number of seconds."""
MOST: Final = 1 << 31
"""Largest window, rate and time of a delivery in a message."""
LATEST: Final = 1 << 63
"""More than each time of a question."""


def number(body: Mapping[str, object], key: str, most: int = LATEST - 1) -> int:
    """A number in a message, at most `most`; 0 if it is missing, negative or no number."""
    value = body.get(key)
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
