"""Messages to thousands of consumers of a multicast address: the copies are made in portions, in order for each."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer

MANY = 2_000
MOST = 1 << 30
BUDGET = 256
"""Of a turn of a connection."""
WIDE = {"incoming_window": MOST, "outgoing_window": MOST}


class Scene:
    """MANY receivers of one client at a multicast address, each with credit, and a sender."""

    def __init__(self, credit: int = 10) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.core.budget.set_limits(MOST, MOST, MOST)
        phases = {"waypoint": False, "ingressPhase": None, "egressPhase": None}
        self.core.address_table.add_pattern({"prefix": "q", "pattern": None, "distribution": "multicast", **phases})
        self.consumer = self.peer()
        for handle in range(MANY):
            self.consumer.send(frames.attach_receiver(f"r{handle}", handle))
            if credit:
                self.consumer.send(frames.credit(credit, handle, **WIDE))
        self.consumer.frames()
        self.producer = self.peer()
        self.producer.send(frames.attach_sender())
        self.got: list[list[bytes]] = [[] for _ in range(MANY)]

    def peer(self) -> Peer:
        peer = self.hub.peer().open()
        peer.conn.link_capacity = MOST
        return peer.begin(**WIDE)

    def look(self) -> int:
        """Note what each receiver has got; returns the number of copies so far."""
        for seen in self.consumer.frames():
            if isinstance(seen, Seen) and isinstance(seen.performative, Transfer):
                self.got[seen.performative.handle].append(bytes(seen.payload))
        return sum(map(len, self.got))

    def portion(self) -> None:
        """A turn of the event loop."""
        self.core.context.portions.run()
        self.go_on()

    def go_on(self) -> None:
        """The producer's connection handles what it has received."""
        end = self.producer.end
        self.producer.conn.budget = BUDGET
        end.tail = end.tail[self.producer.conn.receive(memoryview(end.tail), len(end.tail)) :]
        self.hub.turn()

    def finish(self) -> int:
        while self.core.context.portions or self.producer.conn.waits:
            self.portion()
        self.portion()
        return self.look()

    def outcomes(self) -> list[object]:
        return [d.state for d in self.producer.take() if isinstance(d, Disposition)]


def data(number: int) -> bytes:
    return encode_message(Message(body=f"message {number}"))


@pytest.mark.parametrize("settled", [False, True])
def test_the_next_message_overtakes_no_copy(settled: bool) -> None:
    scene = Scene()
    for number in range(2):
        scene.producer.end.feed(frames.transfer(number, data(number), settled=settled))
    scene.hub.turn()
    assert 0 < scene.look() < MANY
    scene.go_on()
    assert scene.producer.conn.waits == 1
    assert scene.look() < MANY, "the second message is not handled yet"
    assert scene.finish() == 2 * MANY
    assert all(got == [data(0), data(1)] for got in scene.got)
    assert scene.producer.conn.waits == 0
    assert scene.core.budget.kept == 0


def test_the_sender_gets_one_outcome() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0, data(0)))
    scene.consumer.end.feed(frames.disposition(0, last=MANY - 1))
    assert scene.outcomes() == [], "some consumers have accepted their copy, others have none yet"
    assert scene.finish() == MANY
    scene.consumer.end.feed(frames.disposition(0, last=MANY - 1))
    assert scene.outcomes() == [ACCEPTED]


def test_consumers_that_leave_and_come_between_the_portions() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0, data(0)))
    scene.consumer.end.feed(frames.detach(0) + frames.detach(MANY - 1))
    scene.consumer.end.feed(frames.attach_receiver("new", MANY) + frames.credit(10, MANY, **WIDE))
    assert scene.finish() == MANY - 1
    assert scene.got[MANY - 1] == []
    scene.consumer.end.feed(frames.disposition(0, last=MANY - 1))
    assert len(scene.outcomes()) == 1


def test_all_consumers_leave_between_the_portions() -> None:
    scene = Scene(credit=0)
    scene.producer.send(frames.transfer(0, data(0)))
    scene.consumer.kill()
    assert scene.finish() == 0
    assert scene.outcomes() == [RELEASED]
    assert scene.core.budget.kept == 0


@pytest.mark.parametrize("more", [False, True])
def test_a_sender_that_is_lost_between_the_portions(more: bool) -> None:
    """Its complete message goes to all, an incomplete one is aborted."""
    scene = Scene()
    scene.producer.send(frames.transfer(0, data(0), more=more))
    some = scene.look()
    scene.producer.kill()
    while scene.core.context.portions:
        scene.core.context.portions.run()
    copies = scene.look()
    assert 0 < some < MANY
    assert scene.producer.conn.waits == 0
    if more:
        assert copies < 2 * MANY
        assert sum(data(0) in got for got in scene.got) == some
    else:
        assert copies == MANY
    assert scene.core.budget.kept == 0


def test_a_message_of_several_frames() -> None:
    scene = Scene(credit=0)
    scene.producer.end.feed(frames.transfer(0, data(0), more=True))
    scene.producer.end.feed(frames.transfer(None, b"and more"))
    scene.hub.turn()
    scene.finish()
    for handle in range(MANY):
        scene.consumer.end.feed(frames.credit(10, handle, **WIDE))
    assert scene.finish() == MANY * 2
    assert all(b"".join(got) == data(0) + b"and more" for got in scene.got)


def test_messages_of_the_router_itself_stay_in_order() -> None:
    """No connection can be held for them: they follow each other in the walk, also if few consumers are left."""
    scene = Scene()
    assert scene.core.own_messages.send("q", data(0))
    assert 0 < scene.look() < MANY
    scene.consumer.end.feed(b"".join(frames.detach(handle) for handle in range(MANY - 10)))
    assert scene.core.own_messages.send("q", data(1))
    scene.finish()
    assert all(got == [data(0), data(1)] for got in scene.got[MANY - 10 :])
