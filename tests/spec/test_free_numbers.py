"""Channels and handles: the lowest free number is found without a search; a high handle costs no memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import frames
from tests.kit.pump import Hub
from tests.kit.recorder import Recorder
from waymesh_amqp.free_numbers import FreeNumbers
from waymesh_amqp.performatives import Attach, Begin, Close, Detach
from waymesh_amqp.settings import ConnectionSettings

SESSIONS = 100
SESSION_BYTES = 100_000
"""Far more than a session with one link needs, far less than a list of 65,536 handles."""


@given(st.lists(st.integers(-20, 20), max_size=80))
def test_the_number_taken_is_always_the_lowest_free_one(steps: list[int]) -> None:
    """A step below 0 takes a number, any other gives back one of those that are out."""
    numbers = FreeNumbers()
    out: set[int] = set()
    for step in steps:
        if step < 0 or not out:
            expected = next(n for n in range(len(out) + 1) if n not in out)
            assert numbers.lowest() == expected
            assert numbers.take() == expected
            out.add(expected)
        else:
            back = sorted(out)[step % len(out)]
            numbers.give(back)
            out.remove(back)
        assert numbers.used == len(out)


def test_an_ended_session_leaves_its_channel_to_the_next() -> None:
    peer = Hub(Recorder()).peer().open()
    for channel in range(4):
        peer.begin(channel)
    peer.send(frames.end(1))
    (answer,) = [p for p in peer.send(frames.begin(7)) if isinstance(p, Begin)]
    assert answer.remote_channel == 7
    assert sorted(peer.conn.sessions) == [0, 1, 2, 3]


def test_a_detached_link_leaves_its_handle_to_the_next() -> None:
    peer = Hub(Recorder()).peer().open().begin()
    for handle in range(4):
        peer.send(frames.attach_sender(f"link-{handle}", handle))
    peer.send(frames.detach(2))
    answers = peer.send(frames.attach_sender("later", 9))
    assert [p.handle for p in answers if isinstance(p, Attach)] == [2]


def test_both_ends_of_the_range_of_handles_carry_frames() -> None:
    peer = Hub(Recorder(grant=100)).peer().open().begin()
    peer.send(frames.attach_sender("low", 0), frames.attach_sender("high", 65535))
    for number, handle in enumerate((0, 65535, 0, 65535)):
        peer.send(frames.transfer(number, handle=handle, settled=True))
    assert len(peer.handler.named("transfer")) == 4
    assert any(isinstance(p, Detach) for p in peer.send(frames.detach(65535)))
    peer.send(frames.transfer(4, handle=0, settled=True))
    assert len(peer.handler.named("transfer")) == 5


def test_the_highest_handle_costs_no_more_memory_than_the_lowest() -> None:
    peer = Hub(Recorder()).peer().open()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for channel in range(SESSIONS):
            peer.begin(channel)
            peer.send(frames.attach_sender(f"link-{channel}", 65535, channel=channel))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used < SESSIONS * SESSION_BYTES


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_peer_with_too_many_links_is_closed_and_told_why(sessions: int) -> None:
    peer = Hub(Recorder()).peer(ConnectionSettings("e", max_links=4)).open()
    for channel in range(sessions):
        peer.begin(channel)
    for number in range(4):
        peer.send(frames.attach_sender(f"link-{number}", number, channel=number % sessions))
    (answer,) = [p for p in peer.send(frames.attach_sender("one more", 9)) if isinstance(p, Close)]
    assert answer.error is not None
    assert answer.error.condition == "amqp:resource-limit-exceeded"
    assert answer.error.description == "more than 4 links on a connection"
    assert len(peer.handler.named("detach")) == 4


def test_links_that_are_gone_do_not_count() -> None:
    peer = Hub(Recorder()).peer(ConnectionSettings("e", max_links=2)).open().begin()
    for number in range(6):
        answers = peer.send(frames.attach_sender(f"link-{number}", 0), frames.detach(0))
        assert not any(isinstance(p, Close) for p in answers)
