"""A router that times what its telemetry does, by the clocks of the threads that do it.

    python -m tests.bench.clocked_router FILE -c CONFIGURATION

At its end it writes the microseconds to FILE. Left out is the choice of samples: compiled code does it, which cannot be
wrapped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waymesh_router.runtime.main import main
from waymesh_router.runtime.spool.files import SpoolFiles
from waymesh_router.telemetry.collector import Collector

STEPS: tuple[tuple[type, str], ...] = ((Collector, "tick"), (Collector, "record_samples"), (SpoolFiles, "write"))


class Clock:
    """Adds up the time of calls; of calls within such a call nothing is added twice."""

    def __init__(self) -> None:
        self.ns = 0
        self._inside = False

    def timed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, on this clock."""

        def run(*args: Any) -> Any:
            if self._inside:
                return step(*args)
            self._inside, began = True, time.thread_time_ns()
            try:
                return step(*args)
            finally:
                self.ns += time.thread_time_ns() - began
                self._inside = False

        return run


def clocked() -> None:
    """The command."""
    file = Path(sys.argv.pop(1))
    clocks: dict[type, Clock] = {owner: Clock() for owner, _ in STEPS}  # one a thread
    for owner, name in STEPS:
        setattr(owner, name, clocks[owner].timed(getattr(owner, name)))
    status = main()
    file.write_text(str(sum(clock.ns for clock in clocks.values()) // 1000), encoding="ascii")
    sys.exit(status)


if __name__ == "__main__":
    clocked()
