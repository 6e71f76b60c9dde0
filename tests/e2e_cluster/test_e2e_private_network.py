"""The private network of the Dispatch Router book, from its example.

Clients of one namespace use the queues of a broker in another one, which nobody there can connect to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.brokers.broker_j import BrokerJ
from tests.brokers.process import PASSWORD, USER
from tests.cluster.api import Object
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace
from tests.e2e_cluster.scene import READY_S, Mesh, certificate, secret, waymesh
from tests.kit.clients import Client

FOLDER = Path(__file__).parents[2] / "examples/private-network"
QUEUE = "b2.event-queue"


@pytest.fixture
def broker(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerJ]:
    """The broker B2, at an address that pods can reach."""
    with BrokerJ(tmp_path_factory.mktemp("b2"), host=cluster.network.gateway(1)) as made:
        made.create_queue(QUEUE)
        yield made


def of_private(broker: BrokerJ) -> list[Object]:
    """The resources of the private network, with the broker of this test."""
    found: list[Object] = list(yaml.safe_load_all((FOLDER / "private.yaml").read_text(encoding="utf-8")))
    (its,) = (item["spec"] for item in found if item["kind"] == "Broker")
    its["endpoints"] = [{"host": broker.host, "port": broker.ports.scram}]
    its["auth"] = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
    return [secret("login", username=USER, password=PASSWORD), *found]


def test_clients_use_a_broker_of_a_private_network(
    operator: Namespace, namespace: Namespace, private: Namespace, broker: BrokerJ, tmp_path: Path
) -> None:
    namespace.apply(certificate("door", [f"public-out-door.{namespace.name}.svc"]))
    namespace.apply(FOLDER / "public.yaml")

    def has_address(found: Object) -> bool:
        rows = found.get("status", {}).get("listeners") or []
        return any(row.get("addresses") for row in rows)

    namespace.wait("Router", "public", has_address, READY_S, "the address of the listener for routers")
    token = tmp_path / "token.yaml"
    words = ("public", "-n", namespace.name, "--name", "private", "--output", str(token))
    waymesh(namespace, "link", "create-token", *words)
    private.apply(token)
    private.apply(of_private(broker))
    Mesh(namespace, "public").converged(1)
    Mesh(private, "private").converged(1)
    for kind, name in (("RouterLink", "public"), ("Broker", "b2"), ("LinkRoute", "b2")):
        private.wait_condition(kind, name, "Ready", "True", READY_S)
    link = private.get("RouterLink", "public")
    assert link is not None
    assert (link["status"]["remoteMesh"], link["status"]["peers"]) == ("public", ["public-0"])

    pod = namespace.get("Pod", "public-0")
    assert pod is not None
    with Client(f"amqp://{pod['status']['podIP']}:5672") as client:
        assert client.sender(QUEUE).send("an event").outcome() == "accepted"
        assert broker.depth(QUEUE) == 1
        received = client.receiver(QUEUE, credit=1).next()
        received.accept()
        assert received.message.body == "an event"

    policy = private.get("NetworkPolicy", "private")
    assert policy is not None
    allowed = {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert allowed[5672] == [{"podSelector": {}}]
