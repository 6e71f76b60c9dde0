"""Links that end with thousands of deliveries: each gets one outcome, whatever comes between the portions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.unit.core.many_deliveries import MANY, Scene
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition
from waymesh_amqp.types import decode
from waymesh_router.core.model import RouterLink
from waymesh_router.core.settlement.outcomes import MODIFIED_FAILED
from waymesh_router.core.telemetry_hooks import TelemetryHooks

FAILED = decode(MODIFIED_FAILED)[0]


@pytest.mark.parametrize("lost", ["connection", "link", "session"])
def test_a_lost_consumer(lost: str) -> None:
    scene = Scene()
    if lost == "connection":
        scene.consumer.kill()
    else:
        scene.consumer.send(frames.detach() if lost == "link" else frames.end())
    scene.look()
    assert 0 < len(scene.outcomes) < MANY, "some now, the others in portions"
    assert scene.finish() == {repr(FAILED): MANY}


def test_a_consumer_that_settles_after_its_detach() -> None:
    scene = Scene()
    scene.consumer.send(frames.detach())
    scene.consumer.send(frames.disposition(0, last=MANY - 1))
    scene.look()
    found = scene.finish()
    assert set(found) == {repr(FAILED), repr(ACCEPTED)}
    producer = next(link for link in scene.core.links.values() if not link.is_sender)
    assert producer.outstanding == 0, "its credit is returned once for each delivery"


def test_a_producer_that_leaves_between_the_portions() -> None:
    scene = Scene()
    scene.consumer.send(frames.detach())
    scene.producer.kill()
    while scene.core.context.portions:
        scene.portion()
    assert scene.rings() == (0, 0)


def test_a_producer_that_settles_between_the_portions() -> None:
    scene = Scene()
    scene.consumer.send(frames.detach())
    scene.look()
    scene.producer.send(frames.disposition(0, role=frames.SENDER, last=MANY - 1, state=None))
    while scene.core.context.portions:
        scene.portion()
    assert scene.rings() == (0, 0)
    assert len(scene.outcomes) < MANY


@pytest.mark.parametrize("lost", ["connection", "link"])
def test_a_lost_producer(lost: str) -> None:
    """Its deliveries go on without it: the consumer's outcomes are for nobody, and no frame is sent on its link."""
    scene = Scene()
    if lost == "connection":
        scene.producer.kill()
    else:
        scene.producer.send(frames.detach())
    scene.look()
    scene.consumer.send(frames.disposition(0, last=MANY - 1))
    scene.look()
    while scene.core.context.portions:
        scene.portion()
    assert scene.outcomes == {}
    assert scene.rings() == (0, 0)


def test_the_delivery_that_still_arrives_ends_at_once() -> None:
    """Its sender's credit is returned once, after its last frame."""
    scene = Scene()
    link: Any = next(link for link in scene.core.links.values() if not link.is_sender)
    scene.producer.send(frames.transfer(MANY, more=True))
    scene.consumer.send(frames.detach())
    scene.look()
    assert scene.outcomes.pop(MANY) == [RELEASED]
    scene.producer.send(frames.transfer(None, more=False))
    assert scene.finish() == {repr(FAILED): MANY}
    assert link.outstanding == 0


def test_copies_that_wait_for_a_lost_consumer() -> None:
    scene = Scene()
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    scene.core.address_table.add_pattern({"prefix": "c", "pattern": None, "distribution": "multicast", **phases})
    slow, sender = scene.peer(), scene.peer()
    slow.send(frames.attach_receiver(address="c"))
    sender.send(frames.attach_sender(address="c"))
    for number in range(MANY):
        sender.end.feed(frames.transfer(number))
        if number % 100 == 0:
            sender.take()
    slow.kill()
    told = [d for d in sender.take() if isinstance(d, Disposition)]
    assert told
    while scene.core.context.portions:
        scene.core.context.portions.run()
    told += [d for d in sender.take() if isinstance(d, Disposition)]
    assert all(d.state == RELEASED for d in told)
    assert sum((d.first if d.last is None else d.last) - d.first + 1 for d in told) == MANY
    assert scene.core.budget.kept == 0


class Reports(TelemetryHooks):
    """Notes the counts of each link whose end is reported."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, int, int, int]] = []

    def link_detached(self, link: RouterLink) -> None:
        self.ended.append((link.name, link.accepted, link.modified, link.unsettled))


@pytest.mark.parametrize("way", ["killed", "detached", "settled meanwhile"])
def test_a_link_is_reported_with_all_its_outcomes(way: str) -> None:
    scene = Scene()
    scene.core.context.telemetry = reports = Reports()
    if way == "killed":
        scene.consumer.kill()
    else:
        scene.consumer.send(frames.detach())
    assert "q" not in [name for name, *_ in reports.ended], "some deliveries have not ended"
    if way == "settled meanwhile":
        scene.consumer.send(frames.disposition(0, last=MANY - 1))
    scene.finish()
    [(_, accepted, failed, unsettled)] = [row for row in reports.ended if row[0] == "q"]
    assert (accepted + failed, unsettled) == (MANY, 0)
    assert bool(accepted) == (way == "settled meanwhile")


def test_a_second_link_that_ends_meanwhile_is_reported_too() -> None:
    scene = Scene()
    scene.core.context.telemetry = reports = Reports()
    sender = scene.peer()
    sender.send(frames.attach_sender(address="other"))
    for number in range(MANY):
        sender.end.feed(frames.transfer(number))
        if number % 100 == 0:
            sender.take()
    scene.consumer.send(frames.detach())
    scene.consumer.send(frames.detach(1))
    while scene.core.context.portions:
        scene.portion()
    assert sorted(reports.ended) == [("other", 0, MANY, 0), ("q", 0, MANY, 0)]


def test_a_producer_without_deliveries_left_is_reported_at_once() -> None:
    scene = Scene()
    scene.core.context.telemetry = reports = Reports()
    scene.consumer.send(frames.disposition(0, last=MANY - 1))
    scene.producer.send(frames.detach())
    assert [name for name, *_ in reports.ended] == ["out"]
