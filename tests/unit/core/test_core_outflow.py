"""The frames of a delivery after its first one: they go where that went, however it is cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.kit import frames
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, encode_message
from waymesh_amqp.outcomes import ACCEPTED, RELEASED
from waymesh_amqp.performatives import Disposition, Transfer

WHOLE = encode_message(Message(durable=True, to="q", body="x" * 100))
LARGE = 1 << 18


@pytest.fixture
def hub() -> Hub:
    return core_hub()


def consumer(hub: Hub, credit: int) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), *([frames.credit(credit)] if credit else []))
    return peer


def producer(hub: Hub, address: str | None = "q") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_sender(address=address))
    return peer


def cut(data: bytes, *at: int) -> list[bytes]:
    """The transfers of one delivery, cut at these places."""
    edges = [0, *at, len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    return [
        frames.transfer(0 if number == 0 else None, piece, more=number < len(pieces) - 1)
        for number, piece in enumerate(pieces)
    ]


def transfers(peer: Peer) -> list[Seen]:
    return [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def payload(found: list[Seen]) -> bytes:
    return b"".join(f.payload for f in found)


def states(answers: list[Any]) -> list[Any]:
    return [d.state for d in answers if isinstance(d, Disposition)]


@pytest.mark.parametrize("credit", [10, 0], ids=["sent on", "waiting"])
@pytest.mark.parametrize("address", ["q", None], ids=["by link", "by message"])
@pytest.mark.parametrize("at", [1, 5, len(WHOLE) - 110, len(WHOLE) - 1])
def test_a_message_arrives_whole_wherever_it_is_cut(hub: Hub, at: int, address: str | None, credit: int) -> None:
    receiver = consumer(hub, credit)
    sender = producer(hub, address)
    for piece in cut(WHOLE, at):
        sender.send(piece)
    sender.send(frames.transfer(1, WHOLE))
    if not credit:
        receiver.end.feed(frames.credit(10))
    found = transfers(receiver)
    assert payload(found) == WHOLE * 2
    assert [bool(f.performative.more) for f in found][-1] is False  # type: ignore[union-attr]
    assert core_of(hub).budget.kept == 0


def test_credit_in_the_middle_of_a_delivery_lets_it_begin(hub: Hub) -> None:
    receiver = consumer(hub, 0)
    sender = producer(hub)
    first, *rest = cut(WHOLE, 40, 80)
    sender.send(first)
    receiver.end.feed(frames.credit(1))
    assert payload(transfers(receiver)) == WHOLE[:40]
    for piece in rest:
        sender.send(piece)
    assert payload(transfers(receiver)) == WHOLE[40:]


def test_an_outcome_before_the_end_reaches_the_sender_once(hub: Hub) -> None:
    receiver = consumer(hub, 10)
    sender = producer(hub)
    first, last = cut(WHOLE, 40)
    sender.send(first)
    receiver.send(frames.disposition(0, state=RELEASED))
    assert states(sender.take()) == [RELEASED]
    assert states(sender.send(last)) == []
    sender.send(frames.transfer(1, WHOLE))
    assert payload(transfers(receiver)).endswith(WHOLE), "the next delivery is not affected"


def test_the_next_delivery_goes_to_another_consumer_while_one_is_busy(hub: Hub) -> None:
    consumers = [consumer(hub, 10), consumer(hub, 10)]
    one, other = producer(hub), producer(hub)
    first, last = cut(WHOLE, 40)
    one.send(first)
    other.send(first)
    got = [payload(transfers(peer)) for peer in consumers]
    assert got == [WHOLE[:40], WHOLE[:40]]
    one.send(last)
    other.send(last)
    assert [payload(transfers(peer)) for peer in consumers] == [WHOLE[40:], WHOLE[40:]]


def test_deliveries_do_not_mix_on_one_consumer(hub: Hub) -> None:
    receiver = consumer(hub, 10)
    one, other = producer(hub), producer(hub)
    first, last = cut(WHOLE, 40)
    one.send(first)
    other.send(frames.transfer(0, frames.message(b"whole")))
    assert payload(transfers(receiver)) == WHOLE[:40]
    one.send(last)
    assert payload(transfers(receiver)) == WHOLE[40:] + frames.message(b"whole")


def test_settled_on_a_later_frame_wants_no_outcome(hub: Hub) -> None:
    receiver = consumer(hub, 10)
    sender = producer(hub)
    sender.send(frames.transfer(0, WHOLE[:40], more=True))
    sender.send(frames.transfer(None, WHOLE[40:], settled=True))
    receiver.send(frames.disposition(0))
    assert states(sender.take()) == []
    assert sender.session().unsettled_in.count == 0


def test_a_large_incomplete_delivery_that_waits_holds_its_session(hub: Hub) -> None:
    receiver = consumer(hub, 0)
    sender = producer(hub)
    body = frames.message(bytes(LARGE + 60_000))
    edges = range(10_000, len(body), 10_000)
    pieces = cut(body, *edges)
    for piece in pieces[:-2]:
        sender.send(piece)
    assert sender.session().holds == 1
    receiver.end.feed(frames.credit(1))
    hub.turn()
    assert sender.session().holds == 0
    for piece in pieces[-2:]:
        sender.send(piece)
    assert payload(transfers(receiver)) == body


def test_the_rest_of_a_delivery_without_a_consumer_is_ignored(hub: Hub) -> None:
    sender = producer(hub, None)
    consumer(hub, 10)
    nobody = encode_message(Message(to="nobody", body="x" * 100))
    first, last = cut(nobody, 60)
    assert states(sender.send(first)) == [RELEASED]
    assert states(sender.send(last)) == []
    assert states(sender.send(frames.transfer(1, WHOLE))) == []
    assert sender.session().unsettled_in.count == 1, "it went to the consumer"


@pytest.mark.parametrize("settled", [True, False])
def test_the_sender_has_all_of_its_credit_again_at_the_end(hub: Hub, settled: bool) -> None:
    receiver = consumer(hub, 300)
    sender = producer(hub)
    (link,) = [link for link in sender.session().links if link is not None]
    given = link.credit
    for piece in cut(WHOLE, 40, 80):
        sender.send(piece)
    receiver.send(frames.disposition(0, state=ACCEPTED if settled else RELEASED))
    assert link.credit + link.replenish == given
