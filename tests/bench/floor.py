"""The relay floor as a process, plain or with TLS."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Self

from tests.bench.errors import BenchError
from tests.kit.certificates import KeyPair

_LIFE_S = 120


class FloorProcess:
    """A byte relay; use as a context manager. `pair`: its certificate and key, without them it is plain."""

    def __init__(self, program: Path, cores: frozenset[int] | None = None, pair: KeyPair | None = None) -> None:
        files = [str(pair.cert), str(pair.key)] if pair else []
        self._process = subprocess.Popen(
            [str(program), str(_LIFE_S), *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if cores:
            os.sched_setaffinity(self._process.pid, cores)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise BenchError(f"the relay floor ended with {self._process.wait()}")
        self.port = int(json.loads(line)["port"])

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
