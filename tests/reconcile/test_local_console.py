"""`waymesh up` serves the console at the first router of each mesh."""

from __future__ import annotations

import dataclasses
import http.client
import json
import ssl
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.kit.certificates import Authority
from tests.kit.local_mode import DEADLINE_S, mesh_up, start
from waymesh_operator.errors import ManifestError
from waymesh_operator.places.local.processes import WITHOUT_CONSOLE
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


@pytest.mark.e2e
def test_a_report_is_shown_beside_a_local_mesh(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "summary.json").write_text('{"findings": []}', encoding="utf-8")
    with mesh_up(tmp_path, MANIFEST, "mesh is ready: 2 routers") as up:
        words = ("console", "--state-dir", str(up.state), "--report", str(folder))
        wrong = start(*words, "other")
        text, _ = wrong.communicate(timeout=DEADLINE_S)
        assert wrong.returncode == 1
        assert "choose one mesh: mesh" in text
        serving = start(*words)
        try:
            assert serving.stdout is not None
            line = serving.stdout.readline()
            assert "Console of mesh, through mesh-0, until Ctrl-C" in line
            url = urlsplit(line.strip().rpartition(" ")[2])
            own = {"Origin": f"http://{url.netloc}"}
            token = post(url.netloc, "/code", url.fragment.removeprefix("code="), **own)
            said = json.loads(post(url.netloc, "/report", "", **own, Authorization=f"Bearer {token}"))
            assert said["summary"] == {"findings": []}
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            offered = {"Sec-WebSocket-Key": "x" * 22 + "==", "Sec-WebSocket-Protocol": f"amqp, waymesh.{token}"}
            assert status_of(line.strip().rpartition(" ")[2], "/", **upgrade, **offered, **own) == 101
        finally:
            serving.terminate()
            serving.communicate(timeout=DEADLINE_S)


def post(place: str, path: str, body: str, **fields: str) -> str:
    """The content of the answer to a POST."""
    connection = http.client.HTTPConnection(place, timeout=DEADLINE_S)
    connection.request("POST", path, body=body, headers=fields)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


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


def tls_manifest(folder: Path, certificate: str = "certificate: {secretRef: {name: own}}") -> str:
    """A Router with a console of its own, for the user alice, and its Secrets."""
    pair = Authority(folder).issue("server", {"CN": "localhost"}, ("localhost",))
    secrets = {
        "own": {"tls.crt": pair.cert.read_text(), "tls.key": pair.key.read_text()}, "people": {"alice": "secret"},
    }  # fmt: skip
    console = f"{{enabled: true, auth: plain, users: {{secretRef: {{name: people}}}}, {certificate}}}"
    router = MANIFEST.replace("size: 2", f"size: 1, console: {console}")
    kind = {"apiVersion": "v1", "kind": "Secret"}
    made = [{**kind, "metadata": {"name": name}, "stringData": data} for name, data in secrets.items()]
    return f"{router}---\n{yaml.safe_dump_all(made)}"


@pytest.mark.e2e
def test_spec_console_is_served_over_tls_with_a_login(tmp_path: Path) -> None:
    with mesh_up(tmp_path, tls_manifest(tmp_path), "mesh is ready: 1 router") as up:
        port = up.remembered()["ports"]["mesh-0"]["listener/console"][1]
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

        def ask(path: str, login: str = "") -> int:
            connection = http.client.HTTPSConnection("localhost", port, timeout=DEADLINE_S, context=context)
            fields = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
            connection.request("GET", path, headers=fields)
            status = connection.getresponse().status
            connection.close()
            return status

        assert ask("/console/") == 200
        assert ask("/api/v1/router") == 401
        assert ask("/api/v1/router", "alice:wrong") == 401
        assert ask("/api/v1/router", "alice:secret") == 200


@pytest.mark.engine_independent
@pytest.mark.parametrize("built", [True, False])
def test_without_a_certificate_or_the_bundle_spec_console_has_no_port(tmp_path: Path, built: bool) -> None:
    stage = Stage(tmp_path, tls_manifest(tmp_path) if not built else tls_manifest(tmp_path, "management: write"))
    stage.supervisor._world = dataclasses.replace(stage.supervisor._world, console=built)
    stage.supervisor._entries.clear()
    stage.supervisor.load()
    stage.settle()
    assert "listener/console" not in json.dumps(stage.seed("mesh-0"))
    assert bool(stage.supervisor.meshes[0].console_url) == built
    stage.supervisor.close()


@pytest.mark.engine_independent
def test_certificates_of_users_need_their_authorities(tmp_path: Path) -> None:
    text = tls_manifest(tmp_path).replace("auth: plain, users: {secretRef: {name: people}}", "auth: mtls")
    with pytest.raises(ManifestError, match=r"spec\.console\.auth: local mode: for auth mtls, set clientAuthorities"):
        Stage(tmp_path, text)
