"""An Artemis that connects to a router of `waymesh up`, as one behind a firewall does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.brokers.artemis import Artemis
from tests.kit.clients import Client
from tests.kit.local_mode import Up, mesh_up
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

MESH = """apiVersion: waymesh.io/v1alpha1
kind: Router
metadata: {name: mesh}
spec:
  size: 2
  listeners:
  - {name: amqp, port: 5672}
  - {name: brokers, port: 5673, role: route-container}
---
apiVersion: waymesh.io/v1alpha1
kind: Address
metadata: {name: orders}
spec: {routerRef: {name: mesh}, prefix: orders, waypoint: true}
"""
BROKER = """---
apiVersion: waymesh.io/v1alpha1
kind: Broker
metadata: {name: store}
spec: {routerRef: {name: mesh}, direction: Incoming, brokerContainerId: ID}
---
apiVersion: waymesh.io/v1alpha1
kind: AutoLink
metadata: {name: orders-out}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, address: orders, direction: out}
---
apiVersion: waymesh.io/v1alpha1
kind: AutoLink
metadata: {name: orders-in}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, address: orders, direction: in}
---
apiVersion: waymesh.io/v1alpha1
kind: LinkRoute
metadata: {name: archive}
spec: {routerRef: {name: mesh}, brokerRef: {name: store}, prefix: archive, direction: both}
"""
QUEUES = ("orders", "archive.2026")
COUNT = 50


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    (tmp_path / "mesh").mkdir()
    with mesh_up(tmp_path / "mesh", MESH, "mesh is ready: 2 routers") as running:
        yield running


@pytest.fixture
def broker(up: Up, tmp_path: Path) -> Iterator[Artemis]:
    place = up._url("mesh-1", "listener/brokers").removeprefix("amqp://")
    (tmp_path / "artemis").mkdir()
    with Artemis(tmp_path / "artemis", connects_to=place) as running:
        yield running


def routes_of(management: ManagementClient) -> list[str]:
    """The link routes that lead over another router."""
    rows = management.query("router.address", ["name", "remoteCount"])
    return sorted(str(row["name"]) for row in rows if row["remoteCount"] and "archive" in str(row["name"]))


def test_an_artemis_that_connects_serves_clients_of_all_routers(up: Up, broker: Artemis) -> None:
    for queue in QUEUES:
        broker.create_queue(queue)
    up.write(MESH + BROKER.replace("ID", broker.container_id()))
    up.wait_for("Broker/store is active on 1/2")
    for link in ("AutoLink/orders-out", "AutoLink/orders-in", "LinkRoute/archive"):
        up.wait_for(f"{link} is active on 1/1")
    with up.client("mesh-0") as management:
        wait_until(lambda: routes_of(management) == ["Carchive", "Darchive"], 60, "the other router knows the way")
    with Client(up.url("mesh-0")) as far, Client(up.url("mesh-1")) as near:
        for producer, consumer in ((far, near), (near, far)):
            for address in QUEUES:
                sender = producer.sender(address)
                sent = [sender.send(proton.Message(body=number, durable=True)) for number in range(COUNT)]
                assert {one.outcome() for one in sent} == {"accepted"}
                received = consumer.receiver(address, credit=COUNT).take(COUNT)
                bodies: list[Any] = [one.message.body for one in received]
                assert sorted(bodies) == list(range(COUNT))
        wait_until(lambda: not any(map(broker.depth, QUEUES)), 60, "the queues are empty")
