"""`waymesh up` and `waymesh demo` with real routers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from waymesh_client.management import ManagementClient
from waymesh_operator.local.processes import SystemLauncher
from waymesh_operator.local.state import StateFolder
from waymesh_operator.specs import Ref

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
CODE = "import sys; from waymesh_operator.cli.main import main; sys.argv[0] = 'waymesh'; main()"
DEADLINE_S = 60
MANIFEST = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 3
  drain: {timeoutSeconds: 3}
---
apiVersion: waymesh.io/v1alpha1
kind: Address
metadata: {name: news}
spec: {routerRef: {name: mesh}, prefix: news, distribution: multicast}
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "router_image"), str(ROOT / "operator")])
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Up:
    """A running `waymesh up`, and what it has said so far."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "mesh.yaml"
        self.file.write_text(MANIFEST)
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
            assert self.process.poll() is None, f"it ended:\n{self.text}"
            time.sleep(0.02)

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def remembered(self) -> dict[str, Any]:
        return json.loads((self.state / "mesh" / "state.json").read_text())  # type: ignore[no-any-return]

    def pids(self) -> dict[str, int]:
        return dict(self.remembered()["pids"])

    def client(self, router: str) -> ManagementClient:
        return ManagementClient(f"amqp://127.0.0.1:{self.remembered()['ports'][router]['listener/amqp'][1]}")

    def end_routers(self) -> None:
        """End routers that are left because the run was killed."""
        folder = StateFolder(self.state, Ref("default", "mesh"))
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
        self._reader.join(5)
        return code


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    try:
        running.wait_for("mesh is ready: 3 routers")
        yield running
    finally:
        running.stop()
        running.end_routers()


def test_a_mesh_lives_through_edits_and_the_loss_of_a_router(up: Up) -> None:
    before = up.pids()
    up.edit("size: 3", "size: 5")
    up.wait_for("mesh is ready: 5 routers")
    assert {name: pid for name, pid in up.pids().items() if name in before} == before

    up.edit("distribution: multicast", "distribution: closest")
    up.wait_for("mesh-4: replace address news (prefix news, closest)")
    with up.client("mesh-0") as client:
        (news,) = client.query("router.config.address", ["name", "distribution"])
        assert news == {"name": "k8s/default/Address/news", "distribution": "closest"}
        assert {row["id"] for row in client.query("router.node", ["id"])} == {f"mesh-{k}" for k in range(5)}

    up.edit("size: 5", "size: 99")
    up.wait_for("mesh.yaml:6: Router/mesh spec.size: must be between 0 and 64 (got 99)")
    up.edit("size: 99", "size: 2")
    up.wait_for("mesh is ready: 2 routers")
    assert up.text.index("mesh-4 stopped") < up.text.index("mesh-3 stopped") < up.text.index("mesh-2 stopped")

    os.kill(up.pids()["mesh-1"], signal.SIGKILL)
    up.wait_for("restart router mesh-1 (signal 9 SIGKILL)")
    up.wait_for("mesh is ready: 2 routers", times=2)
    assert up.pids()["mesh-0"] == before["mesh-0"]
    assert up.stop() == 0
    assert up.text.rstrip().endswith("mesh-0 stopped")


def test_an_entity_removed_by_hand_comes_back(up: Up) -> None:
    name = "k8s/default/Address/news"
    with up.client("mesh-1") as client:
        client.delete("router.config.address", name=name)
        up.wait(lambda: bool(client.query("router.config.address", ["name"])), "the address")
    up.wait_for("mesh-1: create address news")


def test_the_routers_of_a_killed_run_are_taken_over(up: Up, tmp_path: Path) -> None:
    before = up.pids()
    up.process.kill()
    up.process.wait(DEADLINE_S)
    plan = start("plan", "-f", str(up.file), "--state-dir", str(up.state), "--free-ports", "--detailed-exitcode")
    said, _ = plan.communicate(timeout=DEADLINE_S)
    assert (plan.returncode, said.strip()) == (0, "mesh: nothing to do")
    again = start("up", "-f", str(up.file), "--state-dir", str(up.state), "--free-ports", "--once")
    said, _ = again.communicate(timeout=DEADLINE_S)
    assert again.returncode == 0, said
    assert "mesh-1 still runs from before and is taken over" in said
    assert "create router" not in said
    config = StateFolder(up.state, Ref("default", "mesh")).config
    assert all(SystemLauncher().find(pid, config(name)) is None for name, pid in before.items())


def test_the_demo_loses_nothing() -> None:
    demo = start("demo", "--messages", "500")
    said, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, said
    assert re.search(r"sent [\d,]+ messages across the mesh: lost 0, duplicated 0", said)
    assert "sent 500, received 500, 500 accepted" in said
    assert "restart router mesh-1" in said
