"""A router that starts from the configuration files of an operator."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit.boot import BootedRouter, write_boot_files
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import START_S, command
from tests.kit.waiting import DEADLINE_S, wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

VHOST = ["vhost", {"name": "k8s/ns/vhost/v", "hostname": "v", "groups": {"g": {"remoteHosts": "10.0.*"}}}]
PLUGIN: tuple[str, dict[str, Any]] = ("authServicePlugin", {"name": "k8s/ns/plugin/p", "host": "h", "port": "0"})
PROFILE = ["sslProfile", {"name": "k8s/ns/broker/b", "caCertFile": "/nowhere/ca.crt"}]
CONNECTOR = ["connector", {"name": "k8s/ns/broker/b/0", "host": "127.0.0.1", "sslProfile": "k8s/ns/broker/b"}]
ADDRESS = ["address", {"name": "k8s/ns/address/a", "prefix": "a", "distribution": "closest"}]


def own(port: int) -> list[Any]:
    listener = {"name": "management", "host": "127.0.0.1", "port": port}
    return [["router", {"id": "mesh-0", "mode": "interior"}], ["listener", listener]]


@pytest.fixture
def port() -> int:
    return free_port()


def test_refused_entities_of_an_operator_are_logged_and_left_out(tmp_path: Path, port: int) -> None:
    entities = [PLUGIN, PROFILE, CONNECTOR, ADDRESS]
    router = BootedRouter(tmp_path, "mesh-0", (entities, own(port)), [port])
    router.start()
    try:
        with ManagementClient(router.url) as client:
            assert [row["name"] for row in client.query("address", ["name"])] == ["k8s/ns/address/a"]
            assert not client.query("connector", ["name"])
            with pytest.raises(ManagementError, match="0 is for listeners only") as raised:
                client.create("authServicePlugin", PLUGIN[1])
            assert raised.value.status == 400
        for name in ("plugin/p", "broker/b", "broker/b/0"):
            lines = [line for line in router.log.splitlines() if f"k8s/ns/{name} of" in line]
            assert len(lines) == 1
            assert "AGENT (error)" in lines[0]
            assert "left out" in lines[0]
    finally:
        router.stop()


def test_a_listener_whose_token_keys_are_missing_stays_closed_and_the_router_starts(tmp_path: Path, port: int) -> None:
    pair = Authority(tmp_path).issue("router", {"CN": "router"}, hosts=("127.0.0.1",))
    closed = free_port()
    profile = {"issuer": "i", "audience": "a", "keysFile": "/nowhere/service-accounts.jwks"}
    listener = {
        "name": "k8s/ns/Router/mesh/listener/amqps", "host": "127.0.0.1", "port": closed, "sslProfile": "mesh",
        "requireSsl": True, "authenticatePeer": True, "saslMechanisms": "XOAUTH2", "tokenProfile": "k8s/ns/token",
    }  # fmt: skip
    entities: list[Any] = [
        ["sslProfile", {"name": "mesh", "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}],
        ["tokenProfile", {"name": "k8s/ns/token", **profile}],
        ["listener", listener],
    ]
    router = BootedRouter(tmp_path, "mesh-0", (entities, own(port)), [port])
    router.start()
    try:
        with ManagementClient(router.url) as client:
            assert not client.query("tokenProfile", ["name"])
            assert [row["name"] for row in client.query("listener", ["name"])] == ["management"]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", closed))
        assert "there is no tokenProfile k8s/ns/token" in router.log
    finally:
        router.stop()


@pytest.mark.parametrize(
    ("entity", "reason"),
    [
        (VHOST, "vhost v: groups.g: remoteHosts: '10.0.*': * must stand alone"),
        (PLUGIN, "0 is for listeners only"),
    ],
)
def test_a_refused_entity_of_a_person_stops_the_start(
    tmp_path: Path, port: int, entity: list[Any], reason: str
) -> None:
    named = [entity[0], {**entity[1], "name": "mine"}]
    arguments = write_boot_files(tmp_path, {"shared.json.gz": [named], "mesh-0.json": own(port)})
    done = subprocess.run([*command(), *arguments], capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 1
    assert reason in done.stderr


def test_two_vhosts_of_an_operator_with_one_pattern_do_not_stop_the_start(tmp_path: Path, port: int) -> None:
    """The clients of both belong to the first one, as with CREATE: the second one has no other names to deny."""
    vhosts = [["vhost", {"name": f"k8s/ns/vhost/{at}", "hostname": name}] for at, name in enumerate(("*.v", "*/v"))]
    policy = [["policy", {"enableVhostPolicy": True, "enableVhostNamePatterns": True}], *vhosts]
    own_vhost = {"hostname": "own", "groups": {"g": {"users": "anonymous", "remoteHosts": "*"}}}
    mine: list[Any] = [["router", {"id": "mesh-0", "mode": "interior"}], ["vhost", own_vhost]]
    mine.append(["listener", {"name": "own", "host": "127.0.0.1", "port": port, "policyVhost": "own"}])
    router = BootedRouter(tmp_path, "mesh-0", (policy, mine), [port])
    router.start()
    try:
        wait_until(lambda: "k8s/ns/vhost/1 of" in router.log)
        (line,) = [line for line in router.log.splitlines() if "k8s/ns/vhost/1 of" in line]
        assert "left out: PolicyError: Policy '*/v' is invalid: vhost */v: another vhost has the pattern '*/v'" in line
    finally:
        router.stop()


def test_a_vhost_of_an_operator_that_cannot_be_enforced_denies_all_its_clients(tmp_path: Path, port: int) -> None:
    """Otherwise the default vhost would apply to its clients, and might allow them more."""
    clients = free_port()
    anybody = {"$default": {"remoteHosts": "*", "sources": "*", "targets": "*"}}
    policy = [
        ["policy", {"enableVhostPolicy": True, "defaultVhost": "others"}],
        ["vhost", {"hostname": "others", "allowUnknownUser": True, "groups": anybody}],
        ["listener", {"name": "clients", "host": "127.0.0.1", "port": clients}],
    ]
    router = BootedRouter(tmp_path, "mesh-0", ([VHOST, *policy], own(port)), [port, clients])
    router.start()
    try:
        wait_until(lambda: "k8s/ns/vhost/v of" in router.log)
        (line,) = [line for line in router.log.splitlines() if "k8s/ns/vhost/v of" in line]
        assert "AGENT (error)" in line
        assert "denies all its clients: vhost v: groups.g: remoteHosts: '10.0.*': * must stand alone" in line
        url = f"amqp://127.0.0.1:{clients}"
        with Client(url, virtual_host="w") as other:
            other.receiver("a")
        denied = Client(url, virtual_host="v", wait=False)
        assert denied.wait_ended() == "amqp:unauthorized-access: connection disallowed by local policy"
        denied.close()
    finally:
        router.stop()


def test_without_its_listeners_a_router_does_not_start(tmp_path: Path, port: int) -> None:
    listener = ["listener", {"name": "k8s/ns/router/mesh/listener/mesh", "port": port, "sslProfile": "k8s/ns/broker/b"}]
    arguments = write_boot_files(tmp_path, {"shared.json.gz": [PROFILE, listener], "mesh-0.json": own(free_port())})
    done = subprocess.run([*command(), *arguments], capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 1
    assert "there is no sslProfile k8s/ns/broker/b" in done.stderr


def test_a_listener_with_a_certificate_of_its_own_stays_closed_until_that_is_there(
    tmp_path: Path, port: int, authority: Authority, server: KeyPair
) -> None:
    name = "k8s/ns/Router/mesh/listener/shop"
    files = {"certFile": str(tmp_path / "tls.crt"), "privateKeyFile": str(tmp_path / "tls.key")}
    profile: tuple[str, dict[str, Any]] = ("sslProfile", {"name": f"{name}/tls-1", **files})
    place = {"host": "127.0.0.1", "port": str(free_port())}
    secured = {"name": name, "sslProfile": f"{name}/tls-1", "requireSsl": True, **place}
    listener: tuple[str, dict[str, Any]] = ("listener", secured)
    management = ["listener", {"name": "management", "host": "127.0.0.1", "port": port, "managementFiles": True}]
    router = BootedRouter(tmp_path, "mesh-0", ([profile, listener], [own(port)[0], management]), [port])
    router.start()
    try:
        with ManagementClient(router.url) as client:
            assert [row["name"] for row in client.query("listener", ["name"])] == ["management"]
            for kind, attributes in (profile, listener):
                with pytest.raises(ManagementError) as raised:
                    client.create(kind, attributes)
                assert raised.value.status == 400
            shutil.copy(server.cert, tmp_path / "tls.crt")
            shutil.copy(server.key, tmp_path / "tls.key")
            for kind, attributes in (profile, listener):
                client.create(kind, attributes)
        context = ssl.create_default_context(cafile=str(authority.cert))
        with socket.create_connection(("127.0.0.1", int(place["port"])), DEADLINE_S) as raw:
            assert context.wrap_socket(raw, server_hostname="localhost").version() == "TLSv1.3"
    finally:
        router.stop()


def test_a_password_in_a_file_is_read_for_each_connection(tmp_path: Path, port: int) -> None:
    """A broker's password is in a file of a Secret, which changes."""
    password = tmp_path / "password"
    password.write_text("wrong\n", encoding="utf-8")
    (tmp_path / "broker.users").write_text("router:{plain}secret\n", encoding="utf-8")
    to_broker, broker_port = free_port(), free_port()
    sasl = {"host": "127.0.0.1", "port": to_broker, "saslMechanisms": "PLAIN"}
    insecure = {"allowInsecurePlain": True}
    name = "k8s/ns/broker/b"
    connector = {**sasl, "name": name, "saslUsername": "router", "saslPassword": f"file:{password}"}
    users = ["router", {"id": "b", "saslConfigDir": str(tmp_path), "saslConfigName": "broker"}]
    plain = ["listener", {"name": "plain", "host": "127.0.0.1", "port": broker_port}]
    listeners = [plain, ["listener", {**sasl, "name": "sasl", "authenticatePeer": True, **insecure}]]
    broker = BootedRouter(tmp_path, "broker", ([], [users, *listeners]), [broker_port, to_broker]).start()
    (tmp_path / "a").mkdir()
    router = BootedRouter(tmp_path / "a", "mesh-0", ([["connector", connector]], own(port)), [port]).start()

    def status(client: ManagementClient) -> str:
        return str(client.read("connector", name=name)["connectionStatus"])

    try:
        with ManagementClient(router.url) as client:
            wait_until(lambda: status(client) == "FAILED")
            password.unlink()
            wait_until(lambda: "saslPassword: " in client.read("connector", name=name)["connectionMsg"])
            password.write_text("secret\n", encoding="utf-8")
            wait_until(lambda: status(client) == "SUCCESS")
            assert "Traceback" not in router.log
    finally:
        router.stop()
        broker.stop()
