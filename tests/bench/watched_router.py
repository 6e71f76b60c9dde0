"""A router that writes how much memory it has, and how much of it counts for `maxMemory`.

    python -m tests.bench.watched_router FILE -c CONFIGURATION

Several times a second it replaces FILE by three numbers: bytes of the process, those of them that are in use, and the
number of links.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from waymesh_router.clients.admission import Admission
from waymesh_router.runtime.main import main


def watched() -> None:
    """The command."""
    file = Path(sys.argv.pop(1))
    part = file.with_suffix(".part")
    tick = Admission.tick

    def told(self: Any, now: float) -> None:
        tick(self, now)
        resident = self._host.memory_usage()
        part.write_bytes(b"%d %d %d" % (resident, resident - self._host.free_memory(), len(self._core.links)))
        os.replace(part, file)

    Admission.tick = told  # type: ignore[method-assign]
    sys.exit(main())


if __name__ == "__main__":
    watched()
