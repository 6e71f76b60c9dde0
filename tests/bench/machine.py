"""The machine the figures come from, and which cores router and load generator get."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import subprocess
from pathlib import Path
from typing import Any


def cores() -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """Cores of the routers, cores of the load generator; None where there is only one core to share."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return None, None
    return frozenset(usable[:1]), frozenset(usable[1:2])


def raise_file_limit() -> None:
    """Lets the processes that are started from here have many sockets."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def describe(quick: bool) -> dict[str, Any]:
    """What must be known to read the figures."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "commit": _commit(),
        "quick": quick,
    }


def busy() -> str | None:
    """A warning when others use the machine."""
    load = os.getloadavg()[0]
    if load < 0.5 * len(os.sched_getaffinity(0)):
        return None
    return f"load average {load:.2f}: others use this machine, the figures will be too high and scatter"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
