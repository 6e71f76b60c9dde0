"""What an autolink asks of a broker's queue, with real brokers: selectors, browsing, properties and queue types."""

from __future__ import annotations

from typing import Any

import proton
import pytest

from tests.brokers.artemis import Artemis
from tests.brokers.behind import CONNECTOR, Scene, auto_links
from tests.brokers.broker_j import BrokerJ
from tests.brokers.fixtures import fresh
from tests.brokers.process import PASSWORD, USER, BrokerProcess
from tests.interop_brokers.conftest import Scenes
from tests.interop_brokers.core_checks import wait_depth
from tests.kit.clients import Client
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.brokers, pytest.mark.engine_independent]


@pytest.fixture(params=["brokerj", "artemis"])
def scene(request: pytest.FixtureRequest, scenes: Scenes) -> Scene:
    broker: BrokerProcess = request.getfixturevalue(request.param)
    return scenes.get(request, broker, 1, "compiled")


@pytest.fixture
def brokerj_scene(request: pytest.FixtureRequest, scenes: Scenes, brokerj: BrokerJ) -> Scene:
    return scenes.get(request, brokerj, 1, "compiled")


def made(scene: Scene, **attributes: object) -> str:
    """A queue of the broker, with an autolink that fills it."""
    name = fresh("queue")
    if isinstance(scene.broker, BrokerJ):
        scene.broker.create("queue", name, **attributes)
    else:
        assert isinstance(scene.broker, Artemis)
        scene.broker.create_queue(name, **attributes)
    scene.auto_link(name, "out")
    return name


def fill(client: Client, queue: str, colours: list[str]) -> None:
    """Number the colours; all are accepted."""
    sender = client.sender(queue)
    messages = [proton.Message(body=n, properties={"colour": colour}) for n, colour in enumerate(colours)]
    assert {sent.outcome() for sent in sender.send_all(messages)} == {"accepted"}


def bodies(client: Client, queue: str, count: int) -> list[object]:
    return [received.body for received in client.receiver(queue, credit=count).take(count)]


def test_a_selector_takes_what_it_selects_and_leaves_the_rest(scene: Scene) -> None:
    queue = made(scene)
    with Client(scene.near.url) as client:
        fill(client, queue, ["red", "blue", "red"])
        wait_depth(scene, queue, 3)
        scene.auto_link(queue, "in", selector="colour = 'red'", capabilities="queue", linkProperties={"priority": 3})
        assert bodies(client, queue, 2) == [0, 2]
        wait_depth(scene, queue, 1)


def failed(scene: Scene, queue: str, **attributes: object) -> str:
    """Create the autolink `QUEUE.failed`; it fails. Its error, told together with that."""
    name = f"{queue}.failed"
    with ManagementClient(scene.far.url) as client:
        asked = {"address": queue, "direction": "in", "connection": CONNECTOR, **attributes}
        client.create("autoLink", asked, name=name)

    def error() -> str:
        row = auto_links(scene.far, queue)[name]
        return str(row["lastError"] or "") if row["operStatus"] == "failed" else ""

    return wait_until(error, 60.0, lambda: str(auto_links(scene.far, queue)))


def test_a_wrong_selector_is_the_error_of_the_autolink(scene: Scene) -> None:
    queue = made(scene)
    assert failed(scene, queue, selector="colour = = 'red'")


def test_browsing_copies_messages_and_leaves_them_in_the_queue(scene: Scene) -> None:
    queue = made(scene)
    with Client(scene.near.url) as client:
        fill(client, queue, ["red", "blue", "red"])
        wait_depth(scene, queue, 3)
        scene.auto_link(queue, "in", distributionMode="copy", selector="colour = 'red'")
        assert bodies(client, queue, 2) == [0, 2]
        wait_depth(scene, queue, 3)


def test_a_moving_link_takes_messages(scene: Scene) -> None:
    queue = made(scene)
    with Client(scene.near.url) as client:
        fill(client, queue, ["red"])
        scene.auto_link(queue, "in", distributionMode="move")
        assert bodies(client, queue, 1) == [0]
        wait_depth(scene, queue, 0)


def test_a_link_without_local_messages_leaves_those_of_its_own_connection(brokerj_scene: Scene) -> None:
    queue = made(brokerj_scene)
    url = f"amqp://127.0.0.1:{brokerj_scene.broker.port}"
    with (
        Client(brokerj_scene.near.url) as client,
        Client(url, user=USER, password=PASSWORD, allowed_mechs="PLAIN") as other,
    ):
        fill(client, queue, ["red"])
        wait_depth(brokerj_scene, queue, 1)
        other.sender(queue).send("by another connection").outcome()
        brokerj_scene.auto_link(queue, "in", noLocal=True)
        assert bodies(client, queue, 1) == ["by another connection"]
        wait_depth(brokerj_scene, queue, 1)


