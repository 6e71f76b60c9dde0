"""The threads that a router adds, and how many cores the process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from waymesh_router.runtime.transport.tls_threads import TlsThreads

if TYPE_CHECKING:
    from waymesh_router.runtime.loop import Loop

QUOTA_FILES = (Path("/sys/fs/cgroup/cpu.max"),)
"""The quota of the control group, version 2: microseconds of CPU in a period, and the period."""
OLD_QUOTA_FILES = (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
"""The same of version 1, in two files."""


def added_threads(loop: Loop, wanted: int, memory: int) -> tuple[TlsThreads | None, str]:
    """The threads of a router with `wanted` threads in all, None if there are none to add; and why there are fewer, ""
    if there are not. `memory`: bytes that all rings may have."""
    if wanted <= 1:
        return None, ""
    most = cores()
    if most == 1:
        return None, "has no effect: the process may use one core only"
    try:
        threads = TlsThreads(loop, min(wanted, most) - 1, memory)
    except OSError as error:
        return None, f"has no effect: {error.strerror}"
    return threads, f"only {most} have an effect: the process may use {most} cores" if wanted > most else ""


def cores(files: tuple[Path, ...] = QUOTA_FILES, old_files: tuple[Path, ...] = OLD_QUOTA_FILES) -> int:
    """Cores on which the process may run, at most as many as the quota of its control group fills."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota(files) or _quota(old_files)
    return max(min(allowed, int(quota)), 1) if quota else allowed


def _quota(files: tuple[Path, ...]) -> float | None:
    """Cores that the group may fill, None without a quota."""
    try:
        words = " ".join(file.read_text() for file in files).split()
    except OSError:
        return None
    if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():  # "max" or "-1": no quota
        return None
    return int(words[0]) / int(words[1])
