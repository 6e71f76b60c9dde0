"""Messages to the router itself, and those that it sends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.answering import neighbour
from tests.kit.frames import Seen
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.message import Message, decode_message, encode_message
from waymesh_amqp.outcomes import ACCEPTED
from waymesh_amqp.performatives import Disposition, Flow, Transfer
from waymesh_router.core.forwarding.buffer_budget import RECORD_BYTES
from waymesh_router.core.link_kinds import BALANCED, MULTICAST

REQUEST = encode_message(Message(to="$management", reply_to="r", body="x" * 50))
KEY = "M0$management"


class Subscriber:
    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.links: list[Any] = []

    def __call__(self, message: bytes, link: Any) -> None:
        self.got.append(message)
        self.links.append(link)


@pytest.fixture
def hub() -> Hub:
    return core_hub()


@pytest.fixture
def subscriber(hub: Hub) -> Subscriber:
    made = Subscriber()
    core_of(hub).address_table.subscribe(KEY, made)
    return made


def producer(hub: Hub) -> Peer:
    peer = hub.peer().open().begin()
    answers = peer.send(frames.attach_sender(address="$management"))
    assert any(isinstance(f, Flow) and f.link_credit for f in answers)
    return peer


def consumer(hub: Hub, credit: int, address: str = "r") -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(address=address), *([frames.credit(credit)] if credit else []))
    return peer


def transfers(peer: Peer) -> list[Seen]:
    return [f for f in peer.frames() if isinstance(f, Seen) and isinstance(f.performative, Transfer)]


def texts(found: list[bytes]) -> list[Any]:
    return [decode_message(data).body for data in found]


@pytest.mark.parametrize("at", [None, 1, 20, len(REQUEST) - 1])
@pytest.mark.parametrize("settled", [True, False])
def test_a_whole_message_is_accepted_and_handed_over(
    hub: Hub, subscriber: Subscriber, settled: bool, at: int | None
) -> None:
    sender = producer(hub)
    if at is None:
        answers = sender.send(frames.transfer(0, REQUEST, settled=settled))
    else:
        assert sender.send(frames.transfer(0, REQUEST[:at], settled=settled, more=True)) == []
        assert subscriber.got == []
        answers = sender.send(frames.transfer(None, REQUEST[at:], settled=settled))
    assert [d.state for d in answers if isinstance(d, Disposition)] == ([] if settled else [ACCEPTED])
    (message,) = subscriber.got
    assert decode_message(message).reply_to == "r"
    assert subscriber.links[0].connection is sender.conn
    assert core_of(hub).addresses[KEY].to_process == 1
    assert subscriber.links[0].credit + subscriber.links[0].replenish == subscriber.links[0].capacity


def test_an_aborted_message_is_not_handed_over(hub: Hub, subscriber: Subscriber) -> None:
    sender = producer(hub)
    sender.send(frames.transfer(0, REQUEST[:20], more=True), frames.transfer(None, b"", aborted=True))
    sender.send(frames.transfer(1, REQUEST))
    assert len(subscriber.got) == 1


@pytest.mark.parametrize("end", [frames.transfer(None, REQUEST[20:]), frames.transfer(None, b"", aborted=True)])
def test_an_unfinished_message_to_the_router_counts_until_it_ends(
    hub: Hub, subscriber: Subscriber, end: bytes
) -> None:
    sender = producer(hub)
    sender.send(frames.transfer(0, REQUEST[:20], more=True))
    assert subscriber.got == []
    assert core_of(hub).budget.kept == 20 + RECORD_BYTES
    sender.send(end)
    assert core_of(hub).budget.kept == 0


# ---- going out
@pytest.mark.parametrize(("address", "sent"), [("r", True), ("amqp:/r", True), ("nobody", False)])
def test_a_message_goes_to_a_consumer_or_nowhere(hub: Hub, address: str, sent: bool) -> None:
    receiver = consumer(hub, 10)
    assert core_of(hub).own_messages.send(address, REQUEST) == sent
    assert len(transfers(receiver)) == sent


def test_a_message_is_settled_and_whole(hub: Hub) -> None:
    receiver = consumer(hub, 10)
    core = core_of(hub)
    assert core.own_messages.send("r", REQUEST)
    (seen,) = transfers(receiver)
    assert isinstance(seen.performative, Transfer)
    assert (seen.performative.settled, seen.payload) == (True, REQUEST)
    assert core.addresses["M0r"].from_process == 1


def test_messages_wait_for_credit_in_their_order(hub: Hub) -> None:
    receiver = consumer(hub, 0)
    core = core_of(hub)
    for number in range(3):
        assert core.own_messages.send("r", encode_message(Message(body=str(number))))
    assert transfers(receiver) == []
    receiver.end.feed(frames.credit(10))
    assert texts([seen.payload for seen in transfers(receiver)]) == ["0", "1", "2"]


def test_a_multicast_message_goes_to_all(hub: Hub) -> None:
    core = core_of(hub)
    address = core.address_table.get("M0r", MULTICAST)
    assert not core.own_messages.send_to(address, REQUEST)
    receivers = [consumer(hub, 10), consumer(hub, 0)]
    assert core.own_messages.send_to(address, REQUEST)
    receivers[1].end.feed(frames.credit(1))
    assert [len(transfers(peer)) for peer in receivers] == [1, 1]


@pytest.mark.parametrize("treatment", [BALANCED, MULTICAST])
def test_messages_that_nobody_takes_are_dropped_beyond_an_eighth_of_the_budget(hub: Hub, treatment: int) -> None:
    """A client may request replies to any address that it reads from."""
    core = core_of(hub)
    core.budget.set_limits(80_000, 80_000, 80_000)
    address = core.address_table.get("M0r", treatment)
    receiver = consumer(hub, 0)
    sent = 0
    while core.own_messages.send_to(address, REQUEST):
        sent += 1
        assert sent < 100
    assert 10_000 < core.budget.replies < 10_000 + 2 * (len(REQUEST) + RECORD_BYTES)
    assert core.counters.dropped_presettled == 1
    receiver.end.feed(frames.credit(100))
    assert (len(transfers(receiver)), core.budget.replies) == (sent, 0)
    assert core.own_messages.send_to(address, REQUEST)


def test_another_router_gets_it_with_annotations(hub: Hub) -> None:
    peer = neighbour(hub, "B")
    core = core_of(hub)
    core.remote_routers.add_consumers("B", "M0r", BALANCED)
    assert core.own_messages.send("r", REQUEST)
    (seen,) = transfers(peer)
    notes = decode_message(seen.payload).message_annotations
    assert notes is not None
    assert notes["x-opt-qd.ingress"] == "0/R"
    assert notes["x-opt-qd.trace"] == ["0/R"]


def test_a_message_for_one_link_is_sent_as_it_is(hub: Hub) -> None:
    peer = neighbour(hub, "B")
    core = core_of(hub)
    peer.take()
    core.own_messages.send_on(peer.conn.control_out, core.mesh_links.control_address, REQUEST)
    (seen,) = transfers(peer)
    assert seen.payload == REQUEST