def test_what_a_broker_does_not_apply_is_an_error_and_no_message_is_taken(
    request: pytest.FixtureRequest, scenes: Scenes, artemis: Artemis
) -> None:
    """Artemis knows no-local for topics only."""
    scene = scenes.get(request, artemis, 1, "compiled")
    queue = made(scene)
    assert failed(scene, queue, noLocal=True) == "the container does not apply noLocal"


def test_a_priority_queue_hands_an_autolink_the_highest_first(brokerj_scene: Scene) -> None:
    queue = made(brokerj_scene, type="priority", priorities=10)
    with Client(brokerj_scene.near.url) as client:
        sender = client.sender(queue)
        sent = sender.send_all([proton.Message(body=priority, priority=priority) for priority in (1, 9, 5)])
        assert {one.outcome() for one in sent} == {"accepted"}
        wait_depth(brokerj_scene, queue, 3)
        brokerj_scene.auto_link(queue, "in")
        assert bodies(client, queue, 3) == [9, 5, 1]


def test_a_browsed_last_value_queue_shows_the_last_values(brokerj_scene: Scene) -> None:
    queue = made(brokerj_scene, type="lvq", lvqKey="colour")
    with Client(brokerj_scene.near.url) as client:
        fill(client, queue, ["red", "blue", "red"])
        wait_depth(brokerj_scene, queue, 2)
        brokerj_scene.auto_link(queue, "in", distributionMode="copy")
        assert sorted(bodies(client, queue, 2), key=str) == [1, 2]
        wait_depth(brokerj_scene, queue, 2)


def test_a_non_destructive_queue_keeps_what_an_autolink_takes(brokerj_scene: Scene) -> None:
    queue = made(brokerj_scene, ensureNondestructiveConsumers=True)
    with Client(brokerj_scene.near.url) as client:
        fill(client, queue, ["red", "blue"])
        wait_depth(brokerj_scene, queue, 2)
        brokerj_scene.auto_link(queue, "in")
        assert bodies(client, queue, 2) == [0, 1]
        wait_depth(brokerj_scene, queue, 2)


def ring(scene: Scene) -> str:
    """A queue that keeps the youngest three messages."""
    if isinstance(scene.broker, BrokerJ):
        return made(scene, overflowPolicy="RING", maximumQueueDepthMessages=3)
    return made(scene, ring_size=3)


@pytest.mark.parametrize(("mode", "left"), [("move", 0), ("copy", 3)])
def test_a_ring_queue_hands_an_autolink_the_youngest_messages(scene: Scene, mode: str, left: int) -> None:
    queue = ring(scene)
    with Client(scene.near.url) as client:
        fill(client, queue, ["red", "blue", "red", "blue", "red"])
        wait_depth(scene, queue, 3)
        scene.auto_link(queue, "in", distributionMode=mode)
        assert bodies(client, queue, 3) == [2, 3, 4]
        wait_depth(scene, queue, left)


def test_a_ring_queue_with_a_selector_keeps_what_is_not_selected(scene: Scene) -> None:
    queue = ring(scene)
    with Client(scene.near.url) as client:
        fill(client, queue, ["red", "blue", "red", "blue", "red"])
        wait_depth(scene, queue, 3)
        scene.auto_link(queue, "in", selector="colour = 'red'")
        assert bodies(client, queue, 2) == [2, 4]
        wait_depth(scene, queue, 1)


def test_a_group_of_a_queue_stays_with_one_of_two_autolinks(scene: Scene) -> None:
    grouped = {"messageGroupType": "STANDARD"} if isinstance(scene.broker, BrokerJ) else {}
    queue = made(scene, **grouped)
    ways = [f"{queue}/left", f"{queue}/right"]
    for way in ways:
        scene.auto_link(way, "in", externalAddress=queue, linkProperties={"priority": 1})
    with Client(scene.near.url) as client:
        receivers = [client.receiver(way, credit=100) for way in ways]
        sender = client.sender(queue)
        sent = sender.send_all([proton.Message(body=n, group_id="abcd"[n % 4]) for n in range(20)])
        assert {one.outcome() for one in sent} == {"accepted"}
        wait_until(lambda: sum(receiver.arrived.qsize() for receiver in receivers) == 20, 60.0)
        seen = [[received.message for received in r.take(r.arrived.qsize())] for r in receivers]
        groups = [{message.group_id for message in messages} for messages in seen]
        assert groups[0] | groups[1] == set("abcd")
        assert not groups[0] & groups[1]
        for messages in seen:
            bodies: list[Any] = [message.body for message in messages]
            assert bodies == sorted(bodies)
