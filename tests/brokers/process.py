"""A broker as a process: started and waited for, stopped, killed, started again on the same store and ports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kit.waiting import wait_until

START_S = 150.0
STOP_S = 20.0
LOG_TAIL_BYTES = 6000

USER, PASSWORD = "router", "router-pw"
"""The user that may do everything with messages, on every broker."""


class BrokerProcess:
    """What all brokers share. A subclass says `command`, `ready` and, where it differs, `environment`."""

    ready = ""
    """What the broker logs when it takes connections."""

    def __init__(self, folder: Path) -> None:
        """`folder`: its configuration, store and log; made if it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log_path = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def command(self) -> list[str]:
        """The command line."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port that takes user and password (PLAIN)."""
        raise NotImplementedError

    def create_queue(self, name: str) -> None:
        """A queue that keeps durable messages as long as the broker's store lasts."""
        raise NotImplementedError

    def depth(self, queue: str) -> int:
        """How many messages the queue has, those under way to consumers included."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """What to add to our own environment."""
        return {}

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self._process is not None, f"{type(self).__name__} is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged since its last start."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[self._log_start :].decode(errors="replace")

    def log_tail(self) -> str:
        """The end of the log, with a title, for messages of failed tests."""
        return f"---- log of {type(self).__name__}\n{self.log[-LOG_TAIL_BYTES:]}"

    def launch(self) -> None:
        """Start the process and return at once; `wait_ready` follows."""
        assert self._process is None, f"{type(self).__name__} is running"
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Until it takes connections. AssertionError with the log when it ends or START_S pass."""
        wait_until(lambda: self.ready in self.log or not self.alive(), START_S, self.log_tail)
        if not self.alive():
            self.kill()
            raise AssertionError(f"ended at once\n{self.log_tail()}")

    def start(self) -> Self:
        """Start the process and wait until it takes connections."""
        self.launch()
        self.wait_ready()
        return self

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Orderly stop (SIGTERM); SIGKILL if that takes too long: what a broker makes of SIGTERM is no test of ours."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self.kill()

    def kill(self) -> None:
        """SIGKILL: gone without a word."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # scripts and their children alike
            process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop in order and start again: same store, same ports."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
