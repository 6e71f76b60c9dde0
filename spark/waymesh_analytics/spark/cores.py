"""How many tasks a local master runs at a time: as many as there are cores, unless memory has no room for them."""

from __future__ import annotations

import os
from pathlib import Path

ALL = "local[*]"
TASK_BYTES = 512 << 20
"""Memory of a task. One of ordinary files needs about 300 MiB (see `compaction.SHARD_BYTES`)."""
DRIVER_BYTES = 1536 << 20
"""Memory of this process and of the driver with its default heap of 1 GiB."""
MEMORY = Path("/proc/meminfo")
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def bounded_master(master: str) -> tuple[str, str]:
    """The master with as many tasks as memory has room for, and what to say about it; unchanged and "" if it has room
    for one on each core, or if the user chose a number."""
    memory = _memory()
    if master != ALL or memory is None:
        return master, ""
    cores, room = _cores(), max(1, (memory - DRIVER_BYTES) // TASK_BYTES)
    if room >= cores:
        return master, ""
    said = f"{room} of {cores} cores are used: {memory >> 20:,} MiB of memory have room for so many tasks"
    return f"local[{room}]", f"{said}; --master local[N] chooses another number"


def _cores() -> int:
    """The cores that Java uses by `local[*]`: not more than the control group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        return cores if quota == "max" else max(1, min(cores, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        return cores


def _memory() -> int | None:
    """Bytes that this process may use: what is available, at most the control group's limit; None: unknown."""
    found = []
    try:
        lines = dict(line.split(":", 1) for line in MEMORY.read_text(encoding="ascii").splitlines() if ":" in line)
        found.append(int(lines["MemAvailable"].split()[0]) << 10)
    except (OSError, ValueError, KeyError, IndexError):
        pass
    for file in LIMITS:
        try:
            found.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # "max", or another version of control groups
    return min(found, default=None)
