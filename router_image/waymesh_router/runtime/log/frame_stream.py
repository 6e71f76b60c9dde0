"""Splits one direction of a connection's bytes into protocol headers and frames, for the log. Spec: 2.2, 2.3."""

from __future__ import annotations

from collections.abc import Callable

HEADER_SIZE = 8
HEAD_BYTES = 4096
"""Maximum number of bytes kept of a frame; the rest is almost always payload."""


class FrameStream:
    """Reports `(head, size)` of each protocol header and frame: its first HEAD_BYTES, and its total size in bytes."""

    def __init__(self, report: Callable[[bytes, int], None]) -> None:
        self._report = report
        self._head = bytearray()
        self._seen = 0
        self._size = 0  # of the frame; 0 while its header is incomplete
        self.lost = False
        """True after invalid bytes; then nothing more is reported."""

    def feed(self, data: bytes | memoryview) -> None:
        """Process the next bytes."""
        position = 0
        while position < len(data) and not self.lost:
            keep = min(self._size, HEAD_BYTES) if self._size else HEADER_SIZE
            if self._seen < keep:
                part = data[position : position + keep - self._seen]
                self._head += part
                step = len(part)
            else:
                step = min(self._size - self._seen, len(data) - position)
            position += step
            self._seen += step
            if self._seen == HEADER_SIZE and not self._size:
                self._begin()
            if self._seen == self._size:
                self._end()

    def _begin(self) -> None:
        if self._head.startswith(b"AMQP"):
            self._size = HEADER_SIZE
            return
        self._size = int.from_bytes(self._head[:4])
        self.lost = self._size < HEADER_SIZE

    def _end(self) -> None:
        head, size = bytes(self._head), self._size
        self._head.clear()
        self._seen = self._size = 0
        self._report(head, size)
