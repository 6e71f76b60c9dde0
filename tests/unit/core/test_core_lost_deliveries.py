"""Links that end with thousands of deliveries: each gets one outcome, whatever comes between the portions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_amqp.types import decode
from waymesh_router.core.settlement.outcomes import MODIFIED_FAILED

FAILED = decode(MODIFIED_FAILED)[0]
MANY = 2_000
MOST = 1 << 30
WIDE = {"incoming_window": MOST, "outgoing_window": MOST}


class Scene:
    """A consumer with two links at two addresses, and a producer with MANY unsettled deliveries to the first one."""

    def __init__(self) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.core.budget.set_limits(MOST, MOST, MOST)
        self.consumer = self._peer()
        for handle, address in enumerate(("q", "other")):
            self.consumer.send(frames.attach_receiver(address, handle, address=address))
            self.consumer.send(frames.credit(MOST, handle, **WIDE))
        self.producer = self._peer()
        self.producer.send(frames.attach_sender())
        self.outcomes: dict[int, list[Any]] = {}
        self.send(range(MANY))

    def _peer(self) -> Peer:
        peer = self.hub.peer().open()
        peer.conn.link_capacity = MOST
        return peer.begin(**WIDE)

    def send(self, ids: range) -> None:
        for number in ids:
            self.producer.end.feed(frames.transfer(number))
            if number % 100 == 0:
                self.look()
        self.look()

    def look(self) -> None:
        """Note the outcomes that the producer was sent."""
        for seen in self.producer.frames():
            one = seen.performative if isinstance(seen, Seen) else None
            if isinstance(one, Disposition):
                for number in range(one.first, (one.first if one.last is None else one.last) + 1):
                    self.outcomes.setdefault(number, []).append(one.state)

    def portion(self) -> None:
        self.core.context.portions.run()
        self.look()

    def finish(self) -> Counter[str]:
        """Do all portions; how often each outcome was sent, if each delivery has exactly one."""
        while self.core.context.portions:
            self.portion()
        assert sorted(self.outcomes) == list(range(MANY))
        assert {len(states) for states in self.outcomes.values()} == {1}
        assert self.rings() == (0, 0)
        return Counter(repr(states[0]) for states in self.outcomes.values())

    def rings(self) -> tuple[int, int]:
        """Deliveries that are unsettled at the consumer and at the producer."""
        out = [s.unsettled_out.count for s in self.consumer.conn.sessions.values()]
        into = [s.unsettled_in.count for s in self.producer.conn.sessions.values()]
        return sum(out), sum(into)


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
    slow, sender = scene._peer(), scene._peer()
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


# ---- deliveries that wait for a consumer
class Waiting(Scene):
    """MANY deliveries wait at an address whose only consumer has no credit."""

    def __init__(self) -> None:
        Scene.__init__(self)
        self.consumer.send(frames.disposition(0, last=MANY - 1))
        self.look()
        self.outcomes.clear()
        self.slow = self._peer()
        self.slow.send(frames.attach_receiver(address="late"))
        self.producer = self._peer()
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
    other = scene._peer()
    other.send(frames.attach_receiver(address="late"))
    while scene.core.context.portions:
        scene.portion()
    assert len(scene.outcomes) == released
    other.end.feed(frames.credit(MOST, **WIDE))
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


# ---- links of a connection whose output has room again
def test_every_link_of_a_connection_goes_on() -> None:
    scene = Scene()
    peer, count = scene._peer(), 1_200
    for number in range(count):
        peer.send(frames.attach_receiver(f"r{number}", number, address=f"a{number}"))
    sender = scene._peer()
    sender.send(frames.attach_sender(address=None))
    for number in range(count):
        sender.send(frames.transfer(number, encode_message(Message(to=f"a{number}", body="x")), settled=True))
    for link in scene.core.links.values():
        if link.connection is peer.conn:
            link.credit = 1
    peer.session().remote_window = MOST
    scene.core.on_writable(peer.conn)
    while scene.core.context.portions:
        scene.portion()
    got = [f.performative for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]
    assert sorted(t.handle for t in got) == list(range(count))
