"""Broker-J killed with SIGKILL under load and started again on its store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.brokers.behind import ROUTES, Scene, wait_active
from tests.brokers.broker_j import BrokerJ
from tests.brokers.flows import Consumer, Flow, Producer
from tests.interop_brokers.core_checks import WAYS
from tests.kit.clients import Client
from tests.kit.fixtures import show_log
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent, pytest.mark.timeout(480)]

MESSAGES = 600
BACK_S = 30.0
"""A connector tries again every two seconds at least; a loaded machine needs its time, too."""


@pytest.fixture(params=[1, 3])
def scene(request: pytest.FixtureRequest, brokerj_durable: BrokerJ, tmp_path: Path) -> Iterator[Scene]:
    made = Scene.start(tmp_path, request.param, brokerj_durable, ROUTES)
    for router in made.routers:
        show_log(request.node, router)
    yield made
    made.stop()


def filled(scene: Scene, queue: str) -> str:
    """The queue with messages for a consumer."""
    with Client(f"amqp://127.0.0.1:{scene.broker.port}", user="router", password="router-pw") as client:
        sender = client.sender(queue)
        left = [proton.Message(body=number, durable=True) for number in range(MESSAGES)]
        while left:
            sender.wait_credit()
            sent = sender.send_some(left)
            assert {one.outcome() for one in sent} == {"accepted"}
            del left[: len(sent)]
    return queue


def check_left(scene: Scene, producer: Producer) -> None:
    """In the queue is all that was accepted; twice only what the client sent twice."""
    depth = scene.broker.depth(producer.address)
    with Client(f"amqp://127.0.0.1:{scene.broker.port}", user="router", password="router-pw") as client:
        left = Counter(received.body for received in client.receiver(producer.address, credit=depth).take(depth))
    assert set(left) == producer.accepted == set(range(MESSAGES))
    assert {number for number, count in left.items() if count > 1} <= producer.repeated


def test_nothing_accepted_is_lost(scene: Scene) -> None:
    queues = {name: make(scene) for name, make in WAYS.items()}
    sources = [filled(scene, make(scene)) for make in WAYS.values()]
    producers = [Producer(scene.near.url, queue, MESSAGES) for queue in queues.values()]
    consumers = [Consumer(scene.near.url, queue, MESSAGES) for queue in sources]
    flows: list[Flow] = [*producers, *consumers]
    try:
        wait_until(lambda: all(flow.under_way() for flow in flows), 60.0, "load")
        scene.broker.kill()
        scene.broker.start()
        for queue in (queues["auto_linked"], sources[0]):
            wait_active(scene.far, queue, BACK_S)
        for flow in flows:
            flow.finish()
    finally:
        for flow in flows:
            flow.stop.set()
    for producer in producers:
        check_left(scene, producer)
    for consumer in consumers:
        assert consumer.received == set(range(MESSAGES))
        assert not consumer.wrong
