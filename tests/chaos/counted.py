"""A router that tells how many Python objects it has: `python -m tests.chaos.counted FILE … -c CONFIGURATION`.

On SIGUSR2 it collects cycles and writes how many objects of each type there are to the file. What has a bound of its
own, and would take hours to reach it, does not count: lines of the log, and the caches of functions. Nor do objects of
the start, which a router sets aside only until many links have ended (decision 0075).
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

CONNECTION = "waymesh_router.core.model.RouterConnection"
"""The type of each connection, as it is written to the file."""
BOUNDED = frozenset({"LogLine"})


class Counter:
    """Counts the objects of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start: Types[str] | None = None
        """The objects of the start."""

    def write(self) -> None:
        """Write the file: counts by type, fewer than at the start as negative ones."""
        _forget()
        if self._start is None:
            counted = _types()
            gc.unfreeze()
            self._start = _types()
            self._start.subtract(counted)
        types = _types()
        types.subtract(self._start)
        replace_file(self._path, json.dumps({name: count for name, count in types.items() if count}).encode())


def _types() -> Types[str]:
    """How many objects of each type there are, those that are set aside apart."""
    gc.collect()
    return Types(_name(type(one)) for one in gc.get_objects() if type(one).__name__ not in BOUNDED)


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def read(path: Path) -> Types[str]:
    """The counts of such a file."""
    return Types(json.loads(path.read_text(encoding="utf-8")))


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
