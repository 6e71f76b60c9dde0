"""Runs a function as if a signal arrived again and again: before each of its lines, and of those that it calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.kit.waiting import DEADLINE_S


def run_interrupted(function: Callable[[], object], handler: Callable[[], object]) -> None:
    """Run `function` in a thread, with calls of `handler` at all places where a signal's handler may run.

    AssertionError if it does not end: a handler that takes a lock waits for ever for one that its own thread holds.
    """

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            handler()  # not traced itself
        return at_line

    def run() -> None:
        sys.settrace(at_line)
        function()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), "it does not end"
