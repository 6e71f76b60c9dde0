"""A router that tells how many Python objects it has: `python -m tests.chaos.counted FILE … -c CONFIGURATION`.

On SIGUSR2 it collects cycles and writes the number of objects, and of the most frequent types, to the file. What has a
bound of its own, and would take hours to reach it, does not count: lines of the log, and the caches of functions.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from tests.kit.files import replace_file

TYPES = 30


def words(path: Path) -> list[str]:
    """What stands before the command of a router (`within` of RouterProcess); its own command is then not used."""
    return [sys.executable, "-m", "tests.chaos.counted", str(path)]


def ask(pid: int, path: Path) -> None:
    """Let the router write the file anew, which is removed first."""
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)


def _write(path: Path) -> None:
    for module in list(sys.modules.values()):
        if module.__name__.startswith("waymesh"):
            for kept in vars(module).values():
                if hasattr(kept, "cache_clear"):
                    kept.cache_clear()
    gc.collect()
    objects = [one for one in gc.get_objects() if type(one).__name__ != "LogLine"]
    types = Counter(type(one).__name__ for one in objects)
    text = json.dumps({"objects": len(objects), "types": dict(types.most_common(TYPES))})
    replace_file(path, text.encode())


def main() -> int:
    """Be a router."""
    path = Path(sys.argv[1])
    signal.signal(signal.SIGUSR2, lambda *_: _write(path))
    from waymesh_router.runtime.main import main as run

    sys.argv[1:] = sys.argv[sys.argv.index("-c") :]
    return run()


if __name__ == "__main__":
    sys.exit(main())
