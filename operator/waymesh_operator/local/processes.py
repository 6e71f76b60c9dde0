"""Router processes: start them, see how they are, end them, and find those of an earlier run again by their pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol

PROGRAM = "waymesh-router"


class Process(Protocol):
    """A router process."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def ended(self) -> str | None:
        """None while it runs, then how it ended."""

    def send(self, number: int) -> None:
        """Send it a signal; nothing happens when it is gone."""


class Launcher(Protocol):
    """Starts routers, and finds those that run already."""

    def start(self, config: Path, log: Path) -> Process:
        """Start a router with a configuration file. Its output is appended to `log`."""

    def find(self, pid: int, config: Path) -> Process | None:
        """The router of an earlier run with this pid and configuration file, if it still runs."""


class ChildProcess:
    """A router that we started."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def ended(self) -> str | None:
        """None while it runs, then how it ended."""
        code = self._popen.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else f"signal {-code} {signal.Signals(-code).name}"

    def send(self, number: int) -> None:
        """Send it a signal; nothing happens when it is gone."""
        self._popen.send_signal(number)


class FoundProcess:
    """A router that an earlier run started."""

    def __init__(self, pid: int, config: Path) -> None:
        self.pid = pid
        self._config = config

    def ended(self) -> str | None:
        """None while it runs; nobody but its parent learns how it ended."""
        return None if _runs(self.pid, self._config) else "ended"

    def send(self, number: int) -> None:
        """Send it a signal, if the pid still means this router."""
        if _runs(self.pid, self._config):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class SystemLauncher:
    """Starts `waymesh-router` from beside this Python, or from the PATH."""

    def start(self, config: Path, log: Path) -> ChildProcess:
        """Start a router in a session of its own, so that Ctrl-C in the terminal reaches only us."""
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [*router_command(), "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return ChildProcess(popen)

    def find(self, pid: int, config: Path) -> FoundProcess | None:
        """The router of an earlier run, if it still runs."""
        return FoundProcess(pid, config) if _runs(pid, config) else None


def router_command() -> list[str]:
    """The command that runs a router."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.exists() else shutil.which(PROGRAM)
    return [found] if found else [sys.executable, "-m", "waymesh_router.runtime.main"]


def _runs(pid: int, config: Path) -> bool:
    """Whether the process exists, is no zombie, and was started with this configuration file."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(config).encode() in command


def usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds used so far and resident bytes of a process; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")
