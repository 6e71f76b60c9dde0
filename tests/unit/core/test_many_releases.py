"""Thousands of deliveries at an address that has lost its only consumer, released in portions."""

from __future__ import annotations

from tests.kit import frames
from tests.kit.frames import Seen
from tests.unit.core.many_deliveries import MANY, MOST, WIDE, Scene
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Transfer


class Waiting(Scene):
    """MANY deliveries wait at an address whose only consumer has no credit."""

    def __init__(self) -> None:
        Scene.__init__(self)
        self.consumer.send(frames.disposition(0, last=MANY - 1))
        self.look()
        self.outcomes.clear()
        self.slow = self.peer()
        self.slow.send(frames.attach_receiver(address="late"))
        self.producer = self.peer()
        self.producer.send(frames.attach_sender(address="late"))
        self.send(range(MANY))


def test_deliveries_without_a_consumer_are_released_once() -> None:
    scene = Waiting()
    scene.slow.send(frames.detach())
    scene.look()
    assert 0 < len(scene.outcomes) < MANY
    scene.producer.kill()
    while scene.core.context.portions:
        scene.portion()
    assert "M0late" not in scene.core.addresses
    assert scene.core.budget.kept == 0


def test_a_consumer_that_comes_between_the_portions_gets_the_others_in_order() -> None:
    scene = Waiting()
    scene.slow.send(frames.detach())
    scene.look()
    released = len(scene.outcomes)
    assert list(scene.outcomes) == list(range(released)), "the oldest ones"
    other = scene.peer()
    other.send(frames.attach_receiver(address="late"))
    while scene.core.context.portions:
        scene.portion()
    assert len(scene.outcomes) == released
    other.end.feed(frames.credit(MOST, **WIDE))
    while scene.core.expiry.busy:  # what waits is sent in portions
        scene.core.credit.end_expired()
    got = [f.performative for f in other.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert len(got) == MANY - released
    other.send(frames.disposition(0, last=MANY))
    scene.look()
    assert scene.finish() == {repr(RELEASED): released, repr(ACCEPTED): MANY - released}


def test_a_message_that_comes_between_the_portions_is_released_at_once() -> None:
    scene = Waiting()
    scene.slow.send(frames.detach())
    scene.look()
    scene.producer.end.feed(frames.transfer(MANY))
    scene.look()
    assert scene.outcomes.pop(MANY) == [RELEASED]
    assert scene.finish() == {repr(RELEASED): MANY}
