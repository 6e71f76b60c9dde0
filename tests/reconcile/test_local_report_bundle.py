"""`waymesh report-bundle` of a local mesh: what helps is in it, planted passwords and users are not."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.local_mode import mesh_up, start

pytestmark = pytest.mark.e2e

MANIFESTS = """apiVersion: v1
kind: Secret
metadata: {name: people}
stringData: {planted-ann: planted-password}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {username: planted-broker-user, password: planted-broker-password}
---
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 1
  listeners: [{name: amqp, port: 5672, auth: scram, users: {secretRef: {name: people}}}]
---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: store}
spec:
  routerRef: {name: mesh}
  endpoints: [{host: 127.0.0.1, port: 1}]
  auth: {mechanism: SCRAM-SHA-256, secretRef: {name: login}}
"""


def test_a_bundle_of_a_local_mesh_has_no_planted_secret(tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    with mesh_up(tmp_path, MANIFESTS, "mesh is ready: 1 router") as up:
        with RawClient(urlsplit(up.url("mesh-0")).port or 0) as raw:
            assert raw.login("SCRAM-SHA-256", "planted-ann", "planted-password").code == 0
            raw.open(sasl=False)
            process = start("report-bundle", "-o", str(archive), "--state-dir", str(up.state))
            told = process.communicate(timeout=60)[0]
    assert process.returncode == 0, told
    assert archive.stat().st_mode & 0o777 == 0o600
    with tarfile.open(archive) as opened:
        files = {name.partition("/")[2]: opened.extractfile(name).read() for name in opened.getnames()}  # type: ignore[union-attr]
    for path, content in files.items():
        assert b"planted" not in content, path
    assert {"configuration/mesh-0.json", "logs/mesh-0.log", "routers/mesh-0/connection.json"} <= files.keys()
    users = [row["user"] for row in json.loads(files["routers/mesh-0/connection.json"])]
    assert len([user for user in users if user.startswith("user-")]) == 1
    assert b"store" in files["routers/mesh-0/connector.json"]


def test_without_a_mesh_it_says_what_to_do(tmp_path: Path) -> None:
    process = start("report-bundle", "-o", str(tmp_path / "x"), "--state-dir", str(tmp_path))
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "no mesh runs on this machine" in told
    assert not (tmp_path / "x").exists()
