"""A link retires: what arrived on it and waits goes back, in portions that the state of then decides on."""

from __future__ import annotations

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.groups import configure, message
from tests.kit.long_turns import SETTINGS
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Disposition, Transfer
from waymesh_router.core.links.handing_back import A_STEP, STEP_COST, places
from waymesh_router.core.model import RouterLink
from waymesh_router.core.portions import COST_A_TURN

MANY = 3 * A_STEP * (COST_A_TURN // STEP_COST)
"""More than the first two portions have."""


class Scene:
    """A consumer without credit, and two senders of which each has sent as much."""

    def __init__(self, groups: bool) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        if groups:
            configure(self.hub)
        self.consumer = self._peer(frames.attach_receiver(address="q"))
        self.one, self.other = (self._peer(frames.attach_sender(address="q")) for _ in range(2))
        for number in range(MANY):
            for peer in (self.one, self.other):
                peer.end.feed(frames.transfer(number, message("a", number)))
        self.hub.turn()

    def _peer(self, attach: bytes) -> Peer:
        peer = self.hub.peer(SETTINGS).open().begin()
        peer.conn.link_capacity = MANY
        peer.send(attach)
        return peer

    def link(self, peer: Peer) -> RouterLink:
        link: RouterLink
        (link,) = [link for link in peer.session().links if link is not None]
        return link

    def retire(self) -> None:
        """The first sender's link retires: the first portion."""
        self.core.endpoint_links.retire(self.link(self.one))

    def rest(self) -> None:
        """All other portions."""
        assert self.core.context.portions, "more than the first one"
        while self.core.context.portions:
            self.core.context.portions.run()
        self.hub.turn()

    def released(self, peer: Peer) -> set[int]:
        """Numbers of the deliveries of a sender that were released since the last look."""
        seen = [f for f in peer.take() if isinstance(f, Disposition)]
        assert {str(state.descriptor) for state in frames.told(seen)} <= {"38"}
        numbers = [number for d in seen for number in range(d.first, (d.last or d.first) + 1)]
        assert len(numbers) == len(set(numbers)), "each has one outcome"
        return set(numbers)

    def give(self, credit: int, delivery_count: int = 0) -> int:
        """The consumer issues credit, after `delivery_count` messages; returns the number of messages that it gets."""
        self.consumer.end.feed(frames.credit(credit, delivery_count=delivery_count, incoming_window=2 * MANY))
        while self.core.expiry.busy:
            self.core.credit.end_expired()
        seen = self.consumer.frames()
        return len([f for f in seen if isinstance(f, Seen) and isinstance(f.performative, Transfer)])


@pytest.fixture(params=[False, True], ids=["any", "group"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def test_the_first_portion_goes_back_at_once_and_then_the_rest(scene: Scene) -> None:
    scene.retire()
    scene.hub.turn()
    assert 0 < len(scene.released(scene.one)) < MANY
    scene.rest()
    assert scene.link(scene.one).unsettled == 0
    assert scene.released(scene.other) == set()
    assert scene.give(2 * MANY) == MANY, "those of the other sender"
    assert scene.core.budget.kept == 0


def test_what_waits_is_not_listed_at_once(scene: Scene) -> None:
    assert len(places(scene.link(scene.one))) < 10


def test_what_arrives_meanwhile_stays_and_hides_nothing(scene: Scene) -> None:
    """The consumer gets the oldest ones in each turn, as many others come."""
    scene.retire()
    got = 0
    for number in range(MANY, MANY + 4):
        scene.other.end.feed(frames.transfer(number, message("a", number)))
        got += scene.give(3, delivery_count=got)
        scene.core.context.portions.run()
    scene.rest()
    assert scene.link(scene.one).unsettled == got // 2
    assert got == 12
    assert scene.give(2 * MANY, delivery_count=got) == MANY + 4 - got // 2


def test_credit_that_comes_meanwhile_gets_the_oldest(scene: Scene) -> None:
    scene.retire()
    got = scene.give(10)
    scene.rest()
    assert got == 10
    assert scene.released(scene.one) == set(range(5, MANY)), "both senders have sent alternately"
    assert scene.link(scene.one).unsettled == 5


def test_a_link_that_is_used_again_gets_nothing_more_back(scene: Scene) -> None:
    scene.retire()
    scene.link(scene.one).retiring = False
    scene.rest()
    back = scene.released(scene.one)
    assert 0 < len(back) < MANY
    assert scene.give(2 * MANY) == 2 * MANY - len(back)


def test_what_a_link_that_has_ended_has_left_goes_on(scene: Scene) -> None:
    scene.retire()
    scene.hub.turn()
    back = scene.released(scene.one)
    scene.one.send(frames.detach())
    scene.rest()
    assert scene.give(2 * MANY) == 2 * MANY - len(back)
    assert scene.core.budget.kept == 0


def test_what_its_sender_has_settled_goes_on(scene: Scene) -> None:
    scene.one.send(frames.disposition(0, role=frames.SENDER, last=MANY - 1, state=None))
    scene.retire()
    scene.rest()
    assert scene.give(2 * MANY) == 2 * MANY
