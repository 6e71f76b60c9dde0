"""Anonymous senders to link-routed addresses. Routing chapter "Configuring Link Routing"."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, REJECTED, PartyLink
from tests.simulation.full.routes import BOTH, Scene
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import modified
from waymesh_amqp.types import encode


@pytest.fixture(params=["A", "ABC"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def to(address: str, body: bytes = b"x") -> bytes:
    return encode_message(Message(to=address, body=body, body_kind="data"))


def taken(scene: Scene, address: str) -> list[PartyLink]:
    return scene.broker.of(address, is_sender=False)


def test_messages_go_to_the_queues_that_they_name(scene: Scene) -> None:
    sender = scene.sender(None)
    for number in range(6):
        scene.client.send(sender, to(f"b2.q{number % 2}", b"%d" % number))
    scene.until(lambda: len(sender.outcomes) == 6)
    assert sender.outcomes == [(True, ACCEPTED)] * 6
    for number in (0, 1):
        (link,) = taken(scene, f"b2.q{number}")
        assert [got.data for got in link.got] == [to(f"b2.q{number}", b"%d" % n) for n in range(number, 6, 2)]
    assert not scene.first.core.routed_attaches._made


@pytest.mark.parametrize("state", [REJECTED, encode(modified(True, True, {"x-opt-a": 1}))])
def test_outcomes_come_back_as_they_are(scene: Scene, state: bytes) -> None:
    sender = scene.sender(None)
    scene.broker.outcome = state
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 1)
    assert sender.outcomes == [(True, state)]


def test_a_queue_that_is_not_there_refuses_the_message_with_the_brokers_reason(scene: Scene) -> None:
    scene.broker.refuse["b2.none"] = ("amqp:not-found", "there is no b2.none")
    sender = scene.sender(None)
    scene.client.send(sender, to("b2.none"))
    scene.client.send(sender, to("b2.none"), settled=True)
    scene.until(lambda: len(sender.outcomes) == 1)
    assert b"there is no b2.none" in sender.outcomes[0][1]
    assert sender.outcomes[0][1][2] == 0x25
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 2)
    assert sender.outcomes[1] == (True, ACCEPTED)
    assert "Ab2.none" not in scene.first.core.addresses


def test_without_a_broker_messages_are_released() -> None:
    scene = Scene("A")
    sender = scene.sender(None)
    scene.broker.drop()
    scene.until(lambda: not scene.broker.conns)
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 1)
    assert sender.outcomes[0][1][2] == 0x26


def test_a_broker_that_gives_no_credit_holds_the_sender_back(scene: Scene) -> None:
    scene.broker.credit, scene.broker.outcome = 2, None
    sender = scene.sender(None)
    credit = sender.link.credit
    for _ in range(credit):
        scene.client.send(sender, to("b2.q"))
    scene.until(lambda: bool(taken(scene, "b2.q")) and len(taken(scene, "b2.q")[0].got) == 2)
    scene.network.run(0.5)
    assert sender.link.credit == 0
    (link,) = taken(scene, "b2.q")
    assert len(link.got) == 2
    scene.broker.outcome = ACCEPTED
    for got in list(link.got):
        scene.broker.settle(got)
    scene.until(lambda: len(sender.outcomes) == credit, 5.0)


def test_a_link_that_is_lost_is_made_again(scene: Scene) -> None:
    sender = scene.sender(None)
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 1)
    taken(scene, "b2.q")[0].link.detach("amqp:resource-deleted", "gone")
    scene.broker.wake()
    scene.until(lambda: "Ab2.q" not in scene.first.core.addresses)
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 2)
    assert sender.outcomes[1] == (True, ACCEPTED)


def test_a_large_message_and_a_link_that_is_not_used(scene: Scene) -> None:
    sender = scene.sender(None)
    big = to("b2.q", bytes(range(256)) * 1000)
    scene.client.send(sender, big)
    scene.until(lambda: len(sender.outcomes) == 1, 10.0)
    (link,) = taken(scene, "b2.q")
    assert link.got[0].data == big
    scene.network.run(130.0)
    assert not taken(scene, "b2.q")
    assert "Ab2.q" not in scene.first.core.addresses
    assert not scene.first.core.relays._relays


def test_prefixes_are_taken_off_for_anonymous_senders_too() -> None:
    route = BOTH + "linkRoute {\nprefix: x\ndirection: in\nconnection: broker\ndelExternalPrefix: x.\n}\n"
    scene = Scene("AB", route)
    sender = scene.sender(None)
    scene.client.send(sender, to("x.q"))
    scene.until(lambda: len(sender.outcomes) == 1)
    assert len(taken(scene, "q")) == 1


def test_an_address_that_nobody_routes_is_released() -> None:
    scene = Scene("A", "linkRoute {\nprefix: b2\ndirection: out\nconnection: broker\n}\n")
    sender = scene.sender(None)
    queues: dict[str, Any] = scene.broker.queues
    queues["b2.q"] = deque([message()])
    scene.client.send(sender, to("b2.q"))
    scene.until(lambda: len(sender.outcomes) == 1)
    assert sender.outcomes[0][1][2] == 0x26
