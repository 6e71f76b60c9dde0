"""rhea and go-amqp send to a broker's queues, and receive from them, by autolinks, with three routers between."""

from __future__ import annotations

import pytest

from tests.brokers.behind import Scene
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.interop import core_set
from tests.interop.programs import Program
from tests.interop_brokers.conftest import Scenes
from tests.interop_brokers.core_checks import auto_linked, wait_depth
from tests.kit.clients import Client

pytestmark = [pytest.mark.interop, pytest.mark.brokers]


@pytest.fixture
def scene(request: pytest.FixtureRequest, scenes: Scenes, brokerj_durable: BrokerJ) -> Scene:
    return scenes.get(request, brokerj_durable, 3, "compiled")


@pytest.mark.parametrize("presettled", [False, True])
def test_messages_pass(program: Program, scene: Scene, presettled: bool) -> None:
    url = scene.near.url
    queue = auto_linked(scene)
    receiver = program("receive", url=url, address=queue, count=100).wait_ready()
    sent = program("send", url=url, address=queue, count=100, size=100, presettled=presettled).result()
    assert sent["outcomes"] == {"presettled" if presettled else "accepted": 100}
    received = receiver.result()
    assert [one["sha256"] for one in received["messages"]] == [core_set.digest(number, 100) for number in range(100)]
    wait_depth(scene, queue, 0)


def test_messages_wait_in_the_queue(program: Program, scene: Scene) -> None:
    url = scene.near.url
    queue = auto_linked(scene)
    assert program("send", url=url, address=queue, count=20).result()["outcomes"] == {"accepted": 20}
    wait_depth(scene, queue, 20)
    received = program("receive", url=url, address=queue, count=20).result()
    assert core_set.numbers(received) == list(range(20))
    wait_depth(scene, queue, 0)


def test_large(program: Program, scene: Scene) -> None:
    core_set.check_large(program, auto_linked(scene), scene.near.url, scene.near.url)


def test_requests_wait_in_the_queue_and_replies_need_none(program: Program, scene: Scene) -> None:
    core_set.check_request_reply(program, auto_linked(scene), scene.near.url, scene.routers[1].url)


@pytest.mark.parametrize(("outcome", "tried"), [("reject", 1), ("release", 0), ("modify", 1)])
def test_what_a_receiver_makes_of_messages(
    program: Program, scene: Scene, brokerj_durable: BrokerJ, outcome: str, tried: int
) -> None:
    """The broker counts rejected and modified ones as tried, released ones not, as it does without routers. What comes
    back is the first in its queue again, so there is only one."""
    queue = auto_linked(scene)
    program("send", url=scene.near.url, address=queue, count=2).result()
    received = program("receive", url=scene.near.url, address=queue, count=2, outcomes=["accept", outcome]).result()
    assert core_set.numbers(received) == [0, 1]
    wait_depth(scene, queue, 1)
    with Client(f"amqp://127.0.0.1:{brokerj_durable.ports.anonymous}", allowed_mechs="ANONYMOUS") as client:
        (left,) = client.receiver(queue, credit=1).take(1)
    assert (left.body, left.message.delivery_count) == ("1:", tried)


def test_what_the_broker_makes_of_messages(program: Program, scene: Scene, brokerj_durable: BrokerJ) -> None:
    """A queue that is full rejects."""
    queue = fresh("queue")
    brokerj_durable.create("queue", queue, overflowPolicy="REJECT", maximumQueueDepthMessages=3)
    scene.auto_link(queue, "out")
    sent = program("send", url=scene.near.url, address=queue, count=5).result()
    assert sent["outcomes"] == {"accepted": 3, "rejected": 2}
