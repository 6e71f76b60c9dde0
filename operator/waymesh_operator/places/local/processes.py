"""Local routers: their processes, and their state from start to end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from waymesh_operator.routers.management import LiveClient, RouterView
from waymesh_operator.routers.observed import RouterState

PROGRAM = "waymesh-router"


class Process(Protocol):
    """A router process."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def ended(self) -> str | None:
        """None while it runs, then the reason of its end."""

    def send(self, number: int) -> None:
        """Send it a signal; no effect if it has ended."""


class Launcher(Protocol):
    """Starts routers, and finds running ones."""

    def start(self, config: Path, log: Path) -> Process:
        """Start a router with a configuration file. Its output is appended to `log`."""

    def find(self, pid: int, config: Path) -> Process | None:
        """The router of an earlier run with this pid and configuration file, if it still runs."""


class ChildProcess:
    """A router that this process started."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def ended(self) -> str | None:
        """None while it runs, then the reason of its end."""
        code = self._popen.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else f"signal {-code} {signal.Signals(-code).name}"

    def send(self, number: int) -> None:
        """Send it a signal; no effect if it has ended."""
        self._popen.send_signal(number)


class FoundProcess:
    """A router that an earlier run started."""

    def __init__(self, pid: int, config: Path) -> None:
        self.pid = pid
        self._config = config

    def ended(self) -> str | None:
        """None while it runs; only its parent knows the reason of its end."""
        return None if _runs(self.pid, self._config) else "ended"

    def send(self, number: int) -> None:
        """Send it a signal, if the pid still belongs to this router."""
        if _runs(self.pid, self._config):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class SystemLauncher:
    """Starts `waymesh-router` from the folder of this Python, or from the PATH."""

    def start(self, config: Path, log: Path) -> ChildProcess:
        """Start a router in its own session, so that Ctrl-C in the terminal reaches only this process."""
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


def _beside() -> str | None:
    """The program of this Python, if it is installed."""
    beside = Path(sys.executable).with_name(PROGRAM)
    return str(beside) if beside.exists() else None


def router_command() -> list[str]:
    """The command that runs a router."""
    found = _beside() or shutil.which(PROGRAM)
    return [found] if found else [sys.executable, "-m", "waymesh_router.runtime.main"]


def has_console() -> bool:
    """Whether the routers that `router_command` starts have the console: those of this Python, if it was built."""
    found = find_spec("waymesh_router")
    if found is None or found.origin is None:
        return False
    if _beside() is None and shutil.which(PROGRAM):
        return False  # routers of another installation, perhaps an older one
    return (Path(found.origin).parent / "console" / "bundle" / "digest").is_file()


def _runs(pid: int, config: Path) -> bool:
    """Whether the process exists, is not a zombie, and was started with this configuration file."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(config).encode() in command


def usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds used so far and resident bytes of a process; None if the system does not report them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


WITHOUT_CONSOLE = "this installation is without it; in a checkout: make console"
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 10.0
STEADY_AFTER_S = 10.0
START_S = 10.0
"""Time for a router to answer after its start before its silence is reported as a fault."""
TERMINATE_S = 5.0
"""Time for a router to end after SIGTERM before it is killed."""


@dataclass
class LocalRouter:
    """A router of a local mesh. `started_at` and all other times are from one monotonic clock."""

    id: str
    ordinal: int
    client: LiveClient
    process: Process
    started_at: float
    state: RouterState = RouterState.STARTING
    # Whether this process has answered once.
    answered: bool = False
    reason: str = ""
    failures: int = 0
    retry_at: float = 0.0
    ask_at: float = 0.0
    changed: bool = False
    entities_at: float = 0.0
    view_at: float = 0.0
    view: RouterView = field(default_factory=RouterView)
    # drainStatus in the last report of the router.
    drain: str = "none"
    # Unsettled deliveries in its last report before it was drained.
    unsettled: int = 0
    # When SIGTERM was sent.
    terminated_at: float | None = None
    killed: bool = False
    cpu: float | None = None
    cpu_seconds: float = 0.0
    cpu_at: float = 0.0
    rss_bytes: int | None = None

    def started(self, process: Process, client: LiveClient, now: float) -> None:
        """A new process has replaced one that ended."""
        self.process, self.client, self.started_at = process, client, now
        self.state, self.reason, self.view, self.drain = RouterState.STARTING, "", RouterView(), "none"
        self.answered = False
        self.cpu, self.rss_bytes, self.cpu_at, self.ask_at = None, None, 0.0, 0.0

    def ended(self, reason: str, now: float) -> None:
        """The process ended without a request: wait longer each time before the next start."""
        self.failures = 1 if now - self.started_at > STEADY_AFTER_S else self.failures + 1
        delay = min(FIRST_DELAY_S * 2 ** (self.failures - 1), LONGEST_DELAY_S)
        self.state, self.reason, self.retry_at = RouterState.WAITING, reason, now + delay
        self.view = RouterView()
        self.client.close()

    def just_started(self, now: float) -> bool:
        """Whether its process has not answered yet, and is too young for that to mean anything."""
        young = now - self.started_at < START_S
        return self.state is RouterState.STARTING and not self.answered and young

    @property
    def draining(self) -> bool:
        """Whether it drains, or terminates."""
        return self.state is RouterState.DRAINING or self.drain != "none"

    def terminate(self, now: float) -> None:
        """Send SIGTERM."""
        self.state, self.terminated_at = RouterState.DRAINING, now
        self.client.close()
        self.process.send(signal.SIGTERM)

    def kill_if_overdue(self, now: float) -> bool:
        """Send SIGKILL if it has not ended in time after SIGTERM; returns whether it was sent now."""
        if self.killed or self.terminated_at is None or now - self.terminated_at <= TERMINATE_S:
            return False
        self.killed = True
        self.process.send(signal.SIGKILL)
        return True
