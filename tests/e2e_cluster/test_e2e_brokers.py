"""Broker, AutoLink and LinkRoute with real brokers outside the cluster: a Broker-J, and an Artemis that connects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.broker_j import BrokerJ
from tests.brokers.process import PASSWORD, USER
from tests.cluster.api import Object
from tests.cluster.lifecycle import Cluster
from tests.cluster.namespace import Namespace, condition_status
from tests.e2e_cluster.scene import READY_S, Mesh, Traffic, resource, secret
from tests.kit.waiting import wait_until

HERE, THERE = {"name": "mesh"}, {"name": "store"}
QUEUE, ARCHIVE = "orders", "archive.2026"
LINKS = (("AutoLink", "orders-in"), ("AutoLink", "orders-out"), ("LinkRoute", "archive"))
RATE = 50
SEEN_S = 180.0
"""The operator looks at a mesh at rest every half minute."""


@pytest.fixture
def broker(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerJ]:
    """A Broker-J at an address that pods can reach."""
    folder = tmp_path_factory.mktemp("brokerj-of-cluster")
    with BrokerJ(folder, durable=True, host=cluster.network.gateway(1)) as made:
        for queue in (QUEUE, ARCHIVE):
            made.create_queue(queue)
        yield made


def login(password: str) -> Object:
    """The Secret that the Broker names."""
    return secret("login", username=USER, password=password)


def autolinks() -> list[Object]:
    """To the queue and from it."""
    return [
        resource("AutoLink", f"orders-{way}", routerRef=HERE, brokerRef=THERE, address=QUEUE, direction=way)
        for way in ("in", "out")
    ]


def manifests(broker: BrokerJ) -> list[Object]:
    """The broker, a queue of it as a waypoint, another one by a link route."""
    place = {"host": broker.host, "port": broker.ports.scram}
    auth = {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}}
    return [
        resource("Broker", "store", routerRef=HERE, endpoints=[place], auth=auth),
        resource("Address", QUEUE, routerRef=HERE, prefix=QUEUE, waypoint=True),
        *autolinks(),
        resource("LinkRoute", "archive", routerRef=HERE, brokerRef=THERE, prefix="archive", direction="both"),
    ]


def wait_state(namespace: Namespace, state: str, error: str) -> None:
    """Until the Broker says so."""

    def holds(found: Object) -> bool:
        status = found.get("status", {})
        return bool(status.get("state") == state and error in status.get("lastError", ""))

    namespace.wait("Broker", "store", holds, SEEN_S, f"state {state}")


def wait_ready(namespace: Namespace) -> None:
    """Until the Broker is connected and all links work on both routers."""
    for kind, name in (("Broker", "store"), *LINKS):
        found = namespace.wait_condition(kind, name, "Ready", "True", SEEN_S)
        status = found["status"]
        assert status["state"] == "active"
        assert status["connected" if kind == "Broker" else "active"] == "2/2"
        assert {row["id"]: row["operStatus"] for row in status["routers"]} == {"mesh-0": "active", "mesh-1": "active"}


def without_broker(link: Object) -> bool:
    """Whether the status says that the link fails because its broker is away."""
    told = link["status"].get("lastError", "")
    return condition_status(link, "Ready") == "False" and "the broker is not connected" in told


def test_links_to_a_broker_come_fail_and_go_without_loss(
    operator: Namespace, namespace: Namespace, broker: BrokerJ, router_image: str
) -> None:
    mesh = Mesh(namespace).apply(2)
    namespace.apply([login("wrong"), *manifests(broker)])
    mesh.converged(2)
    wait_state(namespace, "failed", "mesh-")
    before = mesh.lives()
    namespace.apply(login(PASSWORD))
    wait_ready(namespace)

    queue, archive = (Traffic(namespace, router_image, address) for address in (QUEUE, ARCHIVE))
    queue.receive("receiver")
    archive.receive("reader")
    queue.send("sender", rate=RATE)
    archive.send("writer", rate=RATE)
    wait_until(lambda: broker.consumers(QUEUE) == 2, 180, "the queue's consumers")
    for kind, name in LINKS[:2]:
        namespace.delete(kind, name)
    wait_until(lambda: broker.consumers(QUEUE) == 0, SEEN_S, "the autolinks gone from the routers")
    namespace.apply(autolinks())
    wait_ready(namespace)
    queue.end(lambda: broker.depth(QUEUE) == 0).check()
    archive.end(lambda: broker.depth(ARCHIVE) == 0).check()

    broker.kill()
    wait_state(namespace, "failed", "mesh-")
    for kind, name in LINKS:
        found = namespace.wait(kind, name, without_broker, SEEN_S, "not Ready: the broker is not connected")
        assert condition_status(found, "Programmed") == "True"
    wait_until(lambda: "NotConnected" in {event["reason"] for event in namespace.events("store")}, 180, "an Event")
    broker.start()
    wait_ready(namespace)
    assert mesh.lives() == before


def test_a_broker_that_connects_from_outside_serves_the_mesh(
    operator: Namespace, namespace: Namespace, tmp_path_factory: pytest.TempPathFactory, router_image: str
) -> None:
    door = {"type": "NodePort", "allowUnprotected": True}
    listeners = [
        {"name": "amqp", "port": 5672},
        {"name": "brokers", "port": 5673, "role": "route-container", "expose": door},
    ]
    mesh = Mesh(namespace).apply(2, listeners=listeners)
    mesh.converged(2)
    found = namespace.wait("Router", "mesh", addresses, READY_S, "the address for brokers")
    with Artemis(tmp_path_factory.mktemp("artemis-of-cluster"), connects_to=addresses(found)[0]) as broker:
        broker.create_queue(QUEUE)
        incoming = {"direction": "Incoming", "brokerContainerId": broker.container_id()}
        namespace.apply([
            resource("Broker", "store", routerRef=HERE, **incoming),
            resource("Address", QUEUE, routerRef=HERE, prefix=QUEUE, waypoint=True),
            *autolinks(),
        ])  # fmt: skip
        for kind, name in (("Broker", "store"), *LINKS[:2]):
            status = namespace.wait_condition(kind, name, "Ready", "True", SEEN_S)["status"]
            assert status["connected" if kind == "Broker" else "active"] == ("1/2" if kind == "Broker" else "1/1")
        traffic = Traffic(namespace, router_image, QUEUE)
        traffic.receive("receiver")
        traffic.send("sender", rate=RATE)
        traffic.end(lambda: broker.depth(QUEUE) == 0).check()
    found = namespace.wait_condition("Broker", "store", "Ready", "False", SEEN_S)
    assert condition_status(found, "Programmed") == "True"
    assert found["status"]["connected"] == "0/2"


def addresses(router: Object) -> list[str]:
    """Where brokers connect, as the status tells."""
    rows = router["status"].get("listeners") or []
    return [address for row in rows if row["name"] == "brokers" for address in row.get("addresses", ())]
