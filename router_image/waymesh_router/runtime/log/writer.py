"""Writes log lines in a thread, so that a slow disk, terminal or pipe does not block the event loop."""

from __future__ import annotations

import os
import stat
import sys
import threading
from queue import SimpleQueue

from waymesh_router.runtime.log.log import Sink, open_sink
from waymesh_router.runtime.log.rotation import Rotation

MAX_WAITING = 20_000
"""Maximum number of lines that wait for a slow output; further ones are dropped."""
END_S = 2.0
"""Time limit for a slow output when the process ends."""


def open_output(output: str, rotation: Rotation | None = None) -> Sink:
    """The sink for a value of `outputFile`: direct for a regular file, in a thread for all others. Raises OSError."""
    sink = open_sink(output, rotation)
    return sink if _is_file(output) else QueuedSink(sink)


def _is_file(output: str) -> bool:
    if output == "syslog":
        return False
    try:
        stream = getattr(sys, output) if output in ("stderr", "stdout") else None
        mode = os.stat(output).st_mode if stream is None else os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # the stream does not exist
        return False
    return stat.S_ISREG(mode)


class QueuedSink:
    """Passes lines to a thread of its own, which writes them to another sink in order."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._queue: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._failed = 0
        self._reason = ""  # of the last failure
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, level: str, line: str) -> None:
        """Queue a line. Raises OSError for a dropped line, and once for each line that could not be written."""
        if self._queue.qsize() >= MAX_WAITING:
            raise OSError("too many lines are waiting to be written")
        self._queue.put((level, line))
        if self._failed:
            self._failed -= 1
            raise OSError(self._reason)

    def close(self) -> None:
        """Write the queued lines, within the time limit."""
        self._queue.put(None)
        self._thread.join(END_S)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                self._sink.write(*item)
            except (OSError, ValueError) as error:  # full disk, closed stream, unencodable character
                self._reason = getattr(error, "strerror", None) or str(error)
                self._failed += 1
        self._sink.close()
