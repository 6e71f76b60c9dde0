"""Features of Broker-J's queues, used through a router. Broker-J manual 4.7."""

from __future__ import annotations

from typing import Any

import proton
import pytest
from proton.reactor import LinkOption, Selector

from tests.brokers.behind import Scene, auto_links, wait_active
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.interop_brokers.conftest import Scenes
from tests.interop_brokers.core_checks import wait_depth
from tests.kit.clients import Client, Received
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]

WAYS = ["queue", "routed"]
"""Prefixes: by autolinks, by link routes."""
DEPTH = 5


@pytest.fixture
def scene(request: pytest.FixtureRequest, scenes: Scenes, brokerj: BrokerJ) -> Scene:
    return scenes.get(request, brokerj, 1, "compiled")


def made(scene: Scene, way: str, **attributes: object) -> str:
    """A queue of the broker, with its autolinks where the way is by autolinks."""
    name = fresh(way)
    broker = scene.broker
    assert isinstance(broker, BrokerJ)
    broker.create("queue", name, **attributes)
    if way == "queue":
        scene.auto_link(name)
    return name


def fill(client: Client, queue: str, messages: list[proton.Message]) -> None:
    """Send all; all are accepted."""
    sender = client.sender(queue)
    assert {sent.outcome() for sent in sender.send_all(messages)} == {"accepted"}


def bodies(received: list[Received]) -> list[object]:
    return [one.body for one in received]


def test_selector(scene: Scene) -> None:
    queue = made(scene, "routed")
    with Client(scene.near.url) as client:
        colours = ["red", "blue", "red"]
        fill(client, queue, [proton.Message(body=n, properties={"colour": c}) for n, c in enumerate(colours)])
        red = client.receiver(queue, credit=5, options=[Selector("colour = 'red'")])
        assert bodies(red.take(2)) == [0, 2]
        red.drain()
        assert red.arrived.empty()
        wait_depth(scene, queue, 1)


def test_a_wrong_selector_is_refused_by_the_broker(scene: Scene) -> None:
    queue = made(scene, "routed")
    with Client(scene.near.url) as client:
        error = client.receiver(queue, options=[Selector("colour = = 'red'")]).wait_detached()
        assert error is not None
        assert error.startswith("amqp:invalid-field"), error


@pytest.mark.parametrize("way", WAYS)
def test_priority_queue(scene: Scene, way: str) -> None:
    queue = made(scene, way, type="priority", priorities=10)
    with Client(scene.near.url) as client:
        fill(client, queue, [proton.Message(body=priority, priority=priority) for priority in (1, 9, 5)])
        assert bodies(client.receiver(queue, credit=3).take(3)) == [9, 5, 1]


@pytest.mark.parametrize("way", WAYS)
def test_last_value_queue(scene: Scene, way: str) -> None:
    queue = made(scene, way, type="lvq", lvqKey="sym")
    with Client(scene.near.url) as client:
        prices = [("ibm", 1), ("sun", 2), ("ibm", 3)]
        fill(client, queue, [proton.Message(body=price, properties={"sym": sym}) for sym, price in prices])
        wait_depth(scene, queue, 2)
        assert sorted(bodies(client.receiver(queue, credit=2).take(2)), key=str) == [2, 3]


def test_groups(scene: Scene) -> None:
    """All messages of a group go to one consumer."""
    queue = made(scene, "routed", messageGroupType="STANDARD")
    with Client(scene.near.url) as client:
        receivers = [client.receiver(queue, credit=10, name=name) for name in ("one", "other")]
        fill(client, queue, [proton.Message(body=n, group_id="ab"[n % 2]) for n in range(10)])
        wait_until(lambda: sum(receiver.arrived.qsize() for receiver in receivers) == 10, 60.0, "all messages")
        seen = [{received.message.group_id for received in r.take(r.arrived.qsize())} for r in receivers]
        assert not seen[0] & seen[1]
        assert seen[0] | seen[1] == {"a", "b"}


@pytest.mark.parametrize("way", WAYS)
def test_time_to_live(scene: Scene, way: str) -> None:
    queue = made(scene, way)
    with Client(scene.near.url) as client:
        fill(client, queue, [proton.Message(body="short", ttl=0.1), proton.Message(body="long", ttl=600)])
        wait_depth(scene, queue, 1)
        (received,) = client.receiver(queue, credit=1).take(1)
        assert received.body == "long"
        assert 0 < received.message.ttl <= 600


