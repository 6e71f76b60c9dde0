"""Reports about links on which nothing goes on, by rounds over a core in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.unit.core.edge_peer import UP, EdgePeer
from waymesh_amqp.message import Message
from waymesh_router.core.link_health import EVERY_S, LinkHealth
from waymesh_router.core.link_kinds import BALANCED
from waymesh_router.core.model import RouterLink
from waymesh_router.core.stalled_links import PERIOD_S
from waymesh_router.core.telemetry_hooks import TelemetryHooks

AFTER_S = 5.0


class Reports(TelemetryHooks):
    """What was reported: kind, user's connection, number of deliveries, seconds."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, int, float]] = []

    def deliveries_stuck(self, link: RouterLink, count: int, oldest_s: float) -> None:
        self.found.append(("stuck", link.connection.id, count, oldest_s))

    def link_blocked(self, link: RouterLink, waiting: int, for_s: float) -> None:
        self.found.append(("blocked", link.connection.id, waiting, for_s))

    def take(self) -> list[tuple[str, int, int, float]]:
        found, self.found = self.found, []
        return found


class Scene:
    """A router whose links are examined once a second."""

    def __init__(self, after_s: float = AFTER_S) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.reports = self.core.context.telemetry = Reports()
        self.health = LinkHealth(self.core)
        self.health.stalled.after_s = after_s
        self.now = 100.0

    def consumer(self, credit: int = 10, address: str = "q") -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(frames.attach_receiver(address=address), *([frames.credit(credit)] if credit else []))
        return peer

    def producer(self, address: str = "q") -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(frames.attach_sender(address=address))
        return peer

    def rounds(self, count: float) -> list[tuple[str, int, int, float]]:
        for _ in range(int(count)):
            self.now += EVERY_S
            assert self.health.tick(self.now) == self.now + EVERY_S, "the round is complete"
        return self.reports.take()


def test_stuck_deliveries_of_a_link_are_reported_together() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(), scene.producer()
    producer.send(frames.transfer(0))
    scene.rounds(2)
    producer.send(frames.transfer(1), frames.transfer(2))
    assert scene.rounds(AFTER_S - 1) == [], "five seconds since the first one was seen"
    assert scene.rounds(1) == [("stuck", consumer.conn.id, 1, AFTER_S + 1)]
    assert scene.rounds(PERIOD_S - 1) == []
    assert scene.rounds(1) == [("stuck", consumer.conn.id, 3, AFTER_S + 1 + PERIOD_S)]


def test_settled_deliveries_are_not_stuck() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(), scene.producer()
    for number in range(20):
        producer.send(frames.transfer(number))
        assert scene.rounds(3) == []
        consumer.send(frames.disposition(number), frames.credit(10, number + 1))


def test_a_delivery_that_still_arrives_is_not_stuck() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(), scene.producer()
    producer.send(frames.transfer(0, more=True))
    assert scene.rounds(2 * AFTER_S) == []
    producer.send(frames.transfer(0))
    assert scene.rounds(1) == [("stuck", consumer.conn.id, 1, 2 * AFTER_S)]


def test_a_consumer_without_credit_blocks_only_if_something_waits() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(credit=0), scene.producer()
    assert scene.rounds(3 * AFTER_S) == []
    producer.send(frames.transfer(0), frames.transfer(1, settled=True))
    assert scene.rounds(AFTER_S + 1) == []
    assert scene.rounds(1) == [("blocked", consumer.conn.id, 2, AFTER_S + 1)]
    assert scene.rounds(PERIOD_S - 1) == []
    assert [kind for kind, *_ in scene.rounds(1)] == ["blocked"]


def test_each_consumer_that_could_take_a_waiting_delivery_is_reported() -> None:
    scene = Scene()
    consumers = [scene.consumer(credit=0) for _ in range(3)]
    scene.consumer(credit=0, address="other")
    scene.producer().send(frames.transfer(0))
    found = scene.rounds(AFTER_S + 2)
    assert sorted(one for _, one, *_ in found) == [peer.conn.id for peer in consumers]


def test_credit_without_a_session_window_is_of_no_use() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(credit=10), scene.producer()
    consumer.send(frames.flow(incoming_window=0, next_incoming_id=0))
    producer.send(frames.transfer(0))
    assert scene.rounds(AFTER_S + 2) == [("blocked", consumer.conn.id, 1, AFTER_S + 1)]


def test_a_consumer_that_takes_a_delivery_now_and_then_is_slow_and_not_blocked() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(credit=0), scene.producer()
    producer.send(*(frames.transfer(number, settled=True) for number in range(20)))
    for number in range(15):
        assert scene.rounds(AFTER_S - 1) == []
        consumer.send(frames.credit(1, number))


def test_copies_that_wait_for_a_consumer() -> None:
    scene = Scene()
    phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
    scene.core.address_table.add_pattern({"prefix": "copies", "pattern": None, "distribution": "multicast", **phases})
    scene.consumer(10, "copies/a")
    slow = scene.consumer(0, "copies/a")
    scene.producer("copies/a").send(frames.transfer(0, settled=True))
    assert scene.rounds(AFTER_S + 2) == [("blocked", slow.conn.id, 1, AFTER_S + 1)]


@pytest.mark.parametrize("act", [lambda scene: None, lambda scene: scene.producer().send(frames.transfer(0))])
def test_zero_seconds_switch_it_off(act: Callable[[Scene], object]) -> None:
    scene = Scene(after_s=0.0)
    scene.consumer(credit=1)
    scene.producer().send(frames.transfer(0), frames.transfer(1))
    act(scene)
    assert scene.rounds(100) == []


def test_what_has_ended_is_forgotten() -> None:
    scene = Scene()
    consumer = scene.consumer(credit=1)
    scene.producer().send(frames.transfer(0), frames.transfer(1))
    assert [kind for kind, *_ in scene.rounds(AFTER_S + 2)] == ["blocked", "stuck"]
    consumer.kill()
    scene.rounds(2)
    assert scene.health.stalled._links == {}


def test_another_router_that_issues_no_credit() -> None:
    scene = Scene()
    peer = neighbour(scene.hub, "B", credit=0)
    for address in "ab":
        scene.core.remote_routers.add_consumers("B", f"M0{address}", BALANCED)
        scene.producer(address).send(frames.transfer(0), frames.transfer(1))
    found = scene.rounds(AFTER_S + 2)
    assert {one for _, one, *_ in found} == {peer.conn.id}
    assert found[0] == ("blocked", peer.conn.id, 4, AFTER_S + 1)


def test_what_came_from_an_edge_router_does_not_wait_for_its_consumers() -> None:
    scene = Scene()
    edge = EdgePeer(scene.hub, "E")
    edge.receiver("q", credit=0)
    edge.send(UP, Message(to="q", body="x"), settled=False)
    assert scene.rounds(AFTER_S + 2) == []
    scene.producer().send(frames.transfer(0))
    assert scene.rounds(AFTER_S + 2) == [("blocked", edge.peer.conn.id, 1, AFTER_S + 1)]


def test_a_message_of_which_a_consumer_takes_only_the_first_frames() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(), scene.producer()
    consumer.send(frames.flow(incoming_window=1))
    producer.send(frames.transfer(0, more=True, settled=True))
    producer.send(*(frames.transfer(None, b"x" * 100, more=True) for _ in range(3)))
    assert scene.rounds(AFTER_S + 2) == [("blocked", consumer.conn.id, 1, AFTER_S + 1)]
    consumer.send(frames.flow(next_incoming_id=1, incoming_window=100))
    assert scene.rounds(2 * PERIOD_S) == [], "its sender is slow"
