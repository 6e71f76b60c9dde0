"""Ports of the manifest that are in use: by another run of `waymesh up`, or by anything else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.kit.ports import free_port
from waymesh_operator.places.local.manifest_files import ManifestFiles
from waymesh_operator.places.local.supervisor import Supervisor

from .local_fakes import FakeNetwork

pytestmark = pytest.mark.engine_independent

MANIFEST = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {{name: mesh}}
spec: {{size: 1, listeners: [{{name: amqp, port: {port}}}]}}
"""


def run(folder: Path, name: str, network: FakeNetwork | None = None) -> Supervisor:
    """A run with its own state folder. Its routers do not listen, as real ones at first."""
    network = network or FakeNetwork()
    world = network.world(network.events.append)
    return Supervisor(ManifestFiles([folder / "mesh.yaml"]), folder / name, world)


def listens_on(supervisor: Supervisor) -> int:
    (mesh,) = supervisor.meshes
    return mesh.folder.ports["mesh-0"]["listener/amqp"][1]


@pytest.fixture
def port(tmp_path: Path) -> int:
    port = free_port()
    (tmp_path / "mesh.yaml").write_text(MANIFEST.format(port=port))
    return port


def test_the_second_run_takes_other_ports_before_the_routers_of_the_first_listen(tmp_path: Path, port: int) -> None:
    runs = [run(tmp_path, name) for name in ("one", "two")]
    for supervisor in runs:
        supervisor.load()
        supervisor.step(1.0)
    assert listens_on(runs[0]) == port
    assert listens_on(runs[1]) != port
    for supervisor in runs:
        supervisor.close()


def test_a_run_that_has_ended_claims_nothing(tmp_path: Path, port: int) -> None:
    for name in ("one", "two"):
        supervisor = run(tmp_path, name)
        supervisor.load()
        supervisor.step(1.0)
        assert listens_on(supervisor) == port
        supervisor.close()


def test_a_plan_claims_nothing(tmp_path: Path, port: int) -> None:
    dry, real = run(tmp_path, "dry"), run(tmp_path, "real")
    dry.load(lock=False)
    assert dry.plans(1.0)
    real.load()
    real.step(1.0)
    assert listens_on(real) == port
    real.close()


def test_a_port_that_is_in_use_is_told_also_after_an_edit(tmp_path: Path, port: int) -> None:
    network, second = FakeNetwork(), free_port()
    supervisor = run(tmp_path, "one", network)
    with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", second)):
        supervisor.load()
        for wanted in (port, second):
            (tmp_path / "mesh.yaml").write_text(MANIFEST.format(port=wanted) + "\n" * (wanted == second))
            for turn in range(10):
                supervisor.step(float(turn))
            text = f"port {wanted} was in use: until mesh-0 starts again, its amqp listens on {listens_on(supervisor)}"
            assert network.said.count(text) == 1
    supervisor.close()
