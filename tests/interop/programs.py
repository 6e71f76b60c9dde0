"""The client programs on other AMQP libraries: built once into a cache outside the checkout, run with JSON arguments.

Roles and what they take (all: `url`, `address`, `count`):
- `send`: `size`, `presettled` → `outcomes` {accepted: 10}
- `receive`: `outcomes` (a cycle of accept, reject, release, modify), `presettled` →
  `messages` [{number, length, sha256, settled}]
- `request`: dynamic reply-to, one request after the other → `replies` [{correlation_id, body}]
- `respond`: answers `count` requests with their body in capitals through an anonymous sender → `answered`
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DEADLINE_S = 60.0


class Run:
    """A client program that runs."""

    def __init__(self, command: list[str], arguments: dict[str, Any]) -> None:
        self._text = f"{arguments}"
        self._process = subprocess.Popen(
            [*command, json.dumps(arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: list[str] = []
        for target in (self._read_events, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def wait_ready(self) -> Run:
        """Until its links are up."""
        self._expect("ready")
        return self

    def result(self) -> dict[str, Any]:
        """Wait for its end; what it reports."""
        found = self._expect("done")
        assert self._process.wait(DEADLINE_S) == 0
        return found

    def kill(self) -> None:
        """End it, if it still runs."""
        self._process.kill()
        self._process.wait()

    def _expect(self, wanted: str) -> dict[str, Any]:
        while True:
            try:
                event = self._events.get(timeout=DEADLINE_S)
            except queue.Empty:
                raise AssertionError(f"{self._text}: no {wanted!r} within {DEADLINE_S} s") from None
            if event is None or event["event"] == "failed":
                raise AssertionError(f"{self._text}: {event}\n{''.join(self._errors)}")
            if event["event"] == wanted:
                return event

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._process.wait()
        self._events.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)


class Program:
    """A client program, ready to run: `program("send", url=…, address=…, count=10)`. `end()` ends what still runs."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._runs: list[Run] = []

    def __call__(self, role: str, **arguments: Any) -> Run:
        run = Run(self._command, {"role": role, **arguments})
        self._runs.append(run)
        return run

    def end(self) -> None:
        """End what still runs."""
        for run in self._runs:
            run.kill()


def rhea() -> Program:
    """The program on rhea (Node.js)."""
    need("node", "nodejs")
    need("npm", "npm")

    def build(folder: Path) -> None:
        for name in ("package.json", "package-lock.json", ".npmrc", "client.js"):
            shutil.copy(HERE / "rhea" / name, folder / name)
        call(["npm", "ci", "--no-audit", "--no-fund"], folder)

    folder = cached("rhea", build)
    return Program(["node", str(folder / "client.js")])


def go_amqp() -> Program:
    """The program on go-amqp."""
    need("go", "golang-go")
    sources = HERE / "go_amqp"
    folder = cached("go_amqp", lambda folder: call(["go", "build", "-o", str(folder / "client"), "."], sources))
    return Program([str(folder / "client")])


@dataclass(frozen=True)
class BuildError(Exception):
    """A tool that is missing or failed."""

    text: str

    def __str__(self) -> str:
        return self.text


def need(tool: str, package: str) -> None:
    """Install a tool by apt where we may; BuildError with what to do where we may not."""
    if shutil.which(tool):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BuildError(f"{tool} is missing. Install it first (Debian and Ubuntu: apt-get install {package}).")
    call(["apt-get", "update", "-qq"], HERE)
    call(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], HERE)


def cached(name: str, build: Callable[[Path], object]) -> Path:
    """The folder that `build` filled from the sources in `name`/ as they are now; only one process builds."""
    digest = hashlib.sha256()
    for path in sorted((HERE / name).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waymesh-interop"
    root.mkdir(parents=True, exist_ok=True)
    folder = root / f"{name}-{digest.hexdigest()[:16]}"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            (folder / "built").touch()
    return folder


def call(command: list[str], folder: Path) -> None:
    """Run a build step; BuildError with its output when it fails."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
