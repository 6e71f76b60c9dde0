"""Samples of single deliveries: which are taken, and how they end. Sampling is compiled: frames drive it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.outcomes import RELEASED
from waymesh_router.core.delivery_sampling import DROPPED, LOST, NEVER, PRESETTLED, Sample, SamplePace

MANY = 1_000_000


class Scene:
    """A core whose samples are kept. `now_us`: the clock of the samples."""

    def __init__(self, one_in: int = 1, per_second: float = MANY, start: bool = True) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.ended: list[tuple[Sample, str, int]] = []
        self.now_us = 5_000
        self.sent = 0
        if start:
            self.core.sampling.start(SamplePace(one_in, per_second), lambda: self.now_us * 1000, self._end)

    def _end(self, sample: Sample, outcome: str, now_us: int) -> None:
        self.ended.append((sample, outcome, now_us))

    def client(self, *data: bytes) -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(*data)
        return peer

    def consumer(self, credit: int = 0x7FFF) -> Peer:
        return self.client(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))

    def producer(self) -> Peer:
        return self.client(frames.attach_sender())

    def send(self, peer: Peer, count: int = 1, **over: Any) -> None:
        for _ in range(count):
            peer.send(frames.transfer(self.sent, **over))
            self.sent += 1

    @property
    def outcomes(self) -> list[str]:
        return [outcome for _, outcome, _ in self.ended]


def test_without_a_start_nothing_is_sampled() -> None:
    scene = Scene(start=False)
    scene.consumer()
    scene.send(scene.producer(), settled=True)
    assert scene.core.sampling.until_next == NEVER - 1
    assert scene.ended == []


def test_a_sample_has_the_times_and_the_place_of_its_delivery() -> None:
    scene = Scene()
    consumer = scene.consumer()
    producer = scene.producer()
    scene.send(producer)
    scene.now_us += 700
    consumer.send(frames.disposition(0))
    ((sample, outcome, now_us),) = scene.ended
    assert (outcome, now_us, sample.began_us, sample.sent_us) == ("accepted", 5_700, 5_000, 5_000)
    assert (sample.link.connection, [out.connection for out in sample.outs]) == (producer.conn, [consumer.conn])
    assert (sample.address.key, sample.here, sample.presettled, sample.streaming) == ("M0q", True, False, False)
    assert sample.size == len(frames.message())


def test_what_waits_is_sent_later_than_it_begins() -> None:
    scene = Scene()
    consumer = scene.consumer(credit=0)
    scene.send(scene.producer(), settled=True)
    assert scene.ended == []
    scene.now_us += 300
    consumer.send(frames.credit(1))
    ((sample, outcome, _),) = scene.ended
    assert (sample.began_us, sample.sent_us, outcome) == (5_000, 5_300, PRESETTLED)


def test_a_presettled_delivery_without_a_consumer_is_dropped() -> None:
    scene = Scene()
    consumer = scene.consumer(credit=0)
    scene.send(scene.producer(), settled=True)
    consumer.send(frames.detach())
    assert scene.outcomes == [DROPPED]


def test_the_outcome_of_the_consumer_is_that_of_the_sample() -> None:
    scene = Scene()
    consumer = scene.consumer()
    scene.send(scene.producer())
    consumer.send(frames.disposition(0, state=RELEASED))
    assert scene.outcomes == ["released"]


def test_a_message_to_the_router_itself_is_not_sampled_but_the_next_delivery_is() -> None:
    scene = Scene()
    scene.core.address_table.subscribe("M0$management", lambda message, link: None)
    scene.send(scene.client(frames.attach_sender(address="$management")), settled=True)
    assert scene.ended == []
    scene.consumer()
    scene.send(scene.producer(), settled=True)
    assert scene.outcomes == [PRESETTLED]


def test_deliveries_in_progress_are_not_reported_after_a_stop() -> None:
    scene = Scene()
    consumer, producer = scene.consumer(), scene.producer()
    scene.send(producer)
    scene.core.sampling.stop()
    consumer.send(frames.disposition(0))
    scene.send(producer, settled=True)
    assert scene.ended == []


def test_a_burst_does_not_take_many_more_samples_than_those_of_a_second() -> None:
    scene = Scene(per_second=4)
    scene.consumer()
    scene.send(scene.producer(), 200, settled=True)
    assert 4 <= len(scene.ended) < 40, "each four samples, the probability is halved"


@pytest.mark.parametrize(("elapsed", "changes"), [(0.9, False), (1.1, True)])
def test_the_pace_is_adapted_once_a_second(elapsed: float, changes: bool) -> None:
    scene = Scene(per_second=1)
    scene.consumer()
    scene.send(scene.producer(), 100, settled=True)
    before = scene.core.sampling.until_next
    scene.core.sampling.tick(scene.core.now + elapsed)
    assert (scene.core.sampling.until_next != before) is changes


def test_a_quiet_second_changes_nothing() -> None:
    scene = Scene(one_in=50)
    before = scene.core.sampling.until_next
    scene.core.sampling.tick(scene.core.now + 2)
    assert scene.core.sampling.until_next == before


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("way", ["aborted", "consumer leaves", "refused"])
def test_a_delivery_that_ends_while_it_arrives_ends_its_sample_once(way: str, settled: bool, waits: bool) -> None:
    scene = Scene()
    consumer = scene.consumer(credit=0 if waits else 10)
    producer = scene.producer()
    scene.send(producer, more=True, settled=settled)
    if waits:
        consumer.send(frames.credit(10))
    assert scene.ended == []
    if way == "aborted":
        producer.send(frames.transfer(None, aborted=True))
    elif way == "consumer leaves":
        consumer.send(frames.detach())
        producer.send(frames.transfer(None))
    else:
        consumer.send(frames.disposition(0, state=RELEASED))
        producer.send(frames.transfer(None))
    if way == "refused":
        outcome = PRESETTLED if settled else "released"
    else:
        outcome = "released" if way == "consumer leaves" and not settled else LOST
    assert scene.outcomes == [outcome]
