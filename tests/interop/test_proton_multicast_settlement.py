"""Outcomes for the producer of a multicast: routing chapter, "Message Settlement and Reliability"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.shared import fresh, wait_spread
from tests.kit.clients import Client, Receiver, Sender
from tests.kit.mesh import Mesh
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

TABLE = [
    (("accept", "accept", "accept"), "accepted"),
    (("accept", "release", "release"), "accepted"),
    (("accept", "modify", "release"), "accepted"),
    (("accept", "modify", "modify"), "accepted"),
    (("release", "release", "release"), "released"),
    (("modify", "release", "release"), "modified"),
    (("modify", "modify", "modify"), "modified"),
    (("reject", "accept", "accept"), "rejected"),
    (("reject", "modify", "release"), "rejected"),
    (("reject", "reject", "reject"), "rejected"),
]


class Group:
    """A multicast producer and three consumers."""

    def __init__(self, stack: ExitStack, send_to: RouterProcess, receive_at: list[RouterProcess]) -> None:
        self.address = fresh("multicast")
        self.receivers: list[Receiver] = [
            stack.enter_context(Client(router.url)).receiver(self.address, 10) for router in receive_at
        ]
        self._client = stack.enter_context(Client(send_to.url))

    def sender(self) -> Sender:
        """The producer; not before the consumers are known."""
        return self._client.sender(self.address)


@pytest.fixture(params=["one router", "line of four"])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """Consumers on the producer's router; and on the same, the second and the last router of a line."""
    with ExitStack() as stack:
        if request.param == "one router":
            router: RouterProcess = request.getfixturevalue("router1")
            yield Group(stack, router, [router] * 3)
        else:
            mesh: Mesh = request.getfixturevalue("line4")
            found = Group(stack, mesh["A"], [mesh["A"], mesh["B"], mesh["D"]])
            wait_spread(mesh, found.address, 1, 1, 0, 1)
            yield found


def test_table(group: Group) -> None:
    """Each row, and each consumer in each place of it."""
    sender = group.sender()
    for actions, outcome in TABLE:
        for turn in range(3):
            sent = sender.send("x")
            received = [receiver.next() for receiver in group.receivers]
            for number in range(3):
                assert not sent.settled.is_set()
                getattr(received[number], actions[(number + turn) % 3])()
                group.receivers[number].flow(1)
            assert sent.outcome() == outcome, (actions, turn)


def test_a_rejection_carries_its_error(group: Group) -> None:
    sent = group.sender().send("x")
    first, second, third = [receiver.next() for receiver in group.receivers]
    first.accept()
    second.reject("test:no", "not this one")
    third.release()
    assert sent.outcome() == "rejected"
    assert sent.condition == "test:no: not this one"


def test_waits_for_the_last_consumer(group: Group) -> None:
    sent = group.sender().send_all(list(range(5)))
    received = [receiver.take(5, accept=False) for receiver in group.receivers]
    for delivery in received[0] + received[1]:
        delivery.accept()
    received[2][4].accept()
    assert sent[4].outcome() == "accepted"
    assert not any(s.settled.is_set() for s in sent[:4])
    for delivery in received[2][:4]:
        delivery.accept()
    assert [s.outcome() for s in sent] == ["accepted"] * 5


def test_a_consumer_that_leaves_counts_as_modified(group: Group) -> None:
    """It may have seen the message: nobody accepted, so the producer hears modified."""
    sent = group.sender().send("x")
    received = [receiver.next() for receiver in group.receivers]
    received[0].release()
    received[1].release()
    group.receivers[2].client.abort()
    assert sent.outcome() == "modified"
    assert sent.failed


def test_a_consumer_that_leaves_does_not_undo_the_acceptance_of_another(group: Group) -> None:
    sent = group.sender().send("x")
    received = [receiver.next() for receiver in group.receivers]
    received[0].accept()
    received[1].accept()
    assert not sent.settled.is_set()
    group.receivers[2].client.abort()
    assert sent.outcome() == "accepted"


def test_a_consumer_without_credit_delays_only_itself(group: Group) -> None:
    """Copies for it wait; the others get theirs at once; the producer hears when the last one is settled."""
    sender = group.sender()
    sent = [sender.send(number) for number in range(10)]
    for receiver in group.receivers:
        receiver.take(10)
    sent += [sender.send(number) for number in range(10, 20)]
    group.receivers[0].flow(10)
    group.receivers[1].flow(10)
    assert [r.body for r in group.receivers[0].take(10)] == list(range(10, 20))
    assert [r.body for r in group.receivers[1].take(10)] == list(range(10, 20))
    assert [s.outcome() for s in sent[:10]] == ["accepted"] * 10
    assert not any(s.settled.is_set() for s in sent[10:])
    group.receivers[2].flow(10)
    assert [r.body for r in group.receivers[2].take(10)] == list(range(10, 20))
    assert [s.outcome() for s in sent[10:]] == ["accepted"] * 10


def test_presettled_copies_wait_for_credit_too(group: Group) -> None:
    receiver = group.receivers[1]
    sender = receiver.client.sender(group.address, presettled=True)
    sender.send_all(list(range(15)))
    group.receivers[0].flow(5)
    assert [r.body for r in group.receivers[0].take(15)] == list(range(15))
    assert [receiver.next().body for _ in range(10)] == list(range(10))
    wait_until(lambda: receiver.credit == 0, what="credit to be used up")
    receiver.flow(5)
    assert [receiver.next().body for _ in range(5)] == list(range(10, 15))
