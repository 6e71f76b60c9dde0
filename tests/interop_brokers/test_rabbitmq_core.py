"""RabbitMQ behind autolinks: a peer with fewer features of AMQP 1.0."""

from __future__ import annotations

import proton
import pytest

from tests.brokers.behind import CONNECTOR, Scene, wait_active
from tests.brokers.fixtures import fresh
from tests.brokers.rabbitmq import RabbitMQ
from tests.interop_brokers import core_checks
from tests.interop_brokers.conftest import Scenes
from tests.kit.clients import Client
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]


@pytest.fixture(params=[1, 3])
def scene(request: pytest.FixtureRequest, scenes: Scenes, rabbitmq: RabbitMQ) -> Scene:
    """The broker's queues are reached by autolinks."""
    return scenes.get(request, rabbitmq, request.param, "compiled")


@pytest.fixture
def queue(scene: Scene) -> str:
    return core_checks.auto_linked_as_rabbitmq_names_it(scene)


def test_send_and_receive(scene: Scene, queue: str) -> None:
    core_checks.check_send_and_receive(scene, queue)


def test_large(scene: Scene, queue: str) -> None:
    core_checks.check_large(scene, queue)


def test_receiver_lost(scene: Scene, queue: str) -> None:
    """RabbitMQ knows no `modified` and ends the session for it: what is accepted at that moment comes once more."""
    with Client(scene.near.url) as client:
        core_checks.lose_a_receiver(scene, client, queue)
        receiver = client.receiver(queue, credit=40)
        found: set[int] = set()

        def emptied() -> bool:
            while not receiver.arrived.empty():
                received = receiver.next()
                received.accept()
                found.add(received.body)
            return len(found) == 10 and scene.broker.depth(queue) == 0

        wait_until(emptied, 60.0, lambda: f"{sorted(found)} received, depth {scene.broker.depth(queue)}")
        assert found == set(range(10))


def test_released_messages_come_again(scene: Scene, queue: str) -> None:
    with Client(scene.near.url) as client:
        client.sender(queue).send(proton.Message(body="again", durable=True)).outcome()
        receiver = client.receiver(queue, credit=2)
        receiver.next().release()
        received = receiver.next()
        assert received.body == "again"
        received.accept()
        core_checks.wait_depth(scene, queue, 0)


def test_a_queue_that_is_not_there(scene: Scene, queue: str) -> None:
    """RabbitMQ ends the whole session for it: the other autolinks come back, and so does this one with its queue."""
    late = fresh("queue")
    with ManagementClient(scene.far.url) as client:
        given = {"address": late, "direction": "in", "connection": CONNECTOR, "externalAddress": f"/amq/queue/{late}"}
        client.create("autoLink", given, name=late)
        wait_until(lambda: client.read("autoLink", name=late)["lastError"])
    wait_active(scene.far, queue)
    scene.broker.create_queue(late)
    wait_active(scene.far, late)
    core_checks.check_send_and_receive(scene, queue)
