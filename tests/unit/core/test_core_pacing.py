"""The credit of incoming autolinks follows what their consumers are ready for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import Attached, Container
from tests.kit.pump import Hub, Peer, core_hub, core_of
from tests.kit.steps import lines
from tests.unit.core.edge_peer import configure
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.types import Symbol

CAPACITY = 250


class Broker(Container):
    """A container with a queue `q`, which sends as many messages as it has credit for."""

    def __init__(self, hub: Hub, **attrs: Any) -> None:
        core_of(hub).autolinks.add(
            {"identity": "1", "direction": "in", "address": "q", "connection": "broker", "phase": 0, **attrs}
        )
        self.sent = 0
        Container.__init__(self, hub)

    @property
    def link(self) -> Attached:
        return self.links[0]

    def credit_left(self) -> int:
        """What it may send now."""
        flow = self.link.flows[-1]
        return int(flow.link_credit or 0) - (self.sent - int(flow.delivery_count or 0))

    def give(self, count: int = 1000, **over: Any) -> int:
        """Send up to so many messages; returns how many."""
        before = self.sent
        while self.sent - before < count and self.credit_left() > 0:
            self.send(frames.transfer(self.sent, channel=self.link.channel, handle=self.link.handle, **over))
            self.sent += 1
        return self.sent - before


def consumer(hub: Hub, credit: int) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address="q"), frames.credit(credit))
    return peer


def settle(peer: Peer, number: int, credit: int, count: int = 1) -> None:
    """A consumer accepts deliveries, up to this number, and has credit then."""
    peer.send(
        frames.disposition(number, role=True, last=number + count - 1, settled=True, state=ACCEPTED),
        frames.credit(credit, delivery_count=number + count),
    )


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def test_credit_is_what_consumers_can_take_and_one_more(hub: Hub) -> None:
    broker = Broker(hub)
    peers = [consumer(hub, 1) for _ in range(3)]
    assert broker.credit_left() == 4
    assert broker.give() == 4
    assert broker.credit_left() == 0
    settle(peers[0], 0, 1)
    assert broker.credit_left() == 1, "the one that waited has left"
    assert broker.give() == 1


def test_a_lone_message_needs_no_further_round_trip(hub: Hub) -> None:
    broker = Broker(hub)
    peer = consumer(hub, 1)
    for number in range(5):
        assert broker.give(1) == 1, "there was credit"
        settle(peer, number, 1)


def test_what_is_settled_but_not_followed_by_credit_gives_none(hub: Hub) -> None:
    broker = Broker(hub)
    peer = consumer(hub, 3)
    assert broker.give() == 4
    peer.send(frames.disposition(0, role=True, last=2, settled=True, state=ACCEPTED))
    assert broker.credit_left() == 0


def test_no_more_than_the_capacity_is_unsettled(hub: Hub) -> None:
    broker = Broker(hub)
    peer = consumer(hub, 1000)
    assert broker.give() == CAPACITY
    settle(peer, 0, 1000, 100)
    assert 75 <= broker.credit_left() <= 100


def test_fast_consumers_get_more_in_advance(hub: Hub) -> None:
    broker = Broker(hub)
    peer = consumer(hub, 1)
    core = core_of(hub)
    number = 0
    for _ in range(60):
        broker.give()
        core.now += 0.01
        settle(peer, number, 1)
        number += 1
    assert 20 <= broker.sent - number <= 30, "of 100 a second, a quarter"


def test_credit_that_nobody_can_use_is_lowered(hub: Hub) -> None:
    """Of three consumers two leave while the queue is empty."""
    broker = Broker(hub)
    peers = [consumer(hub, 10) for _ in range(3)]
    assert broker.credit_left() == 31
    for peer in peers[1:]:
        peer.kill()
    core = core_of(hub)
    for _ in range(2):
        core.now += 1.0
        core.pacing.tick(core.now)
        hub.turn()
    assert broker.credit_left() == 11


def test_a_container_that_ignores_lowered_credit_may_send_what_it_was_given(hub: Hub) -> None:
    broker = Broker(hub)
    peers = [consumer(hub, 10) for _ in range(3)]
    given = broker.credit_left()
    peers[2].kill()
    core = core_of(hub)
    for _ in range(2):
        core.pacing.tick(core.now)
        hub.turn()
    assert broker.credit_left() < given
    for number in range(given):
        broker.send(frames.transfer(number, channel=broker.link.channel, handle=broker.link.handle))
    broker.sent = given
    assert broker.link.detach is None
    assert broker.credit_left() <= 0
    settle(peers[0], 0, 10, 10)
    settle(peers[1], 0, 10, 10)
    assert broker.credit_left() > 0, "all are done or under way"


def test_a_container_that_sends_all_settled_has_all_credit(hub: Hub) -> None:
    broker = Broker(hub)
    consumer(hub, 1)
    broker.give(1, settled=True)
    core = core_of(hub)
    core.pacing.tick(core.now)
    hub.turn()
    assert broker.credit_left() >= CAPACITY * 3 // 4


@pytest.mark.parametrize("distribution", ["closest", "multicast"])
def test_other_distributions_have_all_credit(hub: Hub, distribution: str) -> None:
    configure(hub, "q", distribution=distribution)
    broker = Broker(hub)
    consumer(hub, 1)
    assert broker.credit_left() == CAPACITY


def test_each_turn_looks_at_some_of_many_consumers(hub: Hub) -> None:
    """What a message costs does not depend on their number: credit grows by what 25 of them can take."""
    broker = Broker(hub)
    for _ in range(40):
        consumer(hub, 1)
    assert broker.credit_left() <= 41
    assert broker.give(1) == 1
    assert broker.credit_left() <= 40
    while broker.give():
        pass
    assert broker.sent == 41


def lines_of_credit(autolinks: int) -> list[int]:
    """The lines of a flow of a consumer with so many autolinks to its address, and of the end of one of these."""
    hub = core_hub()
    for number in range(1, autolinks):
        core_of(hub).autolinks.add(
            {"identity": f"x{number}", "direction": "in", "address": "q", "connection": "broker", "phase": 0}
        )
    broker = Broker(hub)
    hub.finish()
    assert len(broker.links) == autolinks
    peer = consumer(hub, 1)
    flow = frames.credit(2)
    found = [lines(lambda: peer.end.feed(flow))]
    hub.turn()
    pacing, link = core_of(hub).pacing, next(reversed(core_of(hub).pacing.links))
    found.append(lines(lambda: pacing.end(link)))
    return found


def test_a_flow_and_the_end_of_a_link_cost_the_same_however_many_autolinks_there_are() -> None:
    few, many = lines_of_credit(2), lines_of_credit(50)
    assert all(more <= less + 5 for less, more in zip(few, many, strict=True))


def test_all_autolinks_of_an_address_follow_its_consumers(hub: Hub) -> None:
    core_of(hub).autolinks.add(
        {"identity": "2", "direction": "in", "address": "q", "connection": "broker", "phase": 0}
    )
    broker = Broker(hub)
    peer = consumer(hub, 3)
    assert [link.flows[-1].link_credit for link in broker.links] == [4, 4]
    peer.send(frames.credit(9))
    assert [link.flows[-1].link_credit for link in broker.links] == [10, 10]
    address = core_of(hub).addresses["M0q"]
    assert len(address.paced or ()) == 2
    broker.close()
    assert address.paced is None


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_consumer_that_says_how_many_it_works_on_at_a_time_gets_no_more_than_it_needs(
    hub: Hub, concurrency: int
) -> None:
    for name in ("in", "in2"):
        peer = hub.peer().open().begin()
        properties = {Symbol("concurrency"): concurrency}
        peer.send(frames.attach_receiver(name, address="q", properties=properties), frames.credit(100))
    broker = Broker(hub)
    enough = 2 * (concurrency + max(1, concurrency // 2))
    assert broker.give() == enough + 1, "and one that waits"
