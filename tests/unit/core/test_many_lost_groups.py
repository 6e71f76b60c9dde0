"""A consumer ends for which thousands of deliveries of message groups wait: they move to others in portions, and each
group stays in order, whatever comes in between."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tests.kit import frames
from tests.kit.demand import KEY
from tests.kit.groups import configure, got, message, unconfigure
from tests.kit.long_turns import SETTINGS
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Disposition
from waymesh_router.core.forwarding import groups
from waymesh_router.core.forwarding.groups import Groups, slot_of
from waymesh_router.core.model import RouterLink
from waymesh_router.core.portions import COST_A_TURN
from waymesh_router.core.settlement.interruptions import MOVE_COST, MOVED_A_STEP

MANY = 2000
A_TURN = MOVED_A_STEP * (COST_A_TURN // MOVE_COST)
"""Deliveries that move in one turn in which none arrives."""
WINDOW = 1 << 20


class Scene:
    """A core with an address with message groups."""

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub: Hub = hub or core_hub()
        self.core = core_of(self.hub)
        configure(self.hub)
        self.numbers: dict[Peer, int] = defaultdict(int)
        self.got: list[tuple[Peer, str]] = []
        self.senders = [self.peer(frames.attach_sender(address="q")) for _ in range(2)]

    def peer(self, attach: bytes) -> Peer:
        """A client that attaches."""
        peer = self.hub.peer(SETTINGS).open().begin()
        peer.conn.link_capacity = 10 * MANY
        peer.send(attach)
        return peer

    @property
    def groups(self) -> Groups:
        own: Groups = self.core.addresses[KEY].groups
        return own

    def consumer(self, credit: int = 0) -> Peer:
        """A consumer attaches."""
        peer = self.peer(frames.attach_receiver(address="q"))
        if credit:
            peer.end.feed(frames.credit(credit, incoming_window=WINDOW))
        return peer

    def link(self, peer: Peer) -> RouterLink:
        """Its only link."""
        link: RouterLink
        (link,) = [link for link in peer.session().links if link is not None]
        return link

    def send(self, *names: str, sender: int = 0, settled: bool = False) -> None:
        """A client sends a message of each of these groups."""
        peer = self.senders[sender]
        for name in names:
            number = self.numbers[peer]
            self.numbers[peer] += 1
            peer.end.feed(frames.transfer(number, message(f"{name}", number), settled=settled))

    def portion(self) -> None:
        """A turn of the loop."""
        self.core.context.portions.run()
        self.core.credit.end_expired()
        self.hub.turn()

    def rest(self) -> int:
        """All other turns; returns their number."""
        turns = 0
        while self.core.context.portions or self.core.expiry.busy:
            self.portion()
            turns += 1
            assert turns < 10 * MANY
        return turns

    def released(self) -> int:
        """Number of deliveries that were released to the first sender."""
        seen = [f for f in self.senders[0].take() if isinstance(f, Disposition)]
        assert {str(state.descriptor) for state in frames.told(seen)} <= {"38"}
        return sum((d.last or d.first) + 1 - d.first for d in seen)

    def check(self) -> None:
        """Nothing is left of the move."""
        assert not self.groups.lost
        assert (self.groups.moving, self.core.streams.behind) == (0, 0)


def order(found: list[str], name: str) -> list[int]:
    """Numbers of the messages of a group."""
    return [int(one.split(":")[1]) for one in found if one.startswith(f"{name}:")]


def lost_with_many() -> tuple[Scene, Peer, RouterLink]:
    """A consumer with group a has ended, MANY deliveries wait for it; another one with credit is there."""
    scene = Scene()
    first = scene.consumer()
    link = scene.link(first)
    scene.send(*["a"] * MANY)
    second = scene.consumer(10 * MANY)
    first.kill()
    return scene, second, link


def test_a_turn_moves_some_of_them() -> None:
    scene, second, link = lost_with_many()
    left = link.undelivered()
    assert MANY - A_TURN <= left < MANY
    while scene.core.context.portions:
        scene.portion()
        assert left - A_TURN <= link.undelivered() <= left
        left = link.undelivered()
    assert left == 0
    assert scene.rest() < MANY
    assert order(got(second), "a") == list(range(MANY))
    scene.check()


@pytest.mark.parametrize("settled", [False, True])
def test_what_arrives_meanwhile_comes_behind_and_other_groups_do_not_wait(settled: bool) -> None:
    scene, second, _link = lost_with_many()
    scene.send("a", "b", "a", settled=settled)
    scene.hub.turn()
    found = got(second)
    assert order(found, "b") == [MANY + 1], "it was not with the consumer that has ended"
    assert len(order(found, "a")) <= A_TURN
    scene.portion()
    scene.send("a", settled=settled)
    scene.rest()
    assert order(found + got(second), "a") == [*range(MANY + 1), MANY + 2, MANY + 3]
    scene.check()
    scene.send("a")
    assert order(got(second), "a") == [MANY + 4]


def test_it_ends_although_more_arrives_than_a_portion_has() -> None:
    scene, second, _link = lost_with_many()
    turns = 0
    while scene.groups.lost:
        scene.send(*["a"] * (3 * A_TURN))
        scene.portion()
        turns += 1
        assert turns < MANY
    scene.rest()
    assert order(got(second), "a") == list(range(MANY + turns * 3 * A_TURN))
    scene.check()


def test_the_next_consumer_ends_while_they_move_to_it() -> None:
    """What has moved to it is older than what has not."""
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a", "b"] * MANY)
    second = scene.consumer()
    first.kill()
    while scene.link(second).undelivered() < MANY:
        scene.portion()
    third = scene.consumer(10 * MANY)
    scene.send("a", "b")
    second.kill()
    assert len(scene.groups.lost) == 2
    scene.send("b", "a")
    scene.rest()
    found = got(third)
    assert order(found, "a") == [*range(0, 2 * MANY, 2), 2 * MANY, 2 * MANY + 3]
    assert order(found, "b") == [*range(1, 2 * MANY, 2), 2 * MANY + 1, 2 * MANY + 2]
    scene.check()


def test_the_next_consumer_ends_with_a_few_of_them() -> None:
    """They go on at once, before the others."""
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a"] * MANY)
    second = scene.consumer()
    first.kill()
    third = scene.consumer(10 * MANY)
    assert 0 < scene.link(second).undelivered() <= A_TURN
    second.kill()
    assert len(scene.groups.lost) == 1
    scene.rest()
    assert order(got(third), "a") == list(range(MANY))
    scene.check()


def test_without_another_consumer_they_are_released() -> None:
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a"] * MANY)
    first.kill()
    count = scene.released()
    assert 0 < count <= A_TURN
    scene.rest()
    assert count + scene.released() == MANY
    assert scene.core.budget.kept == 0


def test_a_consumer_that_comes_then_gets_the_rest() -> None:
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a"] * MANY)
    first.kill()
    second = scene.consumer(10 * MANY)
    scene.send("a")
    scene.rest()
    released = scene.released()
    assert 0 < released <= 2 * A_TURN
    assert order(got(second), "a") == list(range(released, MANY + 1))
    scene.check()


def test_what_its_sender_aborts_or_takes_back_does_not_move() -> None:
    scene, second, _link = lost_with_many()
    peer = scene.senders[1]
    peer.end.feed(frames.transfer(0, message("a", 0)[:-1], more=True))
    scene.send("a")
    peer.end.feed(frames.transfer(None, b"", aborted=True))
    scene.core.endpoint_links.retire(scene.link(scene.senders[0]))
    scene.rest()
    found = order(got(second), "a")
    assert found == list(range(len(found))), "the oldest ones were sent meanwhile"
    assert scene.released() == MANY + 1 - len(found) > 0
    scene.check()
    assert scene.core.budget.kept == 0


def test_the_address_has_no_groups_any_more() -> None:
    scene, second, link = lost_with_many()
    unconfigure(scene.hub)
    scene.rest()
    assert link.undelivered() == 0
    assert sorted(order(got(second), "a")) == list(range(MANY))


def test_a_consumer_that_retires_keeps_what_waits_for_it() -> None:
    """It may issue credit still; when it has ended, the rest moves."""
    scene = Scene()
    first = scene.consumer()
    scene.send(*["a"] * MANY)
    second = scene.consumer(10 * MANY)
    scene.core.endpoint_links.retire(scene.link(first))
    scene.rest()
    assert scene.link(first).undelivered() == MANY
    assert not scene.groups.lost
    first.kill()
    scene.rest()
    assert order(got(second), "a") == list(range(MANY))
    scene.check()


NAMES = "abcdefgh"


@pytest.mark.parametrize("seed", range(6))
def test_random_consumers_come_and_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is in order, at one consumer after the other, and each message has come to one."""
    monkeypatch.setattr(groups, "AT_ONCE", 0)
    assert len({slot_of(name.encode()) for name in NAMES}) == len(NAMES)
    rng = random.Random(seed)
    scene = Scene()
    consumers = [scene.consumer()]
    found: list[str] = []
    moves = 0
    for _ in range(300):
        step = rng.random()
        if step < 0.4:
            scene.send(*rng.choices(NAMES, k=rng.randrange(60)))
        elif step < 0.5:
            consumers.append(scene.consumer())
        elif step < 0.65:
            consumer = consumers.pop(rng.randrange(len(consumers)))
            if not consumers:
                consumers.append(scene.consumer())
            consumer.kill()
            moves = max(moves, len(scene.groups.lost))
        elif step < 0.7:
            consumer = rng.choice(consumers)
            link = scene.link(consumer)
            consumer.end.feed(frames.credit(30, delivery_count=link.delivery_count, incoming_window=WINDOW))
            scene.hub.turn()
            found += got(consumer)
        else:
            scene.portion()
        for consumer in consumers:
            found += got(consumer)
    assert moves > 1
    scene.rest()
    for consumer in consumers:
        link = scene.link(consumer)
        consumer.end.feed(frames.credit(10 * MANY, delivery_count=link.delivery_count, incoming_window=WINDOW))
        while scene.core.expiry.busy:
            scene.portion()
        scene.hub.turn()
        found += got(consumer)
    for name in NAMES:
        numbers = order(found, name)
        assert numbers == sorted(numbers)
    assert len(found) == len(set(found)) == scene.numbers[scene.senders[0]]
    scene.check()
