"""The no-local filter behind routers that are one client to the container."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.frames import message
from tests.simulation.full.containers import ACCEPTED, Party, PartyLink
from tests.simulation.full.routes import Scene
from waymesh_amqp.codec_values import Described
from waymesh_amqp.message import decode_message
from waymesh_amqp.performatives import Terminus
from waymesh_amqp.types import Symbol, ULong, encode
from waymesh_router.core.link_routing import no_local as filters

NO_LOCAL = {Symbol("no-local"): Described(ULong(0x0000_468C_0000_0003), "NoLocalFilter{}")}
SELECTOR = {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
LARGE = 40_000


@pytest.fixture(params=["A", "AB"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def no_local(scene: Scene, credit: int) -> PartyLink:
    source = Terminus("source", address="b2.queue", filter={**NO_LOCAL, **SELECTOR})
    return scene.receiver(credit=credit, source=source)


def others(scene: Scene) -> tuple[Party, PartyLink]:
    client, session = scene.connect("other")
    link = client.sender(session, "b2.queue")
    scene.until(lambda: link.link.credit > 0)
    return client, link


def test_the_filter_is_the_routers_and_the_answer_says_that_it_is_in_effect(scene: Scene) -> None:
    receiver = no_local(scene, 1)
    (seen,) = scene.broker.of("b2.queue")
    assert seen.attach is not None
    assert seen.attach.source is not None
    assert seen.attach.source.filter == SELECTOR
    assert receiver.attach is not None
    assert receiver.attach.source is not None
    assert receiver.attach.source.filter == {**NO_LOCAL, **SELECTOR}


@pytest.mark.parametrize("own_link_first", [True, False])
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("size", [1, LARGE])
def test_own_messages_are_kept_back_and_take_no_credit(
    scene: Scene, own_link_first: bool, settled: bool, size: int
) -> None:
    if own_link_first:
        sender = scene.sender()
    receiver = no_local(scene, 2)
    if not own_link_first:
        sender = scene.sender()
    client, other = others(scene)
    for number in range(5):
        scene.client.send(sender, message(b"%d" % number * size), settled)
    scene.until(lambda: scene.broker.states == [ACCEPTED] * 5)
    client.send(other, message(b"x" * size), settled)
    scene.until(lambda: len(receiver.got) == 1)
    assert receiver.got[0].data == message(b"x" * size)
    assert sender.outcomes == ([] if settled else [(True, ACCEPTED)] * 5)
    assert receiver.link.credit == 1


def test_a_drain_ends_behind_own_messages(scene: Scene) -> None:
    receiver = no_local(scene, 3)
    scene.client.send(scene.sender(), message(b"own"))
    scene.until(lambda: scene.broker.states == [ACCEPTED])
    receiver.link.withdraw()
    scene.client.wake()
    scene.until(lambda: receiver.link.credit == 0)
    assert receiver.got == []


def test_whoever_wants_them_gets_own_messages_with_their_annotations(scene: Scene) -> None:
    annotations: dict[Any, Any] = {Symbol("x-opt-jms-dest"): 0}
    no_local(scene, 1)
    sender = scene.sender("b2.other")
    client, session = scene.connect("other")
    receiver = client.receiver(session, "b2.other", credit=1)
    scene.client.send(sender, b"\x00\x53\x72" + encode(annotations) + message(b"own"))
    scene.until(lambda: len(receiver.got) == 1)
    data = receiver.got[0].data
    assert data.endswith(message(b"own"))
    assert decode_message(data).message_annotations == {**annotations, filters.CLIENT: "client"}


def test_clients_that_want_everything_send_what_they_send(scene: Scene) -> None:
    scene.receiver()
    sender = scene.sender("b2.other")
    client, session = scene.connect("other")
    receiver = client.receiver(session, "b2.other", credit=1)
    scene.client.send(sender, message(b"own"))
    scene.until(lambda: len(receiver.got) == 1)
    assert receiver.got[0].data == message(b"own")


HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
ANNOTATIONS = b"\x00\x53\x72" + encode({Symbol("x-opt-a"): 1})


@pytest.mark.parametrize("before", [b"", HEADER, ANNOTATIONS, HEADER + ANNOTATIONS])
def test_a_mark_stands_behind_the_clients_annotations(before: bytes) -> None:
    data = filters.marked(before + message(b"x"), False, "c1")
    assert data.startswith(HEADER if before.startswith(HEADER) else b"\x00\x53\x72")
    assert data.endswith(message(b"x"))
    expected = {Symbol("x-opt-a"): 1, filters.CLIENT: "c1"} if ANNOTATIONS in before else {filters.CLIENT: "c1"}
    assert decode_message(data).message_annotations == expected
    assert filters.is_from(data, "c1")
    assert not filters.is_from(data, "c2")


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (ANNOTATIONS[:-1], True),
        (HEADER, True),
        (b"", True),
        (b"\x00\x53\x72\x45" + message(b"x"), False),
    ],
)
def test_what_cannot_be_marked_stays_what_it_is(data: bytes, more: bool) -> None:
    assert filters.marked(data, more, "c1") == data
    assert not filters.is_from(data, "c1")
