"""`python -m tests.bench.newcomers PORT`: opens a connection after the other until its standard input ends.

Then it prints as JSON how many seconds the slowest open took, and how many clients were refused, as they may be while
memory is full. A port is written by `secured.port_text`.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self

from tests.bench.errors import BenchError
from tests.bench.floods import PINGER_END_S, prefer
from tests.bench.rawclient import RawClient
from tests.bench.secured import port_of, port_text

PERIOD_S: Final = 0.05


class Newcomers:
    """These clients, in a process of their own. After it: `slowest_s`, and how many were `refused`."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", "tests.bench.newcomers", port_text(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        prefer(self._process.pid)
        self.slowest_s = 0.0
        self.refused = 0

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BenchError("the new clients did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        out, _ = self._process.communicate(timeout=PINGER_END_S + 60.0)
        if kind is None:
            self.slowest_s, self.refused = json.loads(out)


def main(port: int) -> None:
    """Open connections until nobody wants it any more."""
    slowest, refused = 0.0, 0
    RawClient(port, "first").__exit__(None, None, None)  # what is made once, such as the context of TLS
    sys.stdout.write("\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], PERIOD_S)[0]:
        tried = time.monotonic()
        try:
            with RawClient(port, "newcomer"):
                slowest = max(slowest, time.monotonic() - tried)
        except (BenchError, OSError):
            refused += 1
    json.dump((slowest, refused), sys.stdout)


if __name__ == "__main__":
    main(port_of(sys.argv[1]))
