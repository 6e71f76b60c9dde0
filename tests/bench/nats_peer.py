"""nats-server core as a peer: the leanest message router that people run, at most once and without settlement.

It is built once from its Go module into the cache. Its messages, 100 B from one publisher to one subscriber with 250 on
the way, are those of `pre-100` and `uns-100`; over TLS, those of `tls-100`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.scenarios import Bench
from tests.bench.tools import cache_folder
from tests.kit.certificates import Authority
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until

SOURCES: Final = Path(__file__).resolve().parent / "nats"
MESSAGE_BYTES: Final = 100
WINDOW: Final = 250
"""Messages on the way at most: the credit of our scenarios."""
SCENARIOS: Final[Mapping[str, bool]] = {"pre-100": False, "uns-100": False, "tls-100": True}
"""What a scenario of ours is compared with: whether nats-server speaks TLS."""


def build(cache: Path | None = None) -> Path:
    """The peer's program, compiled if need be. Raises UnsupportedError without Go, BenchError when Go fails."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    program = (cache or cache_folder()) / f"nats-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise UnsupportedError("nats-server is built from its Go module, and Go is not installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    aside = program.with_name(f"{program.name}.{os.getpid()}")
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(aside), "."]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise BenchError(f"go build of nats-server failed:\n{done.stderr.strip()}")
    aside.replace(program)
    return program


@contextmanager
def _server(program: Path, cores: frozenset[int] | None, tls: bool) -> Iterator[tuple[int, int]]:
    """nats-server on loopback; gives its port and process id."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as folder:
        files: list[str] = []
        if tls:
            pair = Authority(Path(folder)).issue("server", {"CN": "localhost"}, hosts=("localhost", "127.0.0.1"))
            files = [str(pair.cert), str(pair.key)]
        with subprocess.Popen([str(program), "serve", str(port), *files], stdin=subprocess.DEVNULL) as process:
            if cores:
                os.sched_setaffinity(process.pid, cores)
            try:
                wait_until(lambda: _listens(port), 20, "nats-server listens")
                yield port, process.pid
            finally:
                process.kill()


def measure(bench: Bench, *, tls: bool = False) -> Iterator[Mapping[str, float]]:
    """CPU µs of the server for a message; one mapping a repetition, the same figure under all names."""
    program = build()
    warmup, seconds = ("0.2", "0.5") if bench.quick else ("0.5", "2")
    names = [name for name, secure in SCENARIOS.items() if secure == tls]
    with _server(program, bench.launcher.cores, tls) as (port, pid):
        words = [str(port), str(pid), seconds, warmup, str(MESSAGE_BYTES), str(WINDOW), *(["tls"] if tls else [])]
        for _ in range(bench.repetitions):
            yield dict.fromkeys(names, _load(program, words, bench))


def _load(program: Path, arguments: list[str], bench: Bench) -> float:
    with subprocess.Popen([str(program), "load", *arguments], stdout=subprocess.PIPE, text=True) as process:
        if bench.cores:
            os.sched_setaffinity(process.pid, bench.cores)
        out, _ = process.communicate(timeout=60)
    if process.returncode != 0:
        raise BenchError(f"the client of nats-server ended with {process.returncode}")
    cost: float = json.loads(out)["router_cpu_us_per_message"]
    return cost


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
