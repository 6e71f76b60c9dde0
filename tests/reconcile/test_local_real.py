"""`waymesh up` and `waymesh demo` with real routers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.clients import Client
from tests.kit.local_mode import DEADLINE_S, Up, mesh_up, start
from tests.kit.ports import free_port
from waymesh_operator.places.local.processes import SystemLauncher
from waymesh_operator.places.local.state import StateFolder
from waymesh_operator.resources.router import Ref

pytestmark = pytest.mark.e2e

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
BROKER = """---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {{name: store}}
spec:
  routerRef: {{name: mesh}}
  endpoints: [{{host: 127.0.0.1, port: {port}}}]
  placement: {{routers: List, ordinals: [1]}}
---
apiVersion: waymesh.io/v1alpha1
kind: LinkRoute
metadata: {{name: archive}}
spec: {{routerRef: {{name: mesh}}, brokerRef: {{name: store}}, prefix: archive, direction: both}}
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, MANIFEST, "mesh is ready: 3 routers") as running:
        yield running


def test_a_mesh_lives_through_edits_and_the_loss_of_a_router(up: Up) -> None:
    before = up.pids()
    up.edit("size: 3", "size: 5")
    up.wait_for("mesh is ready: 5 routers")
    assert {name: pid for name, pid in up.pids().items() if name in before} == before

    up.edit("distribution: multicast", "distribution: closest")
    for k in range(5):
        up.wait_for(f"mesh-{k}: replace address news (prefix news, closest)")
    with up.client("mesh-0") as client:
        (news,) = client.query("router.config.address", ["name", "distribution"])
        assert news == {"name": "k8s/default/Address/news", "distribution": "closest"}
        assert {row["id"] for row in client.query("router.node", ["id"])} == {f"mesh-{k}" for k in range(5)}

    up.edit("size: 5", "size: 99")
    up.wait_for("mesh.yaml:6: Router/mesh spec.size: must be between 0 and 64 (got 99)")
    up.edit("size: 99", "size: 2")
    up.wait_for("mesh is ready: 2 routers")
    stopped = [up.text.index(f"stop router mesh-{k}") for k in (4, 3, 2)]
    assert stopped == sorted(stopped)
    assert any(f"drain router mesh-{k} (at most 3 s)" in up.text for k in (4, 3, 2))
    assert all(f"mesh-{k} stopped" in up.text for k in (4, 3, 2))

    os.kill(up.pids()["mesh-1"], signal.SIGKILL)
    up.wait_for("restart router mesh-1 (signal 9 SIGKILL)")
    up.wait_for("mesh is ready: 2 routers", times=2)
    assert up.pids()["mesh-0"] == before["mesh-0"]
    assert up.stop() == 0
    assert up.text.index("stop router mesh-1") < up.text.index("stop router mesh-0") < up.text.index("mesh-0 stopped")


def test_an_entity_removed_by_hand_comes_back(up: Up) -> None:
    name = "k8s/default/Address/news"
    with up.client("mesh-1") as client:
        client.delete("router.config.address", name=name)
        up.wait(lambda: bool(client.query("router.config.address", ["name"])), "the address")
    up.wait_for("mesh-1: create address news")


@pytest.mark.engine_independent
def test_addresses_of_a_broker_that_is_away_are_refused_by_routers_that_never_have_it(up: Up) -> None:
    up.write(up.file.read_text() + BROKER.format(port=free_port()))
    up.wait_for("LinkRoute/archive: mesh-1: the broker is not connected")
    with up.client("mesh-0") as client:
        up.wait(lambda: bool(client.query("router.config.linkRoute", ["name"])), "the link routes of the other router")
    with Client(up.url("mesh-0")) as client:
        assert "qd:no-route-to-dest" in str(client.receiver("archive.2026", wait=False).wait_detached())


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
    assert "mesh-1 is still running and is taken over" in said
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


@pytest.mark.engine_independent
def test_no_router_stays_when_the_pipe_of_the_output_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "mesh.yaml"
    file.write_text(MANIFEST)
    running = start("up", "-f", str(file), "--state-dir", str(tmp_path / "state"), "--free-ports")
    assert running.stdout is not None
    assert "create router" in running.stdout.readline()
    running.stdout.close()
    assert running.wait(DEADLINE_S) == 1
    assert left_of(tmp_path) == []


@pytest.mark.engine_independent
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_demo_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    demo = start("demo", folder=tmp_path)
    assert demo.stdout is not None
    while "create router" not in demo.stdout.readline():
        assert demo.poll() is None
    if number is signal.SIGPIPE:
        demo.stdout.close()
        code = 1
    else:
        demo.send_signal(number)
        code = 128 + number
    assert demo.wait(DEADLINE_S) == code
    assert (left_of(tmp_path), list(tmp_path.iterdir())) == ([], [])


def left_of(folder: Path) -> list[str]:
    """Processes with a path in this folder among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(folder) in (command := process.read_text(errors="replace")):
                found.append(command)
    return found
