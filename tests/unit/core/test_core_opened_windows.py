"""Incoming session windows of clients: large while nothing waits, within the budgets, and 256 frames otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import frames
from tests.kit.pump import Hub, Peer, core_hub, core_of
from waymesh_amqp.performatives import Begin, End, Flow
from waymesh_amqp.settings import ConnectionSettings
from waymesh_router.core.forwarding.opened_windows import OpenedWindows

FRAME = 1024
USUAL = 256
LINK = 1000 * FRAME
CONNECTION = 16 * LINK
ROUTER = 8 * LINK
"""Limits of waiting bytes."""
OPENED = 3 * LINK // FRAME
LARGE = 1 << 40
BODY = b"\x00\x53\x75\xb0\x7f\x00\x00\x00"
"""The beginning of a message of 2 GiB."""


@pytest.fixture
def hub() -> Hub:
    hub = core_hub()
    core_of(hub).budget.set_limits(ROUTER, CONNECTION, LINK)
    return hub


def windows(hub: Hub) -> OpenedWindows:
    found: OpenedWindows = core_of(hub).opened_windows
    return found


def client(hub: Hub, *, opens: bool = True) -> Peer:
    return hub.peer(ConnectionSettings("R", max_frame_size=FRAME, window=USUAL, window_opens=opens)).open()


def offers(answers: list[Any]) -> list[int]:
    """The incoming windows of begins and flows."""
    return [a.incoming_window for a in answers if isinstance(a, (Begin, Flow))]


def begun(peer: Peer, channel: int = 0) -> int:
    """The window that the answer to a begin offers."""
    return offers(peer.send(frames.begin(channel)))[-1]


def attached(peer: Peer, channel: int = 0) -> int:
    """The window that comes with the credit for a sender's link."""
    return offers(peer.send(frames.attach_sender(channel=channel)))[-1]


def used(peer: Peer, count: int) -> list[int]:
    """Send so many frames of a message; the windows that are offered then."""
    pieces = [frames.transfer(0 if number == 0 else None, BODY, more=True) for number in range(count)]
    return offers(peer.send(*pieces))


def consumer(hub: Hub, credit: int = 10) -> Peer:
    peer = hub.peer().open().begin()
    peer.send(frames.attach_receiver(), frames.credit(credit, incoming_window=1 << 20))
    return peer


def streaming(hub: Hub, *, opens: bool = True) -> Peer:
    """A client with a session, and a consumer that takes what it sends."""
    consumer(hub)
    peer = client(hub, opens=opens)
    assert begun(peer) == USUAL
    return peer


def news(hub: Hub, peer: Peer) -> list[Any]:
    """What a client is sent of its own accord."""
    hub.turn()
    return peer.take()


def passed(hub: Hub, seconds: float) -> list[float]:
    """Let time pass, with a look at the windows several times a second. Returns the times."""
    begin = windows(hub).now
    times = [begin + number / 4 for number in range(1, int(seconds * 4) + 1)]
    for now in times:
        windows(hub).tick(now)
    return times


