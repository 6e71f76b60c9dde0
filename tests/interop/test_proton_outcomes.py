"""Every outcome and settle mode, from the consumer back to the producer, over no, one and three hops."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import proton
import pytest
from proton import Link as ProtonLink
from proton.reactor import LinkOption

from tests.interop.shared import fresh
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]


class Modes(LinkOption):
    """Settle modes of an attach."""

    def __init__(self, snd: int, rcv: int) -> None:
        self.snd, self.rcv = snd, rcv

    def apply(self, link: Any) -> None:
        link.snd_settle_mode = self.snd
        link.rcv_settle_mode = self.rcv


class Ends:
    """Two connections: where a test sends, and where it receives."""

    def __init__(self, send_to: RouterProcess, receive_at: RouterProcess) -> None:
        self.sending = Client(send_to.url)
        self.receiving = Client(receive_at.url)

    def pair(self, address: str, credit: int = 10, **options: Any) -> tuple[Sender, Receiver]:
        """A receiver, and a sender that it has given credit."""
        receiver = self.receiving.receiver(address, credit, **options)
        sender = self.sending.sender(address, **options)
        sender.wait_credit()
        return sender, receiver


@pytest.fixture(params=["one", "two", "four"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """On one router, on two, and on the ends of a line of four."""
    if request.param == "one":
        router = request.getfixturevalue("router1")
        pair = Ends(router, router)
    else:
        mesh: Mesh = request.getfixturevalue("line2" if request.param == "two" else "line4")
        pair = Ends(mesh.routers[0], mesh.routers[-1])
    yield pair
    pair.sending.close()
    pair.receiving.close()


def test_accepted(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    received = receiver.next()
    assert not received.settled
    assert not sent.settled.is_set()
    received.accept()
    assert sent.outcome() == "accepted"


def test_rejected_with_its_error(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    receiver.next().reject("test:bad-order", "no such item: 17 – é")
    assert sent.outcome() == "rejected"
    assert sent.condition == "test:bad-order: no such item: 17 – é"


def test_rejected_without_an_error(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    receiver.next().reject()
    assert sent.outcome() == "rejected"
    assert sent.condition is None


def test_released(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    receiver.next().release()
    assert sent.outcome() == "released"


@pytest.mark.parametrize(("failed", "undeliverable"), [(True, False), (False, True), (True, True), (False, False)])
def test_modified(ends: Ends, failed: bool, undeliverable: bool) -> None:
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    receiver.next().modify(failed=failed, undeliverable=undeliverable)
    assert sent.outcome() == "modified"
    assert (sent.failed, sent.undeliverable) == (failed, undeliverable)
    assert not sent.annotations


def test_modified_with_annotations(ends: Ends) -> None:
    annotations = {
        proton.symbol("x-opt-text"): "text é",
        proton.symbol("x-opt-number"): proton.int32(-7),
        proton.symbol("x-opt-list"): [1, "two", None, b"\x00\xff"],
        proton.symbol("x-opt-map"): {"deep": {"deeper": proton.ulong(2**63)}},
    }
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    receiver.next().modify(failed=True, annotations=annotations)
    assert sent.outcome() == "modified"
    assert sent.annotations == annotations
    assert isinstance(sent.annotations[proton.symbol("x-opt-number")], proton.int32)


def test_each_delivery_gets_its_own_outcome(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh(), credit=100)
    sent = sender.send_all(list(range(40)))
    received = [receiver.next() for _ in range(40)]
    for delivery in reversed(received):
        actions = [delivery.accept, delivery.reject, delivery.release, delivery.modify]
        actions[delivery.body % 4]()
    assert [s.outcome() for s in sent] == ["accepted", "rejected", "released", "modified"] * 10


def test_presettled(ends: Ends) -> None:
    sender, receiver = ends.pair(fresh(), credit=100, presettled=True)
    sender.send_all(list(range(50)))
    received = [receiver.next() for _ in range(50)]
    assert [r.body for r in received] == list(range(50))
    assert all(r.settled for r in received)


def test_presettled_to_a_consumer_that_asked_for_unsettled(ends: Ends) -> None:
    address = fresh()
    receiver = ends.receiving.receiver(address, 10)
    sender = ends.sending.sender(address, presettled=True)
    sender.send("x")
    assert receiver.next().settled


def test_unsettled_to_a_consumer_that_wants_presettled(ends: Ends) -> None:
    address = fresh()
    receiver = ends.receiving.receiver(address, 10, presettled=True)
    sent = ends.sending.sender(address).send("x")
    assert receiver.next().settled
    assert sent.outcome() == "accepted"


def test_settled_without_a_state(ends: Ends) -> None:
    """The consumer settles and says nothing: the producer hears that it is settled."""
    sender, receiver = ends.pair(fresh())
    sent = sender.send("x")
    received = receiver.next()
    ends.receiving.call(received.delivery.settle)
    assert sent.outcome() is None


def test_settled_by_the_sender_first(ends: Ends) -> None:
    """The producer settles on its own: the consumer hears of it."""
    sender, receiver = ends.pair(fresh())
    delivery = ends.sending.call(lambda: sender.link.send(proton.Message(body="x")))
    received = receiver.next()
    assert not received.settled
    ends.sending.call(delivery.settle)
    wait_until(lambda: ends.receiving.call(lambda: received.delivery.settled), what="settlement by the sender")


def test_two_step_settlement(ends: Ends) -> None:
    """rcv-settle-mode second: the consumer's outcome, the producer's settlement, then the consumer's. Spec: 2.6.12."""
    modes = Modes(ProtonLink.SND_UNSETTLED, ProtonLink.RCV_SECOND)
    sender, receiver = ends.pair(fresh(), options=[modes])
    delivery = ends.sending.call(lambda: sender.link.send(proton.Message(body="x")))
    received = receiver.next()
    ends.receiving.call(lambda: received.delivery.update(proton.Delivery.ACCEPTED))
    wait_until(lambda: ends.sending.call(lambda: delivery.remote_state) == proton.Delivery.ACCEPTED, what="outcome")
    assert not ends.sending.call(lambda: delivery.settled)
    assert not ends.receiving.call(lambda: received.delivery.settled)
    ends.sending.call(delivery.settle)
    wait_until(lambda: ends.receiving.call(lambda: received.delivery.settled), what="settlement by the sender")
    ends.receiving.call(received.delivery.settle)


