"""The recent lines of the log. Few small objects: they would keep the memory in use in which they were made."""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from operator import attrgetter

PACKED_LINES = 64
"""Lines in one object of bytes. Objects of more than 512 bytes are not in the blocks of Python's small objects; of a
bytearray, only its content would not be."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A written line; `text` ends with the event; `timestamp` in seconds since 1970; `file` and `line`: its position in
    the code."""

    module: str
    level: str
    text: str
    file: str
    line: int
    timestamp: int


_values = attrgetter(*LogLine.__slots__)


class RecentLines:
    """At most `most` lines.

    A line that stays where it was made, among the objects of links that end soon, keeps a whole block of 1 MiB. So the
    lines are packed: the objects of a line end at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._packed: deque[bytes] = deque()
        self._last = bytearray()  # the lines since the last of `_packed`, one after the other
        self._count = 0  # of these

    def append(self, line: LogLine) -> None:
        """Add a line; the oldest ones go."""
        self._last += marshal.dumps(_values(line))
        self._count += 1
        if self._count < PACKED_LINES:
            return
        self._packed.append(bytes(self._last))
        self._last.clear()
        self._count = 0
        while (len(self._packed) - 1) * PACKED_LINES >= self._most:
            self._packed.popleft()

    def keep(self, most: int) -> None:
        """Set the maximum."""
        lines = self.lines(most)
        self._most, self._count = most, 0
        self._last.clear()
        self._packed.clear()
        for line in lines:
            self.append(line)

    def lines(self, limit: int | None = None) -> list[LogLine]:
        """The most recent lines, at most `limit`, oldest first."""
        most = self._most if limit is None else min(limit, self._most)
        found = list(_unpacked(self._last, self._count))
        for packed in reversed(self._packed):
            if len(found) >= most:
                break
            found = [*_unpacked(packed, PACKED_LINES), *found]
        return found[max(0, len(found) - most) :]


def _unpacked(packed: bytes | bytearray, count: int) -> Iterator[LogLine]:
    file = BytesIO(packed)
    for _ in range(count):
        yield LogLine(*marshal.load(file))
