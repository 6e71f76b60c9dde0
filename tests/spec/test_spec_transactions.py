"""Transactional states without a link route: they are not supported. Spec: 4.4.

What belongs to a transaction that nobody can commit is neither forwarded nor answered: its link is detached with
amqp:not-implemented, as an attach to a coordinator is refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Attach, Detach, Disposition, Terminus, Transfer
from waymesh_amqp.types import Described, Raw, Symbol, ULong, encode

STATE = Described(ULong(0x34), [b"txn-1", ACCEPTED])
_REST = encode([b"txn-1"])
STATES = {
    "short": STATE,
    "long": Raw(b"\x00\x80" + bytes(7) + b"\x34" + _REST),
    "symbol": Described(Symbol("amqp:transactional-state:list"), [b"txn-1"]),
    "long symbol": Raw(b"\x00\xb3\x00\x00\x00\x1damqp:transactional-state:list" + _REST),
}


def ends(core: Hub) -> tuple[Peer, Peer]:
    """A producer and a consumer of one address."""
    consumer = core.peer().open(container_id="consumer").begin()
    consumer.send(frames.attach_receiver(), frames.credit(10))
    producer = core.peer().open(container_id="producer").begin()
    producer.send(frames.attach_sender())
    consumer.take()
    return producer, consumer


def refused(answers: list[Any]) -> bool:
    return [type(a) for a in answers] == [Detach] and answers[0].error.condition == "amqp:not-implemented"


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_transfer_within_a_transaction(core: Hub, state: Any) -> None:
    producer, consumer = ends(core)
    assert refused(producer.send(frames.transfer(0, state=state)))
    assert not consumer.take()
    producer.send(frames.detach(), frames.attach_sender("again"))
    producer.send(frames.transfer(1))
    assert [type(p) for p in consumer.take()] == [Transfer]


def test_a_later_frame_of_a_delivery_within_a_transaction(core: Hub) -> None:
    producer, consumer = ends(core)
    producer.send(frames.transfer(0, more=True))
    assert refused(producer.send(frames.transfer(None, b"", state=STATE)))
    assert consumer.take()[-1].aborted


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("settled", [True, False])
def test_an_outcome_within_a_transaction(core: Hub, state: Any, settled: bool) -> None:
    producer, consumer = ends(core)
    producer.send(frames.transfer(0))
    consumer.take()
    assert refused(consumer.send(frames.disposition(0, settled=settled, state=state)))
    (outcome,) = [p for p in producer.take() if isinstance(p, Disposition)]
    assert outcome.settled
    assert isinstance(outcome.state, Described)
    assert outcome.state.descriptor == 0x27  # it may have been seen, and is not accepted


def test_a_state_of_the_sender_within_a_transaction(core: Hub) -> None:
    producer, consumer = ends(core)
    producer.send(frames.transfer(0))
    consumer.take()
    assert refused(producer.send(frames.disposition(0, role=frames.SENDER, settled=False, state=STATE)))
    assert not [p for p in consumer.take() if isinstance(p, Disposition) and p.state is not None]


def test_a_coordinator(core: Hub) -> None:
    peer = core.peer().open().begin()
    answers = peer.send(frames.attach_sender(target=Terminus("coordinator")))
    assert [type(a) for a in answers] == [Attach, Detach]
    assert answers[1].error.condition == "amqp:precondition-failed"
    assert "linkRoute" in answers[1].error.description
