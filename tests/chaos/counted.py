"""A router that tells how many Python objects it has: `python -m tests.chaos.counted FILE … -c CONFIGURATION`.

On SIGUSR2 it collects cycles and writes the number of objects, and of the most frequent types, to the file. What has a
bound of its own, and would take hours to reach it, does not count: lines of the log, and the caches of functions. Nor
do objects of the start, which a router sets aside only until many links have ended (decision 0075).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import Counter as Types
from pathlib import Path

from tests.kit.files import replace_file

TYPES = 30


class Counter:
    """Counts the objects of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start: int | None = None
        """How many objects of the start there are."""

    def write(self) -> None:
        """Write the file."""
        _forget()
        if self._start is None:
            counted = len(_objects())
            gc.unfreeze()
            self._start = len(_objects()) - counted
        objects = _objects()
        types = Types(type(one).__name__ for one in objects)
        text = json.dumps({"objects": len(objects) - self._start, "types": dict(types.most_common(TYPES))})
        replace_file(self._path, text.encode())


def _objects() -> list[object]:
    gc.collect()
    return [one for one in gc.get_objects() if type(one).__name__ != "LogLine"]


def words(path: Path) -> list[str]:
    """What stands before the command of a router (`within` of RouterProcess); its own command is then not used."""
    return [sys.executable, "-m", "tests.chaos.counted", str(path)]


def ask(pid: int, path: Path) -> None:
    """Let the router write the file anew, which is removed first."""
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)


def _forget() -> None:
    for module in list(sys.modules.values()):
        # What Cython puts there for compiled modules is no module.
        if getattr(module, "__name__", "").startswith("waymesh"):
            for kept in vars(module).values():
                if hasattr(kept, "cache_clear"):
                    kept.cache_clear()


def main() -> int:
    """Be a router."""
    counter = Counter(Path(sys.argv[1]))
    signal.signal(signal.SIGUSR2, lambda *_: counter.write())
    from waymesh_router.runtime.main import main as run

    sys.argv[1:] = sys.argv[sys.argv.index("-c") :]
    return run()


if __name__ == "__main__":
    sys.exit(main())
