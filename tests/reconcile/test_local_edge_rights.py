"""Rights of edge routers at a mesh of `waymesh up`: without a user group one is warned of and keeps its rights, and a
strict listener refuses it. See docs/edge.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from proton import Message

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.local_mode import Up, mesh_up
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = pytest.mark.e2e

API = "waymesh.io/v1alpha1"
EDGES = {
    "name": "edges",
    "port": 45671,
    "role": "edge",
    "tls": True,
    "auth": "mtls",
    "uidFormat": "n",
    "policyVhost": "edges",
    "certificate": {"secretRef": {"name": "tls"}},
    "clientAuthorities": {"secretRef": {"name": "ca"}},
}
ROUTER = {
    "apiVersion": API,
    "kind": "Router",
    "metadata": {"name": "mesh"},
    "spec": {"size": 1, "listeners": [{"name": "amqp", "port": 5672}, EDGES], "policy": {"enabled": True}},
}
EVERYTHING = {"remoteHosts": ["*"], "sources": ["*"], "targets": ["*"]}
SHOPS = {"name": "shops", "users": ["shop-17"], "remoteHosts": ["*"], "sources": ["prices"], "targets": ["orders"]}


def policy(name: str, hostname: str, group: dict[str, Any], **spec: object) -> dict[str, Any]:
    spec.update(routerRef={"name": "mesh"}, hostname=hostname, groups=[group])
    return {"apiVersion": API, "kind": "VhostPolicy", "metadata": {"name": name}, "spec": spec}


POLICIES = (
    policy("clients", "$default", {"name": "$default", **EVERYTHING}, allowUnknownUser=True),
    policy("edges", "edges", SHOPS),
)
NO_GROUP = "the edge router is in no user group of the policy"


def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def up(tmp_path: Path, authority: Authority) -> Iterator[Up]:
    server = authority.issue("server", {"CN": "server"}, hosts=("127.0.0.1",))
    tls = {"tls.crt": server.cert.read_text(), "tls.key": server.key.read_text()}
    secrets = {"ca": {"ca.crt": authority.cert.read_text()}, "tls": tls}
    text = "\n---\n".join(json.dumps(item) for item in (*starmap(secret, secrets.items()), ROUTER, *POLICIES))
    with mesh_up(tmp_path, text, "mesh is ready: 1 router") as running:
        running.wait_for("VhostPolicy/edges is active on 1/1")
        yield running


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class EdgeRouter(RouterProcess):
    """An edge router with an uplink to a mesh of `waymesh up`."""

    def __init__(self, authority: Authority, up: Up, user: str) -> None:
        port, pair = free_port(), authority.issue(user, {"CN": user})
        tls = {"caCertFile": authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
        connector = {
            "name": "uplink",
            "role": "edge",
            "host": "127.0.0.1",
            "port": urlsplit(up.url("mesh-0", "edges")).port,
            "saslMechanisms": "EXTERNAL",
            "sslProfile": "own",
        }
        text = section("router", id=f"at-{user}", mode="edge") + section("sslProfile", name="own", **tls)
        text += section("connector", **connector)
        super().__init__(authority.folder, user, text + section("listener", host="127.0.0.1", port=port), [port])

    def connected(self) -> bool:
        """Whether the uplink is in use."""
        with ManagementClient(self.url) as client:
            rows = client.query("connection", ["role", "active"])
        return any(row["active"] for row in rows if row["role"] == "edge")

    def error(self) -> str:
        """The last error of the connector."""
        with ManagementClient(self.url) as client:
            (row,) = client.query("connector", ["connectionStatus", "connectionMsg"])
            return "" if row["connectionStatus"] == "SUCCESS" else str(row["connectionMsg"])


def passes(mesh: str, edge: str, address: str) -> bool:
    """Whether a message reaches a consumer at the edge router from a producer at the mesh."""
    with Client(edge) as consumer, Client(mesh) as producer:
        receiver = consumer.receiver(address, 1)
        producer.sender(address).send(Message(body=address))
        return bool(receiver.next().body == address)


def test_an_edge_router_without_a_group_is_warned_of_and_a_strict_listener_refuses_it(
    up: Up, authority: Authority, stack: ExitStack
) -> None:
    shop, stranger = (EdgeRouter(authority, up, user) for user in ("shop-17", "stranger"))
    for edge in (shop, stranger):
        edge.start()
        stack.callback(edge.stop)
        wait_until(edge.connected)
    up.wait_for("Router/mesh: EdgesWithoutGroup: edge routers that no user group of a VhostPolicy names")
    assert "at mesh-0 (1)" in up.text
    (warning,) = (line for line in up.log("mesh-0").splitlines() if NO_GROUP in line)
    assert "POLICY (warning) " in warning
    assert f"edge router at-stranger, user stranger: {NO_GROUP}, and listener " in warning
    assert "/listener/edges has no strictEdges: it may use and route all addresses" in warning
    assert passes(up.url("mesh-0"), stranger.url, "anything")
    assert passes(up.url("mesh-0"), shop.url, "prices")

    up.edit('"role": "edge", ', '"role": "edge", "strictEdges": true, ')
    up.wait_for("mesh-0: replace listener mesh/listener/edges")
    stranger.stop()  # edge routers that are connected stay
    up.wait_for("Router/mesh: EdgesWithoutGroup: no edge router without a user group")
    stranger.start()
    wait_until(lambda: NO_GROUP in stranger.error())
    assert f"DENY connection: edge router at-stranger, user stranger: {NO_GROUP}" in up.log("mesh-0")
    assert passes(up.url("mesh-0"), shop.url, "prices")
