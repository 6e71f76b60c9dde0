"""A control group (cgroup) with a limit of memory, and what the kernel did in it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from tests.kit.waiting import wait_until

CGROUPS = Path("/sys/fs/cgroup")
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class ControlGroup:
    """A control group with a limit of memory in bytes, version 1 or 2.

    `folder` is None without the right to make one.
    """

    def __init__(self, limit: int) -> None:
        self._second = (CGROUPS / "cgroup.controllers").exists()
        folder = (CGROUPS if self._second else CGROUPS / "memory") / f"waymesh-test-{os.getpid()}-{time.monotonic_ns()}"
        file = folder / ("memory.max" if self._second else "memory.limit_in_bytes")
        self.folder: Path | None = None
        with contextlib.suppress(OSError):
            folder.mkdir()
            try:
                file.write_text(str(limit), encoding="ascii")
                self.folder = folder
            except OSError:
                folder.rmdir()

    @property
    def within(self) -> tuple[str, ...]:
        """Words before the command of a process that is to run in it."""
        return () if self.folder is None else ("sh", "-c", ENTER, str(self.folder))

    def at_limit(self) -> int:
        """How often a process wanted more than the limit; the kernel may have freed memory for it, such as its cache of
        files."""
        return self._number("memory.events", "max") if self._second else self._number("memory.failcnt")

    def killed(self) -> int:
        """How many of its processes the kernel has killed because no memory could be freed."""
        return self._number("memory.events" if self._second else "memory.oom_control", "oom_kill")

    def most(self) -> int:
        """The most bytes in it so far, with its cache of files."""
        return self._number("memory.peak" if self._second else "memory.max_usage_in_bytes")

    def used(self) -> int:
        """The bytes of its processes now, without the cache of files."""
        return self._number("memory.stat", "anon" if self._second else "total_rss")

    def _number(self, file: str, name: str = "") -> int:
        assert self.folder is not None
        for line in (self.folder / file).read_text(encoding="ascii").splitlines():
            *first, value = line.split()
            if first == ([name] if name else []):
                return int(value)
        raise ValueError(f"{file} has no {name}")

    def remove(self) -> None:
        """Its processes have ended; the kernel may need a moment to notice."""
        if self.folder is not None:
            wait_until(self._removed, 60)

    def _removed(self) -> bool:
        assert self.folder is not None
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return not self.folder.exists()