@pytest.mark.parametrize("settle", ["reject", "modify", "expire"])
@pytest.mark.parametrize("way", WAYS)
def test_dead_letters(scene: Scene, way: str, settle: str) -> None:
    """What fails twice or stays too long is in the alternate queue."""
    dead = made(scene, way)
    late = {"maximumMessageTtl": 100, "expiryPolicy": "ROUTE_TO_ALTERNATE"} if settle == "expire" else {}
    queue = made(scene, way, alternateBinding={"destination": dead}, maximumDeliveryAttempts=2, **late)
    with Client(scene.near.url) as client:
        fill(client, queue, [proton.Message(body="bad")])
        if settle != "expire":
            receiver = client.receiver(queue, credit=2)
            for _ in range(2):
                getattr(receiver.next(), settle)()
        wait_depth(scene, queue, 0)
        assert bodies(client.receiver(dead, credit=1).take(1)) == ["bad"]


class AllOutcomes(LinkOption):
    """Without it Broker-J does not know that the client understands `rejected`."""

    def apply(self, link: proton.Link) -> None:
        undescribed: Any = proton.UNDESCRIBED  # which proton types as another class
        outcomes = [proton.symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")]
        link.source.outcomes.put_object(proton.Array(undescribed, proton.Data.SYMBOL, *outcomes))


@pytest.mark.parametrize("way", WAYS)
def test_a_full_queue_that_rejects(scene: Scene, way: str) -> None:
    queue = made(scene, way, overflowPolicy="REJECT", maximumQueueDepthMessages=DEPTH)
    with Client(scene.near.url) as client:
        sender = client.sender(queue, options=[AllOutcomes()])
        sent = [sender.send(number) for number in range(DEPTH + 1)]
        assert [one.outcome() for one in sent] == ["accepted"] * DEPTH + ["rejected"]
        condition = sent[-1].condition
        assert condition is not None
        assert condition.startswith("amqp:resource-limit-exceeded"), condition


def stalled(scene: Scene, queue: str) -> bool:
    """Whether the broker takes no messages for the queue any more: the router's link there has no credit."""
    with ManagementClient(scene.far.url) as client:
        rows = client.query("router.link", ["linkDir", "linkName", "owningAddr", "creditAvailable"])
    # an autolink's link is known by its address, a routed link by its name
    mine = [row for row in rows if queue in row["linkName"] or queue in str(row["owningAddr"])]
    (credit,) = [row["creditAvailable"] for row in mine if row["linkDir"] == "out"]
    return not credit


@pytest.mark.parametrize("way", WAYS)
def test_a_full_queue_that_stalls_its_senders(scene: Scene, way: str) -> None:
    """They have no credit until there is room; nothing is lost."""
    queue = made(scene, way, overflowPolicy="PRODUCER_FLOW_CONTROL", maximumQueueDepthMessages=DEPTH)
    total = 400
    with Client(scene.near.url) as client:
        sender = client.sender(queue)
        left = [proton.Message(body=number) for number in range(total)]
        sender.wait_credit()
        sent = sender.send_some(left[: 2 * DEPTH])
        wait_until(lambda: stalled(scene, queue), 60.0, "no credit at the broker")

        def used_up() -> bool:
            """Send as far as there is credit, which the broker's last outcomes bring; whether there was none."""
            some = sender.send_some(left[len(sent) :])
            sent.extend(some)
            return not some

        wait_until(used_up, 60.0, "no credit of the router")
        del left[: len(sent)]
        assert left
        receiver = client.receiver(queue, credit=50)
        got: list[Any] = []

        def go_on() -> bool:
            """Send as far as there is credit, which may come when the queue is empty; whether something has arrived."""
            some = sender.send_some(left)
            del left[: len(some)]
            sent.extend(some)
            return not receiver.arrived.empty()

        while len(got) < total:
            wait_until(go_on, 60.0, "a delivery")
            received = receiver.next()
            received.accept()
            receiver.flow(1)
            got.append(received.body)
        assert sorted(got) == list(range(total))
        assert {one.outcome() for one in sent} == {"accepted"}


def test_a_queue_deleted_under_a_routed_link(scene: Scene) -> None:
    queue = made(scene, "routed")
    broker = scene.broker
    assert isinstance(broker, BrokerJ)
    with Client(scene.near.url) as client:
        receiver = client.receiver(queue, credit=1)
        broker.delete("queue", queue)
        error = receiver.wait_detached()
        assert error is not None
        assert error.startswith("amqp:resource-deleted"), error


def test_a_queue_deleted_under_an_autolink(scene: Scene) -> None:
    """The autolink fails and says why; it is active again when the queue is."""
    queue = made(scene, "queue")
    broker = scene.broker
    assert isinstance(broker, BrokerJ)
    broker.delete("queue", queue)
    wait_until(lambda: "failed" in {row["operStatus"] for row in auto_links(scene.far, queue).values()})
    failed = [row for row in auto_links(scene.far, queue).values() if row["operStatus"] == "failed"]
    assert all(row["lastError"] for row in failed)
    broker.create("queue", queue)
    wait_active(scene.far, queue)
    with Client(scene.near.url) as client:
        fill(client, queue, [proton.Message(body="again")])
        assert bodies(client.receiver(queue, credit=1).take(1)) == ["again"]
