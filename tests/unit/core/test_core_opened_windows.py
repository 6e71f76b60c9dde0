"""Incoming session windows of clients: large while nothing waits, within the budgets, and 256 frames otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Begin, Flow
from waymesh_amqp.settings import ConnectionSettings

FRAME = 1024
USUAL = 256
LINK = 1000 * FRAME
CONNECTION = 16 * LINK
ROUTER = 8 * LINK
"""Limits of waiting bytes."""
OPENED = 3 * LINK // FRAME


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    core_of(hub).budget.set_limits(ROUTER, CONNECTION, LINK)
    return hub


def client(hub: Hub, *, opens: bool = True) -> Peer:
    return hub.peer(ConnectionSettings("R", max_frame_size=FRAME, window=USUAL, window_opens=opens)).open()


def offered(answers: list[Any]) -> int:
    """The incoming window in the last begin or flow."""
    return [a.incoming_window for a in answers if isinstance(a, (Begin, Flow))][-1]


def begun(peer: Peer, channel: int = 0) -> int:
    """The window that the answer to a begin offers."""
    return offered(peer.send(frames.begin(channel)))


def used(peer: Peer, count: int) -> int:
    """Send part of a message; the window that is offered then."""
    body = b"\x00\x53\x75\xb0\x7f\x00\x00\x00"
    pieces = [frames.transfer(0 if number == 0 else None, body, more=True) for number in range(count)]
    return offered(peer.send(*pieces))


def streaming(hub: Hub, *, opens: bool = True) -> Peer:
    """A client whose message goes to a consumer that takes it."""
    consumer = hub.peer().open().begin()
    consumer.send(frames.attach_receiver(), frames.credit(10, incoming_window=1 << 20))
    peer = client(hub, opens=opens)
    assert begun(peer) == USUAL
    peer.send(frames.attach_sender())
    return peer


def test_the_window_opens_while_nothing_waits(hub: Hub) -> None:
    core_of(hub).budget.set_limits(1 << 40, CONNECTION, LINK)
    assert used(streaming(hub), USUAL // 2 + 1) == OPENED


def test_a_window_that_is_set_stays(hub: Hub) -> None:
    assert used(streaming(hub, opens=False), USUAL // 2 + 1) == USUAL


def test_a_connection_takes_no_more_than_it_may_keep(hub: Hub) -> None:
    core_of(hub).budget.set_limits(1 << 40, 2 * LINK, LINK)
    assert used(streaming(hub), USUAL // 2 + 1) == 2 * LINK // FRAME


def test_all_open_windows_take_a_part_of_the_budget(hub: Hub) -> None:
    """Until a client with such a window is gone."""
    first = streaming(hub)
    assert used(first, USUAL // 2 + 1) == USUAL + ROUTER // 4 // FRAME
    assert used(streaming(hub), USUAL // 2 + 1) == USUAL
    first.kill()
    assert core_of(hub).budget.opened == 0
    assert used(streaming(hub), USUAL // 2 + 1) == USUAL + ROUTER // 4 // FRAME


def test_a_client_with_many_sessions_has_the_usual_windows(hub: Hub) -> None:
    peer = streaming(hub)
    for channel in range(1, 17):
        assert begun(peer, channel) == USUAL
    assert used(peer, USUAL // 2 + 1) == USUAL


def test_while_memory_is_short_windows_have_the_usual_size(hub: Hub) -> None:
    core_of(hub).budget.short = True
    assert used(streaming(hub), USUAL // 2 + 1) == USUAL


def test_while_a_budget_is_half_used_windows_have_the_usual_size(hub: Hub) -> None:
    core_of(hub).budget.set_limits(8 * FRAME, CONNECTION, LINK)
    holder = hub.peer().open().begin()
    holder.send(frames.attach_receiver(address="held"))
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender(address="held"), frames.transfer(0, frames.message(bytes(5 * FRAME))))
    assert used(streaming(hub), USUAL // 2 + 1) == USUAL


def test_a_consumer_that_takes_nothing_keeps_the_window_closed(hub: Hub) -> None:
    hub.peer().open().begin().send(frames.attach_receiver())
    peer = client(hub)
    begun(peer)
    peer.send(frames.attach_sender())
    body = bytes(900)
    pieces = [frames.transfer(0 if number == 0 else None, body, more=True) for number in range(USUAL)]
    peer.send(*pieces)
    assert peer.session().window == USUAL
