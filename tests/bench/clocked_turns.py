"""A router that times the turns of its event loop, by the CPU clock of its thread: waits for a core do not count.

    python -m tests.bench.clocked_turns FILE -c CONFIGURATION

At its end it writes the nanoseconds of each turn to FILE, eight bytes each.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waymesh_router.runtime.host import SocketHost
from waymesh_router.runtime.main import main


def turns_of(file: Path) -> list[float]:
    """Seconds of CPU of each turn, in ascending order, of a router that has ended."""
    found = array("q")
    found.frombytes(file.read_bytes())
    return sorted(ns * 1e-9 for ns in found)


def within(turns: list[float], part: float) -> float:
    """The CPU of a turn that is exceeded only in the rest of the time: a long one counts for as long as it lasts, since
    what arrives waits for it."""
    left = part * sum(turns)
    for turn in turns:
        left -= turn
        if left <= 0.0:
            break
    return turn


def clocked() -> None:
    """The command."""
    file = Path(sys.argv.pop(1))
    seen = array("q")
    attach = SocketHost.attach

    def attached(self: Any, router: Any) -> None:
        attach(self, router)
        self.turn = _timed(self.turn, seen)

    SocketHost.attach = attached  # type: ignore[method-assign]
    status = main()
    file.write_bytes(seen.tobytes())
    sys.exit(status)


def _timed(end: Callable[[float], float], seen: array[int]) -> Callable[[float], float]:
    clock = time.thread_time_ns
    began = 0  # the start of the router, before its first turn, does not count

    def run(now: float) -> float:
        nonlocal began
        deadline = end(now)
        ended = clock()
        if began:
            seen.append(ended - began)
        began = ended
        return deadline

    return run


if __name__ == "__main__":
    clocked()
