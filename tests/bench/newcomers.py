"""`python -m tests.bench.newcomers PORT [PID]`: opens a connection after the other until its standard input ends.

Then it prints as JSON how many seconds the slowest open took, the most CPU seconds that the router (PID) had during
one, and how many clients were refused, as they may be while memory is full. A port is written by `secured.port_text`.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.bench.errors import BenchError
from tests.bench.floods import PINGER_END_S, prefer
from tests.bench.rawclient import RawClient
from tests.bench.secured import port_of, port_text

PERIOD_S: Final = 0.05


class Newcomers:
    """These clients, in a process of their own. After it: `slowest_s`, the most CPU that `router`, a process id, had
    during one open (`most_cpu_s`), and how many were `refused`. On a busy machine, where a router waits for a core, its
    CPU during an open tells how long this would take on an idle one, as far as the router is concerned."""

    def __init__(self, port: int, router: int | None = None) -> None:
        command = [sys.executable, "-m", "tests.bench.newcomers", port_text(port)]
        if router is not None:
            command.append(str(router))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        prefer(self._process.pid)
        self.slowest_s = self.most_cpu_s = 0.0
        self.refused = 0

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BenchError("the new clients did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        out, _ = self._process.communicate(timeout=PINGER_END_S + 60.0)
        if kind is None:
            self.slowest_s, self.most_cpu_s, self.refused = json.loads(out)


def _cpu_s(pid: int | None) -> float:
    """CPU of the main thread of a process so far, to about 4 ms while it runs."""
    if pid is None:
        return 0.0
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) * 1e-9


def main(port: int, router: int | None) -> None:
    """Open connections until nobody wants it any more."""
    slowest, most_cpu, refused = 0.0, 0.0, 0
    with contextlib.suppress(BenchError, OSError), RawClient(port, "first"):
        pass  # what is made once, such as the context of TLS, is there now
    sys.stdout.write("\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], PERIOD_S)[0]:
        tried, cpu = time.monotonic(), _cpu_s(router)
        try:
            with RawClient(port, "newcomer"):
                slowest = max(slowest, time.monotonic() - tried)
                most_cpu = max(most_cpu, _cpu_s(router) - cpu)
        except (BenchError, OSError):
            refused += 1
    json.dump((slowest, most_cpu, refused), sys.stdout)


if __name__ == "__main__":
    main(port_of(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
