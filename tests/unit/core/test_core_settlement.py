"""Outcomes between the halves of a delivery: one for each, whoever settles first, and in one step or two.

Settlement is compiled: frames drive most of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.errors import INVALID_FIELD
from waymesh_amqp.outcomes import ACCEPTED, RELEASED, modified, rejected
from waymesh_amqp.performatives import Disposition, End, ErrorInfo, Flow
from waymesh_amqp.types import Described, UInt, ULong
from waymesh_router.core.model import RouterLink
from waymesh_router.core.settlement.settlement import Settlement

RECEIVED = Described(ULong(0x23), [UInt(0), ULong(0)])
"""A state that is no outcome. Spec: 3.4.1."""


class Scene:
    """A consumer with credit and a producer."""

    def __init__(self, credit: int = 10) -> None:
        self.hub: Hub = core_hub()
        self.core = core_of(self.hub)
        self.consumer = self._client(frames.attach_receiver(), frames.credit(credit))
        self.producer = self._client(frames.attach_sender())

    def _client(self, *data: bytes) -> Peer:
        peer = self.hub.peer().open().begin()
        peer.send(*data)
        return peer

    @property
    def links(self) -> tuple[RouterLink, RouterLink]:
        """The incoming one, the outgoing one."""
        first, second = self.core.links.values()
        return (second, first) if first.is_sender else (first, second)

    @property
    def unsettled(self) -> tuple[int, int]:
        incoming, outgoing = self.links
        return incoming.unsettled, outgoing.unsettled


def told(peer: Peer) -> list[tuple[bool, Any]]:
    """Whether it is settled, and the state: of the dispositions since the last look."""
    return [(bool(d.settled), d.state) for d in peer.take() if isinstance(d, Disposition)]


@pytest.mark.parametrize("state", [ACCEPTED, RELEASED, rejected(ErrorInfo("a:b", "c")), modified(True, False)])
def test_the_consumer_s_outcome_settles_both_halves(state: Any) -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    assert scene.unsettled == (1, 1)
    scene.consumer.send(frames.disposition(0, state=state))
    assert told(scene.producer) == [(True, state)]
    assert scene.unsettled == (0, 0)


def test_a_consumer_that_settles_without_a_state() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, state=None))
    assert told(scene.producer) == [(True, None)]
    assert scene.unsettled == (0, 0)


def test_a_state_goes_to_the_sender_which_settles_first() -> None:
    """rcv-settle-mode second: the consumer waits for the sender. Spec: 2.6.12."""
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, settled=False))
    assert told(scene.producer) == [(False, ACCEPTED)]
    assert scene.unsettled == (1, 1)
    scene.producer.send(frames.disposition(0, role=False, state=None))
    assert told(scene.consumer) == [(True, ACCEPTED)]
    assert scene.unsettled == (0, 0)
    assert scene.core.counters.accepted == 1


def test_the_state_of_before_counts_for_a_consumer_that_settles_without_one() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, settled=False, state=RELEASED), frames.disposition(0, state=None))
    assert told(scene.producer)[-1] == (True, RELEASED)
    assert scene.core.counters.released == 1


def test_a_state_that_is_no_outcome_settles_nothing() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, settled=False, state=RECEIVED))
    assert told(scene.producer) == [(False, RECEIVED)]
    assert scene.unsettled == (1, 1)


def test_a_sender_may_settle_on_its_own() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.producer.send(frames.disposition(0, role=False, state=None))
    assert told(scene.consumer) == [(True, None)]
    assert scene.unsettled == (0, 0)
    scene.consumer.send(frames.disposition(0))
    assert told(scene.producer) == [], "it is settled already"


def test_a_sender_s_state_goes_on_to_the_consumer() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.producer.send(frames.disposition(0, role=False, settled=False, state=RECEIVED))
    assert told(scene.consumer) == [(False, RECEIVED)]
    assert scene.unsettled == (1, 1)


def test_a_second_outcome_changes_nothing() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0), frames.disposition(0, state=RELEASED))
    assert told(scene.producer) == [(True, ACCEPTED)]
    counters = scene.core.counters
    assert (counters.accepted, counters.released) == (1, 0)


def test_an_id_that_is_in_use_ends_the_session() -> None:
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    (end,) = [a for a in scene.producer.send(frames.transfer(0)) if isinstance(a, End)]
    assert end.error is not None
    assert (end.error.condition, end.error.description) == (INVALID_FIELD, "delivery-id 0 is in use")


def test_credit_comes_back_with_the_outcome_and_not_before() -> None:
    scene = Scene(credit=1000)
    incoming, _ = scene.links
    full = incoming.credit
    scene.producer.send(*(frames.transfer(number) for number in range(full)))
    assert incoming.credit == 0
    assert not [a for a in scene.producer.take() if isinstance(a, Flow) and a.handle is not None]
    scene.consumer.send(frames.disposition(0, last=full - 1))
    assert incoming.credit == full


def test_a_core_has_one_settlement_that_counts_in_its_counters() -> None:
    core = core_of(core_hub())
    assert isinstance(core.settlement, Settlement)
    assert core.settlement.counters is core.counters


LONG = rejected(ErrorInfo("a:b", "c" * 5000))


def test_of_a_long_state_only_the_outcome_is_kept() -> None:
    """No budget counts states: with a long one for each delivery, a consumer could fill the memory."""
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, settled=False, state=LONG))
    assert told(scene.producer) == [(False, LONG)], "the sender is told all of it"
    scene.consumer.send(frames.disposition(0, settled=True, state=None))
    assert told(scene.producer) == [(True, Described(ULong(0x25), []))]


def test_a_final_outcome_is_reported_once() -> None:
    """A consumer that repeats outcomes could fill the memory with what a sender does not read."""
    scene = Scene()
    scene.producer.send(frames.transfer(0))
    scene.consumer.send(frames.disposition(0, settled=False, state=RECEIVED))
    for state in (ACCEPTED, ACCEPTED, LONG, RECEIVED):
        scene.consumer.send(frames.disposition(0, settled=False, state=state))
    assert told(scene.producer) == [(False, RECEIVED), (False, ACCEPTED)]
    scene.producer.send(frames.disposition(0, role=False))
    assert scene.unsettled == (0, 0)
