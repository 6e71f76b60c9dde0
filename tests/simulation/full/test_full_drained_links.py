"""Drain of links through one to three routers: the credit is used up at both ends. Spec: 2.6.7."""

from __future__ import annotations

from collections import deque

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import PartyLink
from tests.simulation.full.routes import Scene

LINES = pytest.mark.parametrize("names", ["A", "AB", "ABC"])
WAITING = pytest.mark.parametrize("waiting", [0, 3, 10], ids=["nothing", "fewer than credit", "as many as credit"])
CREDIT = 10


def drained(scene: Scene, receiver: PartyLink, credit: int) -> int:
    """Have the client give credit and drain at once. How many deliveries came."""
    before, count = len(receiver.got), receiver.link.delivery_count
    receiver.link.capacity = credit + receiver.link.outstanding
    receiver.link.grant()
    scene.session.connection.flush()
    receiver.link.withdraw()
    scene.client.wake()
    scene.until(lambda: receiver.link.credit == 0)
    scene.network.run(0.5)
    assert receiver.link.credit == 0
    assert receiver.link.delivery_count == (count + credit) & 0xFFFFFFFF, "all credit counts as used"
    return len(receiver.got) - before


@LINES
@WAITING
def test_a_receiver_of_a_link_route(names: str, waiting: int) -> None:
    scene = Scene(names)
    scene.broker.queues["b2.queue"] = deque([message()] * waiting)
    receiver = scene.receiver(credit=0)
    (there,) = scene.broker.of("b2.queue")
    assert drained(scene, receiver, CREDIT) == waiting
    assert there.link.credit == 0
    assert there.link.delivery_count == receiver.link.delivery_count
    scene.broker.queues["b2.queue"] = deque([message()])
    scene.broker.pump()
    scene.network.run(0.5)
    assert len(receiver.got) == waiting, "nothing comes without new credit"
    assert drained(scene, receiver, 1) == 1


@LINES
@WAITING
def test_a_receiver_of_a_message_route(names: str, waiting: int) -> None:
    scene = Scene(names)
    receiver = scene.receiver("orders", credit=0)
    producer, session = scene.connect("producer", scene.last)
    sender = producer.sender(session, "orders")
    scene.until(lambda: sender.link.credit > waiting)
    for _ in range(waiting):
        producer.send(sender, message())
    scene.network.run(0.5)
    assert not receiver.got
    assert drained(scene, receiver, CREDIT) == waiting
    producer.send(sender, message())
    scene.network.run(0.5)
    assert len(receiver.got) == waiting, "nothing comes without new credit"
    assert drained(scene, receiver, 5) == 1
    for got in receiver.got:
        scene.client.settle(got)
    scene.until(lambda: len(sender.outcomes) == waiting + 1)


@LINES
@pytest.mark.parametrize("sent", [0, 3])
def test_a_sender_of_a_link_route(names: str, sent: int) -> None:
    """The broker drains the client's sender, which has fewer messages than credit."""
    scene = Scene(names)
    scene.broker.credit = CREDIT
    sender = scene.sender()
    scene.until(lambda: sender.link.credit == CREDIT)
    (there,) = scene.broker.of("b2.queue")
    for _ in range(sent):
        scene.client.send(sender, message(), settled=True)
    there.link.capacity = 0
    there.link.withdraw()
    scene.broker.wake()
    scene.until(lambda: bool(sender.link.drain))
    sender.link.finish_drain()
    scene.client.wake()
    scene.until(lambda: there.link.credit == 0)
    scene.network.run(0.5)
    assert sender.link.credit == 0
    assert there.link.delivery_count == sender.link.delivery_count
    assert len(there.got) == sent
    there.link.capacity = 2
    there.link.grant()
    scene.broker.wake()
    scene.until(lambda: sender.link.credit == 2)


@LINES
def test_a_sender_of_a_message_route_when_its_last_receiver_goes(names: str) -> None:
    scene = Scene(names)
    consumer, session = scene.connect("consumer", scene.last)
    receiver = consumer.receiver(session, "orders", CREDIT)
    sender = scene.sender("orders")
    receiver.link.detach()
    consumer.wake()
    scene.until(lambda: bool(sender.link.drain))
    sender.link.finish_drain()
    scene.client.wake()
    scene.network.run(0.5)
    assert sender.link.credit == 0
    consumer.receiver(session, "orders", CREDIT, name="again")
    scene.until(lambda: sender.link.credit > 0)
