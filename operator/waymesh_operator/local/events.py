"""What happens, for a person to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GOOD, NOTE, WARN, BAD = "good", "note", "warn", "bad"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: how it is to be taken (good, note, warn, bad), and what, in one line."""

    level: str
    text: str


Sink = Callable[[Event], None]
"""Takes events as they happen."""
