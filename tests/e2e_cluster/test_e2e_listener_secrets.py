"""Users and certificates of listeners from Secrets, as docs/resources.md says to handle them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import Mesh, waymesh
from tests.interop.raw_client import RawClient
from tests.kit.waiting import wait_until
from waymesh_operator.tls.certificates import issue, new_ca

OK, AUTH = 0, 1
"""Outcomes of SASL."""
EMPTY_FRAME = bytes((0, 0, 0, 8, 2, 0, 0, 0))
"""A heartbeat: the router closes connections that are silent."""
LIVE_S = 180
PORT = 5672
PATCH = ("patch", "secret", "people", "--patch-file", "/dev/stdin")


def user(name: str, *words: str, password: str = "") -> str:
    """What `waymesh user --secret people` prints."""
    command = [sys.executable, "-m", "waymesh_operator", "user", name, "--secret", "people", *words]
    return subprocess.run(command, input=password, capture_output=True, text=True, timeout=60, check=True).stdout


def outcome(address: str, name: str, password: str) -> int:
    """What the router at an address says to somebody who logs in."""
    with RawClient(PORT, host=address) as raw:
        return int(raw.login("SCRAM-SHA-256", name, password).code)


def mounted(space: Namespace) -> str:
    """The users file that pods read."""
    found = space.get("Secret", "mesh-credentials") or {}
    return base64.b64decode(found.get("data", {}).get("waymesh.users", "")).decode()


def test_users_come_change_and_go_while_routers_run(operator: Namespace, namespace: Namespace) -> None:
    namespace.kubectl("create", "-f", "-", stdin=user("alice", password="first password"))
    listener = {"name": "amqp", "port": PORT, "auth": "scram", "users": {"secretRef": {"name": "people"}}}
    mesh = Mesh(namespace).apply(2, listeners=[listener])
    mesh.converged(2)
    lives = mesh.lives()
    addresses = [pod["status"]["podIP"] for pod in mesh.pods().values()]
    assert [outcome(address, "alice", "first password") for address in addresses] == [OK, OK]

    namespace.kubectl(*PATCH, stdin=user("carol", "-o", "yaml", password="her password"))
    namespace.patch("Secret", "people", {"stringData": {"bob": "second password"}})
    for name, password in (("bob", "second password"), ("carol", "her password")):
        wait_until(
            lambda: all(outcome(address, name, password) == OK for address in addresses),  # noqa: B023
            LIVE_S,
            f"{name} can log in",
        )
    before = mounted(namespace)
    assert "password" not in before
    assert {line.partition("}")[0] for line in before.splitlines()} == {
        f"{who}:{{SCRAM-SHA-{size}" for who in ("alice", "bob", "carol") for size in (512, 256)
    }

    with RawClient(PORT, host=addresses[0]) as old:
        assert old.login("SCRAM-SHA-256", "alice", "first password").code == OK
        old.open(sasl=False)
        old.begin()
        namespace.kubectl(*PATCH, stdin=user("alice", "--remove"))

        def shut_out() -> bool:
            old.send(EMPTY_FRAME)
            return all(outcome(address, "alice", "first password") == AUTH for address in addresses)

        wait_until(shut_out, LIVE_S, "alice cannot log in")
        old.attach_receiver("orders", credit=1)
    assert mounted(namespace) == "".join(
        f"{line}\n" for line in before.splitlines() if not line.startswith("alice:")
    )
    assert outcome(addresses[1], "bob", "second password") == OK
    assert mesh.lives() == lives


def test_a_certificate_that_ends_soon_is_told(operator: Namespace, namespace: Namespace, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    leaf = issue(new_ca("shop", now), "shop", ["shop.example"], now - timedelta(days=80))
    data = {"tls.crt": leaf.certificate.decode(), "tls.key": leaf.key.decode()}
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-tls"}, "stringData": data})
    listener = {"name": "shop", "port": 5671, "tls": True, "certificate": {"secretRef": {"name": "shop-tls"}}}
    Mesh(namespace).apply(1, listeners=[listener]).converged(1)
    found = namespace.wait_condition("Router", "mesh", "CertificateExpiring")
    end = (now + timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert found["status"]["listeners"] == [{"name": "shop", "certificateNotAfter": end}]
    told = namespace.kubectl("describe", "router", "mesh")
    assert f"Certificate Not After:  {end}" in told
    assert "CertificateEndsSoon" in told
    found = json.loads(waymesh(namespace, "doctor", "-n", namespace.name, "-o", "json"))
    states = {one["check"]: one["state"] for one in found}
    assert states == {"definitions": "ok", "operator": "ok", "rights": "ok", "pods": "ok", "resources": "ok"}
    assert ["CertificateExpiring" in one["text"] for one in found if one["state"] == "warning"] == [True]
    archive = tmp_path / "report.tar.gz"
    waymesh(namespace, "report-bundle", "-n", namespace.name, "-o", str(archive))
    with tarfile.open(archive) as opened:
        collected = {name.partition("/")[2] for name in opened.getnames()}
    assert {"doctor.json", "events.json", "resources/Router.json", "routers/mesh-0/connection.json"} <= collected
    assert f"logs/{namespace.name}/mesh-0.log" in collected

    leaf = issue(new_ca("shop", now), "shop", ["shop.example"], now)
    data = {"tls.crt": leaf.certificate.decode(), "tls.key": leaf.key.decode()}
    namespace.patch("Secret", "shop-tls", {"stringData": data})
    namespace.wait_condition("Router", "mesh", "CertificateExpiring", "False")
