"""Router processes: started from a configuration text, waited for, stopped, killed; failed tests show their logs.

They are started by fork (`kit/forked.py`), but for tests about the process itself: its options, signals and memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.kit.bound import bound
from tests.kit.forked import Forked, start_forked
from tests.kit.ports import free_port

START_S = 120.0
STOP_S = 60.0
LOG_TAIL_BYTES = 6000
BY_EXEC = "a test of the memory needs the mark by_exec, which starts routers by exec"


def command() -> list[str]:
    """How the router under test is started. The engine is chosen by WAYMESH_ENGINE, which the process inherits."""
    return [sys.executable, "-m", "waymesh_router.runtime.main"]


class RouterProcess:
    """One router. Its configuration and log lie in `folder` as `<name>.conf` and `<name>.log`."""

    def __init__(
        self, folder: Path, name: str, config: str, ports: Iterable[int], within: Sequence[str] | None = None
    ) -> None:
        """`ports`: what must accept before the router counts as started; the first is the one for clients. `within`:
        words before its command, which they replace themselves by; even without any it is started by exec then."""
        self.name = name
        self.ports = list(ports)
        self.config_path = folder / f"{name}.conf"
        self.log_path = folder / f"{name}.log"
        self.config_path.write_text(config, encoding="utf-8")
        self.arguments = ["-c", str(self.config_path)]
        self.within = within
        self._process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def port(self) -> int:
        """The port for clients."""
        return self.ports[0]

    @property
    def url(self) -> str:
        """amqp://127.0.0.1:PORT"""
        return f"amqp://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self._process is not None, f"router {self.name} is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """All that the router has logged, over all its starts."""
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def launch(self) -> None:
        """Start the process and return at once; `wait_listening` follows."""
        assert self._process is None, f"router {self.name} is running"
        with self.log_path.open("ab") as log:
            if self.within is None:
                self._process = start_forked(self.arguments, log)
            else:
                line = bound([*self.within, *command(), *self.arguments])
                self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self) -> RouterProcess:
        """Start the process and wait until all its ports accept."""
        self.launch()
        self.wait_listening()
        return self

    def wait_listening(self) -> None:
        """Until all ports accept. AssertionError with the log when the process ends or START_S pass."""
        end = time.monotonic() + START_S
        for port in self.ports:
            while not accepts("127.0.0.1", port):
                if not self.alive():
                    raise AssertionError(f"router {self.name} ended at once\n{self.log_tail()}")
                if time.monotonic() > end:
                    raise AssertionError(f"router {self.name} does not listen on {port}\n{self.log_tail()}")
                time.sleep(0.01)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """Orderly stop (SIGTERM); the exit code. A process that does not end is killed and fails the test."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"router {self.name} does not stop\n{self.log_tail()}") from None

    def kill(self) -> None:
        """SIGKILL: gone without a word."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop in order and start again, same configuration and ports."""
        self.stop()
        self.start()

    def log_tail(self) -> str:
        """The end of the log, with a title, for messages of failed tests."""
        return f"---- log of router {self.name}\n{self.log[-LOG_TAIL_BYTES:]}"

    def resident_bytes(self) -> int:
        """Memory of the process (resident set), which must be started by exec: others share pages."""
        assert self.within is not None, BY_EXEC
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """The largest resident set so far, likewise."""
        return self._status_bytes("VmHWM")

    def file_bytes(self) -> int:
        """The part of the resident set that is pages of files, now: the kernel drops them where memory is limited."""
        return self._status_bytes("RssFile")

    def _status_bytes(self, name: str) -> int:
        assert self.within is not None, BY_EXEC
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{name}:")) << 10

    def cpu_s(self) -> float:
        """CPU seconds used so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def standalone(
    folder: Path, name: str = "A", extra: str = "", within: Sequence[str] | None = None
) -> RouterProcess:
    """A standalone router with one listener, not started; `extra` is appended to its configuration. `within`: as for
    RouterProcess."""
    port = free_port()
    listener = section("listener", host="127.0.0.1", port=port, managementFiles=True)
    text = section("router", id=name, mode="standalone") + listener + extra
    return RouterProcess(folder, name, text, [port], within)


def section(entity: str, **attributes: object) -> str:
    """Configuration text of one entity; True and False become yes and no."""
    lines = [f"{entity} {{"]
    for name, value in attributes.items():
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        lines.append(f"    {name}: {text}")
    return "\n".join([*lines, "}", ""])


def accepts(host: str, port: int) -> bool:
    """Whether a connection to this port is accepted now."""
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex((host, port)) == 0
