"""Delays of deliveries and links without credit, found by rounds over a core in memory."""

from __future__ import annotations

import gc

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_router.core.link_health import (
    BUDGET,
    EVERY_S,
    PAUSE_S,
    Delays,
    LinkHealth,
    deliveries_of,
    seconds_without_credit,
)
from waymesh_router.core.model import Address, RouterConnection, RouterLink


class Scene:
    """A consumer and a producer of one address, and rounds once a second."""

    def __init__(self, credit: int = 10) -> None:
        self.hub: Hub = core_hub()
        self.consumer = self._client(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
        self.producer = self._client(frames.attach_sender())
        self.health = LinkHealth(core_of(self.hub))
        self.now = 100.0

    def _client(self, *data: bytes) -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(*data)
        return peer

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.now += EVERY_S
            assert self.health.tick(self.now) == self.now + EVERY_S, "the round is complete"

    @property
    def link_in(self) -> RouterLink:
        """Of the producer."""
        return next(link for link in core_of(self.hub).links.values() if not link.is_sender)

    @property
    def link_out(self) -> RouterLink:
        """Of the consumer."""
        return next(link for link in core_of(self.hub).links.values() if link.is_sender)

    def counts(self, delays: Delays) -> tuple[int, int, int]:
        return delays.one_s, delays.ten_s, delays.stuck


@pytest.mark.parametrize(
    ("age_s", "counts"), [(0.5, (0, 0)), (1.0, (1, 0)), (10.0, (1, 0)), (10.1, (0, 1))]
)
def test_delays_are_counted_in_two_classes(age_s: float, counts: tuple[int, int]) -> None:
    delays = Delays()
    delays.settled(age_s)
    assert (delays.one_s, delays.ten_s) == counts


def test_nothing_happens_before_the_next_round_is_due() -> None:
    scene = Scene()
    scene.rounds(1)
    scene.producer.send(frames.transfer(0))
    assert scene.health.tick(scene.now + 0.5) == scene.now + EVERY_S
    assert scene.health.clients == 0


def test_deliveries_without_an_outcome_or_a_consumer_are_those_of_clients() -> None:
    scene = Scene(credit=1)
    scene.producer.send(frames.transfer(0), frames.transfer(1))
    scene.rounds(1)
    assert scene.health.clients == 2
    scene.consumer.send(frames.disposition(0))
    scene.rounds(1)
    assert scene.health.clients == 1


def test_a_slow_outcome_is_counted_at_both_links_and_once_in_the_total() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.rounds(4)
    scene.consumer.send(frames.disposition(0))
    scene.rounds(1)
    for delays in (scene.health.of(scene.link_in), scene.health.of(scene.link_out), scene.health.total):
        assert scene.counts(delays) == (1, 0, 0)


def test_a_delivery_without_an_outcome_is_stuck_until_it_gets_one() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.rounds(11)
    assert scene.counts(scene.health.total) == (0, 0, 0), "ten seconds since it was first seen"
    scene.rounds(1)
    assert scene.counts(scene.health.total) == (0, 0, 2), "at both links"
    scene.consumer.send(frames.disposition(0))
    scene.rounds(1)
    assert scene.counts(scene.health.total) == (0, 1, 0)
    assert scene.counts(scene.health.of(scene.link_in)) == (0, 1, 0)


def test_a_link_that_waits_for_credit_is_blocked_after_ten_seconds() -> None:
    scene = Scene(credit=0)
    scene.rounds(1)
    assert seconds_without_credit(scene.link_out, scene.now + 4) == 4
    scene.rounds(10)
    assert scene.health.blocked == 0
    scene.rounds(1)
    assert scene.health.blocked == 1
    scene.consumer.send(frames.credit(1))
    scene.rounds(1)
    assert scene.health.blocked == 0
    assert seconds_without_credit(scene.link_out, scene.now) == 0


def test_incoming_links_are_never_blocked() -> None:
    scene = Scene(credit=0)
    scene.rounds(1)
    assert seconds_without_credit(scene.link_in, scene.now + 100) == 0


def test_settlements_a_second() -> None:
    scene = Scene(credit=100)
    scene.rounds(1)
    for second in range(3):
        scene.producer.send(*(frames.transfer(4 * second + number) for number in range(4)))
        scene.consumer.send(frames.disposition(4 * second, last=4 * second + 3))
        scene.rounds(1)
    assert scene.health.settle_rate(scene.link_in) == 4
    assert scene.health.settle_rate(scene.link_out) == 4
    scene.rounds(6)
    assert scene.health.settle_rate(scene.link_in) == 0


def test_the_time_of_the_last_delivery_is_that_of_the_round_that_saw_it() -> None:
    scene = Scene()
    scene.rounds(1)
    assert scene.producer.conn.last_delivery_at == 0.0
    scene.producer.send(frames.transfer(0))
    scene.rounds(1)
    seen = scene.now
    scene.rounds(3)
    assert (scene.producer.conn.last_delivery_at, scene.consumer.conn.last_delivery_at) == (seen, seen)


def test_deliveries_of_a_link_wherever_its_delivery_count_began() -> None:
    scene = Scene()
    client = scene.hub.peer().open().begin()
    client.send(frames.attach_sender(initial_delivery_count=1 << 31))
    client.send(frames.transfer(0), frames.transfer(1, settled=True))
    link = next(link for link in core_of(scene.hub).links.values() if link.connection is client.conn)
    assert deliveries_of(link) == 2
    assert deliveries_of(scene.link_out) == 2


def test_what_is_gone_is_forgotten() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.rounds(3)
    link = scene.link_in
    scene.producer.kill()
    scene.consumer.kill()
    scene.rounds(2)
    assert scene.counts(scene.health.of(link)) == (0, 0, 0)
    assert scene.health.clients == 0


MANY = 20 * BUDGET


def _slices(health: LinkHealth, now: float, most: int) -> int:
    """Slices of a round until it is complete, or `most`."""
    for count in range(1, most):
        due = health.tick(now)
        if due != now + PAUSE_S:
            return count
        now = due
    return most


def _alive(kind: type) -> int:
    return sum(isinstance(thing, kind) for thing in gc.get_objects())


@pytest.mark.parametrize("gone", [True, False])
def test_a_round_keeps_nothing_of_clients_that_are_gone(gone: bool) -> None:
    """Neither their addresses, nor their connection: those of 26,000 links that are gone took 20 MiB for seconds."""
    scene = Scene()
    gc.collect()
    connections, addresses = _alive(RouterConnection), _alive(Address)
    many: Peer | None = scene.hub.peer().open().begin()
    assert many is not None
    many.send(*(frames.attach_receiver(f"r{n}", n, address=f"many.{n}") for n in range(MANY)))
    half = MANY // BUDGET + MANY // BUDGET // 2
    assert _slices(scene.health, scene.now + EVERY_S, half) == half, "links were looked at, and some of the addresses"
    if gone:
        many.kill()
        while not many.conn.end_links(BUDGET):
            pass
        scene.hub.ends.clear()
        many = None
        gc.collect()
        assert _alive(Address) <= addresses + 1
        assert _alive(RouterConnection) <= connections
    left = _slices(scene.health, scene.now + 2 * EVERY_S, MANY)
    assert left in (range(1, 4) if gone else range(8, 13))
