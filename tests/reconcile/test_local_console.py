"""`waymesh up` serves the console at the first router of each mesh."""

from __future__ import annotations

import dataclasses
import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kit.local_mode import DEADLINE_S, mesh_up, start
from waymesh_operator.local.processes import WITHOUT_CONSOLE
from waymesh_router.runtime.http.console import BUNDLE

from .local_fakes import Stage

MANIFEST = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec: {size: 2, drain: {timeoutSeconds: 3}}
"""


def status_of(url: str, path: str, **fields: str) -> int:
    """The status of the answer to a GET at the host of a URL."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE_S)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.e2e
def test_the_console_is_at_the_printed_address_for_this_machine_only(tmp_path: Path) -> None:
    assert (BUNDLE / "digest").is_file(), "the console is not built: make console"
    with mesh_up(tmp_path, MANIFEST, "mesh is ready: 2 routers") as up:
        up.wait_for("Console: http://127.0.0.1:")
        said = start("status", "--state-dir", str(up.state), "--output", "json")
        text, _ = said.communicate(timeout=DEADLINE_S)
        (mesh,) = json.loads(text)
        url = mesh["console"]
        assert f"Console: {url}" in up.text
        assert status_of(url, "/console/") == 200
        # A name that a web page of somebody else leads to this machine.
        assert status_of(url, "/console/", Host="evil.example") == 403
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        there = {**upgrade, "Sec-WebSocket-Key": "x" * 22 + "==", "Sec-WebSocket-Protocol": "amqp"}
        assert status_of(url, "/", **there) == 101
        assert status_of(url, "/", **there, Origin="http://evil.example") == 403
        assert status_of(url, "/", **there, Origin="http://evil.example", Host="evil.example") == 403
        with up.client("mesh-1") as client:
            assert not any(row["console"] for row in client.query("listener", ["console"]))


@pytest.mark.engine_independent
def test_its_port_stays_and_the_second_router_has_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, MANIFEST)
    stage.supervisor._world = dataclasses.replace(stage.supervisor._world, console=True)
    stage.supervisor._entries.clear()
    stage.supervisor.load()
    stage.settle()
    (mesh,) = stage.supervisor.meshes
    url = mesh.console_url
    assert url.endswith("/console/")
    stage.write(MANIFEST.replace("size: 2", "size: 3"))
    stage.settle()
    assert mesh.console_url == url
    seeds = {name: json.dumps(stage.seed(name)) for name in ("mesh-0", "mesh-1", "mesh-2")}
    assert {name: '"console": true' in text.replace("yes", "true") for name, text in seeds.items()} == {
        "mesh-0": True, "mesh-1": False, "mesh-2": False,
    }  # fmt: skip
    stage.supervisor.close()


@pytest.mark.engine_independent
def test_without_the_bundle_there_is_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path, MANIFEST)
    stage.settle()
    (mesh,) = stage.supervisor.meshes
    assert mesh.console_url == ""
    assert "make console" in WITHOUT_CONSOLE
    stage.supervisor.close()
