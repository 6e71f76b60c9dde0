"""Router processes under measurement: configuration, start, wait until they listen, stop."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.errors import BenchError
from tests.kit.ports import free_port

START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class RouterSpec:
    """A router of a scenario: id, where it listens for clients and routers, to whom it connects at what cost.

    `extra`: further sections of its configuration; `settings`: attributes of its section `router`; `listener`: further
    ones of the listener for clients.
    """

    id: str
    port: int = field(default_factory=free_port)
    mesh_port: int | None = None
    connect_to: Sequence[tuple[int, int]] = ()  # (inter-router port, cost)
    mode: str = "interior"
    extra: Sequence[tuple[str, Mapping[str, object]]] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    listener: Mapping[str, object] = field(default_factory=dict)


def config_text(spec: RouterSpec) -> str:
    """A qdrouterd.conf for the router."""
    local = {"host": "127.0.0.1", "saslMechanisms": "ANONYMOUS"}
    sections: list[tuple[str, Mapping[str, object]]] = [
        ("router", {"mode": spec.mode, "id": spec.id, **spec.settings}),
        ("listener", {**local, "port": spec.port, "role": "normal", "authenticatePeer": "no", **spec.listener}),
        ("address", {"prefix": "multicast", "distribution": "multicast"}),
    ]
    if spec.mesh_port:
        sections.append(
            ("listener", {**local, "port": spec.mesh_port, "role": "inter-router", "authenticatePeer": "no"})
        )
    for port, cost in spec.connect_to:
        sections.append(("connector", {**local, "port": port, "role": "inter-router", "cost": cost}))
    sections += spec.extra
    return "\n".join(f"{name} {{\n{_lines(attributes)}}}\n" for name, attributes in sections)


def _lines(attributes: Mapping[str, object]) -> str:
    return "".join(f"    {name}: {value}\n" for name, value in attributes.items())


@dataclass(frozen=True)
class Launcher:
    """How routers are started: a command with {config}, {port} and {id} in it, and environment variables."""

    command: str
    environment: Mapping[str, str]
    cores: frozenset[int] | None = None

    def start(self, spec: RouterSpec, folder: Path) -> RouterProcess:
        """Starts the process; it does not listen yet."""
        config = folder / f"{spec.id}.conf"
        config.write_text(config_text(spec), encoding="utf-8")
        values = {"config": str(config), "port": str(spec.port), "id": spec.id}
        command = [part.format(**values) for part in shlex.split(self.command)]
        return RouterProcess(spec, command, {**os.environ, **self.environment}, folder, self.cores)


class RouterProcess:
    """A router that was started here."""

    def __init__(
        self,
        spec: RouterSpec,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        cores: frozenset[int] | None,
    ) -> None:
        self.spec = spec
        self.folder = folder
        self._log_path = folder / f"{spec.id}.log"
        with self._log_path.open("wb") as log:
            self.started_s = time.monotonic()
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                )
            except OSError as error:
                raise BenchError(f"{command[0]}: {error.strerror}") from None
        if cores:
            os.sched_setaffinity(self.pid, cores)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def port(self) -> int:
        """Port for clients."""
        return self.spec.port

    def listens(self) -> bool:
        """Whether the router accepts connections now. Raises BenchError when it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"router {self.spec.id} ended with {self._process.returncode}: {self.log_tail()}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait_listening(self, within_s: float = START_TIMEOUT_S) -> float:
        """Seconds from start to the first accepted connection."""
        while not self.listens():
            if time.monotonic() - self.started_s > within_s:
                raise BenchError(f"router {self.spec.id}: no listener after {within_s:.0f} s: {self.log_tail()}")
            time.sleep(0.001)
        return time.monotonic() - self.started_s

    def log_tail(self) -> str:
        """The last lines of what the router wrote."""
        return " | ".join(self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])

    def kill(self) -> None:
        """Ends the process at once (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ends the process, kindly at first."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def running(launcher: Launcher, *specs: RouterSpec, wait: bool = True) -> Iterator[list[RouterProcess]]:
    """Starts the routers, all at once, and stops them at the end. `wait`: until all listen."""
    routers: list[RouterProcess] = []
    with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as folder:
        try:
            for spec in specs:
                routers.append(launcher.start(spec, Path(folder)))
            if wait:
                for router in routers:
                    router.wait_listening()
            yield routers
        finally:
            for router in routers:
                router.stop()


def rss_kib(pid: int) -> int:
    """Resident memory of a process, KiB, exact."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise BenchError(f"no Rss of process {pid}")
