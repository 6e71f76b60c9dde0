"""A listener that is reached through the addresses of nodes, as its status tells them, by clients outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.cluster.api import Object
from tests.cluster.command import CommandError
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import READY_S, Mesh
from tests.kit.clients import Client
from tests.kit.process import accepts
from tests.kit.waiting import wait_until
from waymesh_operator.tls.certificates import issue, new_ca

HOST = "amqp.example.org"


def prepared(space: Namespace, folder: Path) -> Path:
    """Secrets with the listener's users and certificate; the file with the authority that clients trust."""
    authority = new_ca("shop", datetime.now(UTC))
    leaf = issue(authority, HOST, [HOST], datetime.now(UTC))
    files = {"tls.crt": leaf.certificate.decode(), "tls.key": leaf.key.decode()}
    for name, data in (("door", files), ("people", {"alice": "a long password"})):
        space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
    trusted = folder / "ca.crt"
    trusted.write_bytes(authority.certificate)
    return trusted


def listener(**expose: Any) -> dict[str, Any]:
    users, certificate = {"secretRef": {"name": "people"}}, {"secretRef": {"name": "door"}}
    secure = {"tls": True, "auth": "plain", "users": users, "certificate": certificate}
    return {"name": "amqps", "port": 5671, **secure, "expose": expose}


def row(found: Object) -> dict[str, Any]:
    """The listener's row of the status."""
    (one,) = found["status"].get("listeners") or [{}]
    return dict(one)


def connect(address: str, trusted: Path) -> Client:
    """A client that connects to an address and checks that its peer is who the certificate says.

    The address is known before the node forwards connections to it.
    """
    host, _, port = address.rpartition(":")
    wait_until(lambda: accepts(host, int(port)), READY_S, f"{address} accepts")
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(trusted))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    return Client(
        f"amqps://{address}",
        ssl_domain=domain, virtual_host=HOST, user="alice", password="a long password", allowed_mechs="PLAIN",
    )  # fmt: skip


def told(address: str, trusted: Path) -> list[str]:
    """Where a client is sent by the router at an address for the time when it is lost."""
    with connect(address, trusted) as client:
        listed = client.call(lambda: client.connection.remote_properties).get("failover-server-list") or []
        return [f"{item['network-host']}:{item['port']}" for item in listed]


def test_clients_outside_reach_the_mesh_and_single_routers_through_nodes(
    operator: Namespace, namespace: Namespace, tmp_path: Path
) -> None:
    trusted = prepared(namespace, tmp_path)
    exposed = {**listener(type="NodePort", perRouter=True), "failover": "Auto"}
    mesh = Mesh(namespace).apply(2, listeners=[exposed])
    mesh.converged(2)
    found = row(
        namespace.wait(
            "Router",
            "mesh",
            lambda one: row(one).get("addresses") and all(item["addresses"] for item in row(one)["routers"]),
            READY_S,
            "addresses in the status",
        )
    )
    by_router = {item["id"]: item["addresses"][0] for item in found["routers"]}
    assert sorted(by_router) == ["mesh-0", "mesh-1"]
    (first, *_) = found["addresses"]
    expected = [by_router["mesh-1"], *found["addresses"]]
    wait_until(lambda: told(by_router["mesh-0"], trusted) == expected, READY_S, f"a client is told of {expected}")
    with connect(by_router["mesh-0"], trusted) as one, connect(by_router["mesh-1"], trusted) as other:
        assert one.connection.remote_container == "mesh-0"
        assert other.connection.remote_container == "mesh-1"
        receiver = other.receiver("orders", credit=1)
        with connect(first, trusted) as any_router:
            sent = any_router.sender("orders").send("from outside")
            received = receiver.next()
            received.accept()
            assert received.message.body == "from outside"
            assert sent.outcome() == "accepted"

    namespace.kubectl("delete", "service", "mesh-1-out-amqps")
    namespace.wait("Service", "mesh-1-out-amqps", lambda one: True)
    mesh.scale(1)
    namespace.wait_gone("Service", "mesh-1-out-amqps")
    mesh.converged(1)
    mesh.apply(1, listeners=[listener(type="ClusterIP")])
    service = namespace.wait("Service", "mesh-out-amqps", lambda one: one["spec"]["type"] == "ClusterIP")
    assert "nodePort" not in service["spec"]["ports"][0]
    wait_until(
        lambda: row(namespace.get("Router", "mesh") or {"status": {}}).get("exposure") == "ClusterIP",
        READY_S,
        "the status without addresses outside",
    )


def test_a_listener_that_everybody_outside_could_use_is_refused(operator: Namespace, namespace: Namespace) -> None:
    with pytest.raises(CommandError) as raised:
        namespace.kubectl("apply", "-f", "-", stdin=OPEN_TO_ALL)
    assert re.search(r"set tls: true and an auth other\s+than none", raised.value.output)


OPEN_TO_ALL = """
apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  listeners: [{name: amqp, port: 5672, expose: {type: NodePort}}]
"""
