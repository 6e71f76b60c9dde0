"""The checks that every broker must pass behind routers, run by `test_…_core.py` of each."""

from __future__ import annotations

import uuid
from typing import Any

import proton
import pytest

from tests.brokers.behind import Scene
from tests.brokers.fixtures import fresh
from tests.brokers.transactions import Transactions
from tests.kit.clients import Client, Received
from tests.kit.waiting import wait_until

MEBIBYTE = 1024 * 1024


def auto_linked(scene: Scene) -> str:
    """A new queue that is reached by autolinks."""
    queue = fresh("queue")
    scene.broker.create_queue(queue)
    scene.auto_link(queue)
    return queue


def auto_linked_as_rabbitmq_names_it(scene: Scene) -> str:
    """A new queue that is reached by autolinks; to RabbitMQ an address is the path of what it names."""
    queue = fresh("queue")
    scene.broker.create_queue(queue)
    scene.auto_link(queue, externalAddress=f"/amq/queue/{queue}")
    return queue


def routed(scene: Scene) -> str:
    """A new queue that is reached by a link route."""
    queue = fresh("routed")
    scene.broker.create_queue(queue)
    return queue


WAYS = {"auto_linked": auto_linked, "routed": routed}


def wait_depth(scene: Scene, queue: str, count: int) -> None:
    """Until the queue has so many messages."""
    wait_until(lambda: scene.broker.depth(queue) == count, 60.0, lambda: f"depth {scene.broker.depth(queue)}")


def check_send_and_receive(scene: Scene, queue: str) -> None:
    """Messages wait in the queue and come back whole and in order."""
    with Client(scene.near.url) as client:
        sender = client.sender(queue)
        sent = [sender.send(full_message(number)) for number in range(20)]
        assert {one.outcome() for one in sent} == {"accepted"}
        wait_depth(scene, queue, 20)
        got = client.receiver(queue, credit=20).take(20)
        for number, received in enumerate(got):
            assert_same(received.message, full_message(number))
        wait_depth(scene, queue, 0)


def full_message(number: int) -> proton.Message:
    """A message in which everything that a client may set is set."""
    return proton.Message(
        body={"number": number, "bytes": b"\x00\xff", "list": [1, "two"]},
        id=uuid.UUID(int=number),
        durable=True,
        priority=7,
        subject="all of it",
        correlation_id=f"c{number}",
        content_type=proton.symbol("text/x-test"),
        reply_to="somewhere",
        group_id="",
        properties={"text": "x", "number": proton.int32(number), "yes": True},
        annotations={proton.symbol("x-opt-of-client"): "kept", proton.symbol("x-opt-number"): number},
    )


def assert_same(message: proton.Message, wanted: proton.Message) -> None:
    """A broker may add annotations and a time; what the client said stays."""
    for name in ("body", "id", "durable", "priority", "subject", "correlation_id", "content_type", "properties"):
        assert getattr(message, name) == getattr(wanted, name), name
    annotations: dict[Any, Any] = wanted.annotations or {}
    assert {key: value for key, value in (message.annotations or {}).items() if key in annotations} == annotations


