"""`waymesh up` with users in a Secret of the manifests: files hold keys alone, and changes act on running routers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.interop.raw_client import RawClient
from tests.kit.local_mode import Up, mesh_up
from waymesh_amqp.users import make_line

pytestmark = pytest.mark.e2e

LINE = make_line("carol", "third password", "SCRAM-SHA-256").removeprefix("carol:")
TEXT = f"""apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {{name: mesh}}
spec:
  size: 1
  listeners:
  - {{name: amqp, port: 5672, auth: scram, users: {{secretRef: {{name: people}}}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: people}}
stringData:
  alice: first password
  bob: second password
  carol: '{LINE}'
"""
OK, AUTH = 0, 1
"""Outcomes of SASL."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with mesh_up(tmp_path, TEXT, "mesh is ready: 1 router") as running:
        yield running


def login(up: Up, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> int:
    with RawClient(urlsplit(up.url("mesh-0")).port or 0) as raw:
        return int(raw.login(mechanism, user, password).code)


def test_users_change_live_while_connections_stay_open(up: Up) -> None:
    file = up.state / "mesh" / "credentials" / "waymesh.users"
    before, pids = file.read_text(), up.pids()
    assert "password" not in before
    assert file.stat().st_mode & 0o777 == 0o600
    assert login(up, "alice", "first password") == OK
    assert login(up, "alice", "first password", "SCRAM-SHA-512") == OK
    assert login(up, "carol", "third password") == OK
    with RawClient(urlsplit(up.url("mesh-0")).port or 0) as old:
        assert old.login("SCRAM-SHA-256", "bob", "second password").code == OK
        old.open(sasl=False)
        old.begin()
        up.edit("  bob: second password\n", "  dave: fourth password\n")
        up.wait(lambda: login(up, "dave", "fourth password") == OK, "the new user")
        assert login(up, "bob", "second password") == AUTH
        old.attach_receiver("orders", credit=1)
    kept = [line for line in file.read_text().splitlines() if line.startswith(("alice", "carol"))]
    assert kept == [line for line in before.splitlines() if not line.startswith("bob")]
    up.edit("first password", "changed")
    up.wait(lambda: login(up, "alice", "changed") == OK, "the new password")
    assert login(up, "alice", "first password") == AUTH
    assert up.pids() == pids