def test_the_window_opens_with_the_first_credit(hub: Hub) -> None:
    core_of(hub).budget.set_limits(LARGE, CONNECTION, LINK)
    peer = streaming(hub)
    assert attached(peer) == OPENED
    assert used(peer, OPENED // 2 + 1)[-1] == OPENED


def test_a_client_without_senders_has_the_usual_window(hub: Hub) -> None:
    peer = client(hub)
    assert begun(peer) == USUAL
    assert set(offers(peer.send(frames.attach_receiver(), frames.credit(10, echo=True)))) == {USUAL}
    assert windows(hub).total == 0


def test_a_window_that_is_set_stays(hub: Hub) -> None:
    peer = streaming(hub, opens=False)
    assert attached(peer) == USUAL
    assert used(peer, USUAL // 2 + 1)[-1] == USUAL


def test_a_connection_takes_no_more_than_it_may_keep(hub: Hub) -> None:
    core_of(hub).budget.set_limits(LARGE, 2 * LINK, LINK)
    peer = streaming(hub)
    assert attached(peer) == 2 * LINK // FRAME
    begun(peer, 1)
    assert attached(peer, 1) == USUAL
    assert windows(hub).total == 2 * LINK - USUAL * FRAME


def test_all_open_windows_take_a_part_of_the_budget(hub: Hub) -> None:
    """Until a client with such a window is gone."""
    first = streaming(hub)
    assert attached(first) == USUAL + ROUTER // 4 // FRAME
    assert attached(streaming(hub)) == USUAL
    first.kill()
    assert windows(hub).total == 0
    assert attached(streaming(hub)) == USUAL + ROUTER // 4 // FRAME
    passed(hub, 0.25)
    assert len(windows(hub).sessions) == 1


def test_a_session_that_has_ended_gives_its_window_back(hub: Hub) -> None:
    peer = streaming(hub)
    attached(peer)
    peer.send(frames.end())
    passed(hub, 0.25)
    assert windows(hub).total == 0
    assert not windows(hub).sessions
    begun(peer)
    assert attached(peer) == USUAL + ROUTER // 4 // FRAME


def test_a_client_that_sends_nothing_gives_its_window_to_others(hub: Hub) -> None:
    idle = streaming(hub)
    wide = attached(idle)
    passed(hub, 60.0)
    assert windows(hub).total == (wide - USUAL) * FRAME, "nobody needs it"
    assert attached(streaming(hub)) == USUAL
    passed(hub, 1.0)
    assert offers(news(hub, idle)) == [USUAL]
    assert windows(hub).total == 0
    assert attached(streaming(hub)) == wide


def test_a_client_that_sends_keeps_its_window(hub: Hub) -> None:
    peer = streaming(hub)
    wide = attached(peer)
    assert attached(streaming(hub)) == USUAL
    for number in range(20):
        peer.send(frames.transfer(0 if number == 0 else None, BODY, more=True))
        passed(hub, 0.5)
    assert windows(hub).total == (wide - USUAL) * FRAME


def test_what_was_offered_is_accepted_after_the_window_was_taken_back(hub: Hub) -> None:
    """The client may have sent it before it reads the flow; and no frame more."""
    for beyond in (0, 1):
        peer = streaming(hub)
        wide = attached(peer)
        core_of(hub).budget.short = True
        passed(hub, 0.25)
        assert offers(news(hub, peer)) == [USUAL]
        session = peer.session()
        session.hold_window(next(iter(core_of(hub).links.values())))  # no renewal
        answers = peer.send(
            *[frames.transfer(0 if number == 0 else None, BODY, more=True) for number in range(wide + beyond)]
        )
        assert any(isinstance(answer, End) for answer in answers) == bool(beyond)
        core_of(hub).budget.short = False
        peer.kill()


def test_renewals_use_up_what_was_taken_back(hub: Hub) -> None:
    peer = streaming(hub)
    wide = attached(peer)
    core_of(hub).budget.short = True
    passed(hub, 0.25)
    assert peer.session().spare == wide - USUAL
    for _ in range(0, 2 * wide, USUAL):
        used(peer, USUAL)
    assert peer.session().spare == 0


def test_while_memory_is_short_all_windows_have_the_usual_size(hub: Hub) -> None:
    peer = streaming(hub)
    assert attached(peer) > USUAL
    core_of(hub).budget.short = True
    passed(hub, 0.25)
    assert offers(news(hub, peer)) == [USUAL]
    assert attached(streaming(hub)) == USUAL
    assert used(peer, USUAL // 2 + 1)[-1] == USUAL
    core_of(hub).budget.short = False
    assert used(peer, USUAL // 2 + 1)[-1] == USUAL + ROUTER // 4 // FRAME


def test_while_a_budget_is_half_used_windows_have_the_usual_size(hub: Hub) -> None:
    core_of(hub).budget.set_limits(8 * FRAME, CONNECTION, LINK)
    holder = hub.peer().open().begin()
    holder.send(frames.attach_receiver(address="held"))
    sender = hub.peer().open().begin()
    sender.send(frames.attach_sender(address="held"), frames.transfer(0, frames.message(bytes(5 * FRAME))))
    peer = streaming(hub)
    assert attached(peer) == USUAL
    assert used(peer, USUAL // 2 + 1)[-1] == USUAL


def test_a_client_with_many_sessions_has_the_usual_windows(hub: Hub) -> None:
    peer = streaming(hub)
    for channel in range(1, 17):
        assert begun(peer, channel) == USUAL
    assert attached(peer) == USUAL
    assert used(peer, USUAL // 2 + 1)[-1] == USUAL


def test_a_consumer_that_takes_nothing_closes_the_window(hub: Hub) -> None:
    """Not more than was offered at first may wait for it."""
    consumer(hub, 0)
    peer = client(hub)
    begun(peer)
    wide = attached(peer)
    body = bytes(900)
    offered = [
        window
        for number in range(wide)
        for window in offers(peer.send(frames.transfer(0 if number == 0 else None, body, more=True)))
    ]
    assert not offered or max(offered) < wide
    assert peer.session().window_end - peer.session().next_incoming_id < 20
