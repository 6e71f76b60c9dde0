"""The client programs on other AMQP libraries: built once into a cache outside the checkout, run with JSON arguments.

Roles and what they take (all: `url`, `address`, `count`):
- `send`: `size`, `presettled` → `outcomes` {accepted: 10}
- `receive`: `outcomes` (a cycle of accept, reject, release, modify), `presettled` →
  `messages` [{number, length, sha256, settled}]
- `request`: dynamic reply-to, one request after the other → `replies` [{correlation_id, body}]
- `respond`: answers `count` requests with their body in capitals through an anonymous sender → `answered`
- `login`, without those: `ca` (a PEM file), `logins` [{name, url, mechanism, user, password, cert, key}], tried one by
  one → `results` [{name, error}], no error for who gets in

The one on rhea logs in over TLS by XOAUTH2 where it gets `token`, `user` and `ca` (a PEM file), and speaks over
WebSocket to a `url` with ws: or wss: (`ca`; `cert` and `key` of its own).
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.kit.bound import bound
from tests.kit.built import cached, call, need

HERE = Path(__file__).parent
DEADLINE_S = 200.0
"""One program logs in a hundred times."""


class Run:
    """A client program that runs."""

    def __init__(self, command: list[str], arguments: dict[str, Any]) -> None:
        self._text = f"{arguments}"
        self._process = subprocess.Popen(
            bound([*command, json.dumps(arguments)]),
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
    return Program(["node", str(rhea_folder() / "client.js")])


def rhea_folder() -> Path:
    """The folder of that program and its libraries; `node_modules/rhea/dist/rhea.js` is rhea for browsers."""
    need("node", "nodejs")
    need("npm", "npm")

    def build(folder: Path) -> None:
        for name in ("package.json", "package-lock.json", ".npmrc", "client.js"):
            shutil.copy(HERE / "rhea" / name, folder / name)
        call(["npm", "ci", "--no-audit", "--no-fund"], folder)

    return cached(HERE / "rhea", build)


def go_amqp() -> Program:
    """The program on go-amqp."""
    need("go", "golang-go")
    sources = HERE / "go_amqp"
    folder = cached(sources, lambda folder: call(["go", "build", "-o", str(folder / "client"), "."], sources))
    return Program([str(folder / "client")])