def check_large(scene: Scene, queue: str) -> None:
    """A message of 1 MiB."""
    body = bytes(range(256)) * (MEBIBYTE // 256)
    with Client(scene.near.url) as client:
        assert client.sender(queue).send(body).outcome() == "accepted"
        (received,) = client.receiver(queue, credit=1).take(1)
        assert received.body == body
        wait_depth(scene, queue, 0)


def check_outcomes(scene: Scene, queue: str) -> None:
    """What is released or modified comes again, with the right delivery count."""
    with Client(scene.near.url) as client:
        client.sender(queue).send(proton.Message(body="again", durable=True)).outcome()
        receiver = client.receiver(queue, credit=1)
        counts = []
        for settle in (Received.release, Received.modify, Received.modify, Received.accept):
            received = receiver.next()
            counts.append(received.message.delivery_count)
            settle(received)
            receiver.flow(1)
        assert counts == [0, 0, 1, 2]
        wait_depth(scene, queue, 0)


def lose_a_receiver(scene: Scene, client: Client, queue: str) -> None:
    """Ten messages for the queue; a receiver goes without a word while it has five of them."""
    sender = client.sender(queue)
    sent = [sender.send(proton.Message(body=number, durable=True)) for number in range(10)]
    assert {one.outcome() for one in sent} == {"accepted"}
    loser = Client(scene.near.url)
    taken = loser.receiver(queue, credit=5).take(5, accept=False)
    assert [received.body for received in taken] == list(range(5))
    loser.abort()


def check_losses(scene: Scene, queue: str) -> None:
    """A receiver that goes without a word loses nothing for the next one."""
    with Client(scene.near.url) as client:
        lose_a_receiver(scene, client, queue)
        found = client.receiver(queue, credit=10).take(10)
        assert sorted(received.body for received in found) == list(range(10))
        wait_depth(scene, queue, 0)


def check_drain(scene: Scene, queue: str) -> None:
    """A receiver that drains a routed link is told when the queue is empty."""
    with Client(scene.near.url) as client:
        client.sender(queue).send("only one").outcome()
        receiver = client.receiver(queue)
        receiver.drain(10)
        assert receiver.arrived.qsize() == 1
        assert receiver.credit == 0
        receiver.next().accept()
        receiver.drain(10)
        assert receiver.arrived.empty()
        wait_depth(scene, queue, 0)


def check_unknown_queue(scene: Scene) -> None:
    """The broker's own error."""
    with Client(scene.near.url) as client:
        error = client.receiver(fresh("routed.unknown")).wait_detached()
        assert error is not None
        assert error.startswith("amqp:not-found"), error


def check_commit(scene: Scene, queue: str) -> None:
    """Nothing is seen before the commit, everything after it: sends and accepts."""
    with Client(scene.near.url) as client:
        transactions = Transactions(client)
        sender = client.sender(queue)
        assert transactions.declare() == "declared"
        for number in range(5):
            transactions.send(sender, proton.Message(body=number, durable=True))
        receiver = client.receiver(queue, credit=5)
        receiver.drain()
        assert receiver.arrived.empty()
        assert transactions.commit() == "committed"
        wait_depth(scene, queue, 5)
        receiver.flow(5)
        assert transactions.declare() == "declared"
        for received in receiver.take(5, accept=False):
            transactions.accept(received)
        assert transactions.commit() == "committed"
        wait_depth(scene, queue, 0)


def check_abort(scene: Scene, queue: str) -> None:
    """Nothing of what was done is there: what was sent is gone, what was accepted comes again."""
    with Client(scene.near.url) as client:
        transactions = Transactions(client)
        sender = client.sender(queue)
        sender.send(proton.Message(body="kept", durable=True)).outcome()
        receiver = client.receiver(queue, credit=1)
        assert transactions.declare() == "declared"
        transactions.send(sender, proton.Message(body="undone", durable=True))
        transactions.accept(receiver.next())
        assert transactions.abort() == "aborted"
        receiver.flow(2)
        again = receiver.next()
        assert again.body == "kept"
        again.accept()
        wait_depth(scene, queue, 0)


def check_two_transactions(scene: Scene, queue: str) -> None:
    """Two clients whose links have equal names, each with a transaction at the same time."""
    with Client(scene.near.url) as one, Client(scene.near.url) as other:
        first, second = Transactions(one), Transactions(other)
        senders = [client.sender(queue, name="same") for client in (one, other)]
        assert first.declare() == second.declare() == "declared"
        first.send(senders[0], proton.Message(body="first", durable=True))
        second.send(senders[1], proton.Message(body="second", durable=True))
        assert first.abort() == "aborted"
        assert second.commit() == "committed"
        (received,) = one.receiver(queue, credit=1).take(1)
        assert received.body == "second"
        wait_depth(scene, queue, 0)


class CoreSet:
    """The tests; who takes them over has a fixture `scene`."""

    @pytest.mark.parametrize("way", WAYS)
    def test_send_and_receive(self, scene: Scene, way: str) -> None:
        check_send_and_receive(scene, WAYS[way](scene))

    @pytest.mark.parametrize("way", WAYS)
    def test_large(self, scene: Scene, way: str) -> None:
        check_large(scene, WAYS[way](scene))

    @pytest.mark.parametrize("way", WAYS)
    def test_outcomes(self, scene: Scene, way: str) -> None:
        check_outcomes(scene, WAYS[way](scene))

    @pytest.mark.parametrize("way", WAYS)
    def test_receiver_lost(self, scene: Scene, way: str) -> None:
        check_losses(scene, WAYS[way](scene))

    def test_drain(self, scene: Scene) -> None:
        check_drain(scene, routed(scene))

    def test_unknown_queue(self, scene: Scene) -> None:
        check_unknown_queue(scene)

    def test_transaction_commits(self, scene: Scene) -> None:
        check_commit(scene, routed(scene))

    def test_transaction_aborts(self, scene: Scene) -> None:
        check_abort(scene, routed(scene))

    def test_two_clients_with_equal_link_names(self, scene: Scene) -> None:
        check_two_transactions(scene, routed(scene))
