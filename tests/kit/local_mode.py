"""`waymesh up` as a process, and other commands of local mode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waymesh_client.management import ManagementClient
from waymesh_operator.places.local.processes import SystemLauncher
from waymesh_operator.places.local.state import StateFolder
from waymesh_operator.resources.router import Ref

ROOT = Path(__file__).parents[2]
CODE = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'waymesh'; main()"
DEADLINE_S = 120


def start(*arguments: str, folder: Path | None = None) -> subprocess.Popen[str]:
    """Start `waymesh` with these words, and with this folder for temporary files."""
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        env={**os.environ, "PYTHONPATH": path, **({"TMPDIR": str(folder)} if folder else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Up:
    """A running `waymesh up`, and what it has said so far."""

    def __init__(self, folder: Path, manifests: str) -> None:
        self.file = folder / "mesh.yaml"
        self.write(manifests)
        self.state = folder / "state"
        self.process = start("up", "-f", str(self.file), "--state-dir", str(self.state), "--free-ports")
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, said: str, times: int = 1) -> None:
        """Until it has been said so many times."""
        self.wait(lambda: self.text.count(said) >= times, said)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} not seen in:\n{self.text}"
            if self.process.poll() is not None:
                self._reader.join(DEADLINE_S)  # its last words may not have been read yet
                assert condition(), f"it ended:\n{self.text}"
            time.sleep(0.02)

    def write(self, manifests: str) -> None:
        """As a whole: the run may read the file at any time."""
        new = self.file.with_name("mesh.new")
        new.write_text(manifests)
        new.replace(self.file)

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.write(text.replace(old, new))

    def remembered(self) -> dict[str, Any]:
        (path,) = self.state.glob("*/state.json")
        return json.loads(path.read_text())  # type: ignore[no-any-return]

    def pids(self) -> dict[str, int]:
        return dict(self.remembered()["pids"])

    def url(self, router: str, listener: str = "amqp") -> str:
        """Where clients of a router connect."""
        return self._url(router, f"listener/{listener}")

    def urls(self, mesh: str, size: int) -> list[str]:
        """Where clients connect to the routers of a mesh that have been created, of so many at most."""
        (path,) = self.state.glob("*/state.json")
        ports = json.loads(path.read_text())["ports"]
        return [self.url(f"{mesh}-{k}") for k in range(size) if f"{mesh}-{k}" in ports]

    def _url(self, router: str, purpose: str) -> str:
        for path in self.state.glob("*/state.json"):
            ports = json.loads(path.read_text())["ports"]
            if router in ports:
                return f"amqp://127.0.0.1:{ports[router][purpose][1]}"
        raise KeyError(router)

    def management_url(self, router: str) -> str:
        """Where management requests to a router are sent."""
        return self._url(router, "management")

    def log(self, router: str) -> str:
        """The log of a router."""
        (path,) = self.state.glob(f"*/{router}.log")
        return path.read_text(encoding="utf-8", errors="replace")

    def client(self, router: str) -> ManagementClient:
        """For management requests to a router."""
        return ManagementClient(self.management_url(router))

    def end_routers(self) -> None:
        """End routers that are left because the run was killed."""
        for path in self.state.glob("*/state.json"):
            self._end(StateFolder(self.state, Ref("default", path.parent.name)))

    def _end(self, folder: StateFolder) -> None:
        folder.load()
        for name, pid in folder.pids.items():
            process = SystemLauncher().find(pid, folder.config(name))
            if process:
                process.send(signal.SIGKILL)

    def stop(self) -> int:
        """End it in an orderly way; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code


@contextmanager
def mesh_up(folder: Path, manifests: str, ready: str) -> Iterator[Up]:
    """`waymesh up` with these manifests, from when it has said `ready` on; at the end it and its routers are gone."""
    running = Up(folder, manifests)
    try:
        running.wait_for(ready)
        yield running
    finally:
        running.stop()
        running.end_routers()
