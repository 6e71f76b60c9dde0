"""The private network of the Dispatch Router book, from its example.

Clients of one namespace use the queues of a broker in another one, which nobody there can connect to: the network of
the test cluster enforces NetworkPolicies.
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
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import READY_S, Mesh, certificate, known_addresses, secret, waymesh
from tests.kit.clients import Client
from tests.kit.waiting import wait_until
from waymesh_operator.places.kubernetes.context import HTTP_PORT, MANAGEMENT_PORT, MESH_PORT

FOLDER = Path(__file__).parents[2] / "examples/private-network"
QUEUE = "b2.event-queue"
ROUTES = {"Cb2", "Db2"}
"""The keys of the link route to the broker, one for each direction."""
SERVER = 8000
"""The port of a server in a pod of the private network."""
KNOCK = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
    print("open")
except OSError as error:
    print("closed:", error)
"""
KNOWN_S = 180.0
"""Until the network has learned of new pods and policies."""


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


class Visitor:
    """A pod that tries ports of others, and has a server itself."""

    def __init__(self, space: Namespace, image: str) -> None:
        self._space = space
        space.run_pod("visitor", image, ["python", "-m", "http.server", str(SERVER)])
        found = space.wait("Pod", "visitor", lambda pod: condition_status(pod, "Ready") == "True")
        self.address = str(found["status"]["podIP"])

    def sees(self, state: str, host: str, port: int) -> None:
        """Waits until a port is open or closed to this pod."""
        said = [""]

        def holds() -> bool:
            said[0] = self._space.exec("visitor", "python", "-c", KNOCK, host, str(port))
            return said[0].startswith(state)

        wait_until(holds, KNOWN_S, lambda: f"{host}:{port} {state} to {self._space.name}; it is {said[0]}")


def check_closed(public: Namespace, private: Namespace, image: str) -> None:
    """Pods of the public network reach of the private one what its policies leave open, and nothing else."""
    outside, inside = Visitor(public, image), Visitor(private, image)
    router = f"private.{private.name}.svc"
    routers = private.get("Pod", "private-0")
    assert routers is not None
    pod = routers["status"]["podIP"]
    outside.sees("closed", router, 5672)
    outside.sees("closed", inside.address, SERVER)
    inside.sees("open", router, 5672)
    inside.sees("open", inside.address, SERVER)
    outside.sees("open", pod, HTTP_PORT)
    for visitor in (outside, inside):
        visitor.sees("closed", pod, MANAGEMENT_PORT)
        visitor.sees("closed", pod, MESH_PORT)


def test_clients_use_a_broker_of_a_private_network(
    operator: Namespace,
    namespace: Namespace,
    private: Namespace,
    broker: BrokerJ,
    router_image: str,
    tmp_path: Path,
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
    # The RouterLink is Ready when it is connected; only then the routers tell each other what is behind it.
    wait_until(
        lambda: known_addresses(namespace, "public-0").keys() >= ROUTES, READY_S, "public-0 knows the link route"
    )

    pod = namespace.get("Pod", "public-0")
    assert pod is not None
    with Client(f"amqp://{pod['status']['podIP']}:5672") as client:
        assert client.sender(QUEUE).send("an event").outcome() == "accepted"
        assert broker.depth(QUEUE) == 1
        received = client.receiver(QUEUE, credit=1).next()
        received.accept()
        assert received.message.body == "an event"

    check_closed(namespace, private, router_image)
