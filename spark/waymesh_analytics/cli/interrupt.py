"""Ctrl-C ends a command with one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STATUS = 130
"""Exit code of a command that SIGINT ended, as shells have it."""


@contextmanager
def ends_on_interrupt(text: str) -> Iterator[Callable[[], object]]:
    """On SIGINT, print a text and end this process at once, and with it Spark's Java, which reads from a pipe of it.

    Provides what must be called when Spark has started: it sets a handler of its own, which raises KeyboardInterrupt in
    the midst of Java calls, whose tracebacks fill a screen.
    """

    def end(*_: Any) -> None:
        print(text, file=sys.stderr, flush=True)
        os._exit(STATUS)

    former = signal.signal(signal.SIGINT, end)
    try:
        yield lambda: signal.signal(signal.SIGINT, end)
    finally:
        signal.signal(signal.SIGINT, former)
