"""Sums log lines that say the same again and again, such as those of a connector that retries. Pure."""

from __future__ import annotations

AGAIN_S = 60.0
"""Minimum time between two equal lines."""


class RepeatedLines:
    """The lines about one thing. Times are in seconds."""

    def __init__(self) -> None:
        self._text = ""
        self._since = 0.0
        self._left_out = 0

    def left_out(self, text: str, now: float) -> int | None:
        """How many lines with this text were left out before this one, which is to be written; None: leave it out."""
        if text == self._text and now - self._since < AGAIN_S:
            self._left_out += 1
            return None
        before = self._left_out if text == self._text else 0
        self._text, self._since, self._left_out = text, now, 0
        return before