def test_received_state_is_passed_on(ends: Ends) -> None:
    """A state that is no outcome comes through, and an outcome may follow. Spec: 3.4.1."""
    sender, receiver = ends.pair(fresh())
    delivery = ends.sending.call(lambda: sender.link.send(proton.Message(body="x")))
    received = receiver.next()

    def progress() -> None:
        received.delivery.local.section_number = 5
        received.delivery.local.section_offset = 77
        received.delivery.update(proton.Delivery.RECEIVED)

    ends.receiving.call(progress)
    wait_until(lambda: ends.sending.call(lambda: delivery.remote_state) == proton.Delivery.RECEIVED, what="state")
    remote = ends.sending.call(lambda: (delivery.remote.section_number, delivery.remote.section_offset))
    assert remote == (5, 77)
    received.accept()
    wait_until(lambda: ends.sending.call(lambda: delivery.remote_state) == proton.Delivery.ACCEPTED, what="outcome")
    assert ends.sending.call(lambda: delivery.settled)


@pytest.mark.parametrize("rcv", [ProtonLink.RCV_FIRST, ProtonLink.RCV_SECOND])
@pytest.mark.parametrize("snd", [ProtonLink.SND_UNSETTLED, ProtonLink.SND_SETTLED, ProtonLink.SND_MIXED])
def test_attach_is_answered_with_the_modes_that_were_asked_for(router1: RouterProcess, snd: int, rcv: int) -> None:
    with Client(router1.url) as client:
        address = fresh()
        links = [
            client.receiver(address, options=[Modes(snd, rcv)]),
            client.sender(address, options=[Modes(snd, rcv)]),
            client.sender(None, options=[Modes(snd, rcv)]),
        ]
        for link in links:
            assert client.call(partial(getattr, link.link, "remote_snd_settle_mode")) == snd
            assert client.call(partial(getattr, link.link, "remote_rcv_settle_mode")) == rcv
