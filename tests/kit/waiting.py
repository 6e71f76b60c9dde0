"""Waiting for a condition, with a deadline. Tests never sleep for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
"""For what happens at once, unless the machine is busy with something else."""


def wait_until(predicate: Callable[[], T], deadline_s: float = DEADLINE_S, what: str | Callable[[], str] = "") -> T:
    """The first true value of `predicate()`; AssertionError, naming `what`, when none comes within `deadline_s`."""
    end = time.monotonic() + deadline_s
    pause = 0.001
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            text = what() if callable(what) else what
            raise AssertionError(f"not within {deadline_s} s: {text or predicate}; last value {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
