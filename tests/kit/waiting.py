"""Waiting for a condition, with a deadline. Tests never sleep for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
"""For what happens at once, unless the machine is busy with something else."""
MAX_PAUSE_S = 1.0


def wait_until(predicate: Callable[[], T], deadline_s: float = DEADLINE_S, what: str | Callable[[], str] = "") -> T:
    """The first true value of `predicate()`; AssertionError, naming `what`, when none comes within `deadline_s`.

    A pause is at least twice as long as the look before it (up to MAX_PAUSE_S): looks that start a program, or list a
    thousand resources, would take the CPU from what they wait for.
    """
    end = time.monotonic() + deadline_s
    pause = 0.001
    while True:
        began = time.monotonic()
        value = predicate()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            text = what() if callable(what) else what
            raise AssertionError(f"not within {deadline_s} s: {text or predicate}; last value {value!r}")
        time.sleep(max(pause, min(2 * (now - began), MAX_PAUSE_S)))
        pause = min(pause * 1.5, 0.05)
