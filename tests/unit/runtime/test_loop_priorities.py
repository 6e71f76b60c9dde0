"""Descriptors with low priority: served after the others, and for a short time in each turn."""

from __future__ import annotations

import math
import socket
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, LOW_PRIORITY_S, Loop

TIMEOUT_S = 60.0


class Reader:
    """Reads the input at one end of a socket pair."""

    def __init__(self, loop: Loop, on_data: Callable[[bytes], None], *, low_priority: bool = False) -> None:
        self.here, self.there = socket.socketpair()
        self.here.setblocking(False)
        self.on_data = on_data
        self.loop = loop
        loop.register(self.here.fileno(), self, low_priority=low_priority)

    def on_event(self, mask: int) -> None:
        self.on_data(self.here.recv(1))

    def abandon(self) -> None:
        self.close()

    def close(self) -> None:
        self.loop.unregister(self.here.fileno())
        self.here.close()
        self.there.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    loop.call_later(TIMEOUT_S, loop.stop)
    yield loop
    loop.close()


def run(loop: Loop) -> None:
    loop.run(lambda now: math.inf)


def spend_the_slice() -> None:
    end = time.monotonic() + 2 * LOW_PRIORITY_S
    while time.monotonic() < end:
        pass


def test_others_are_served_between_two_of_many_with_low_priority(loop: Loop) -> None:
    served: list[str] = []
    quiet = Reader(loop, lambda data: served.append("quiet"))

    def crowded(data: bytes) -> None:
        served.append("crowd")
        quiet.there.send(b"x")
        if served.count("crowd") == 50:
            loop.stop()
        spend_the_slice()

    crowd = [Reader(loop, crowded, low_priority=True) for _ in range(50)]
    for each in crowd:
        each.there.send(b"x")
    run(loop)
    assert served == ["crowd", "quiet"] * 49 + ["crowd"]


def test_all_with_low_priority_get_their_turn(loop: Loop) -> None:
    """A peer that always has input does not block others."""
    served: set[str] = set()

    def busy(data: bytes) -> None:
        spend_the_slice()

    greedy = Reader(loop, busy, low_priority=True)
    greedy.there.send(b"x" * 10_000)

    def other(data: bytes) -> None:
        served.add("other")
        loop.stop()

    Reader(loop, other, low_priority=True).there.send(b"x")
    run(loop)
    assert served == {"other"}
    assert greedy.here.recv(1)


def test_a_peer_that_has_closed_is_served_after_others_and_loses_nothing(loop: Loop) -> None:
    seen: list[bytes] = []

    def at_end(data: bytes) -> None:
        seen.append(data)
        if not data:
            loop.stop()

    leaver = Reader(loop, at_end)
    leaver.there.send(b"ab")
    leaver.there.close()
    run(loop)
    assert seen == [b"a", b"b", b""]


def test_a_peer_that_has_closed_and_lost_its_priority_in_the_same_turn_is_served(loop: Loop) -> None:
    """Both are ready in one turn; the handler of the first one lowers the priority of the other."""
    ends: list[str] = []

    def lower(data: bytes) -> None:
        fd = second.here.fileno()
        loop.unregister(fd)
        loop.register(fd, second, low_priority=True)

    def at_end(data: bytes) -> None:
        ends.append("second")
        loop.stop()

    first = Reader(loop, lower)
    second = Reader(loop, at_end)
    first.there.send(b"x")
    second.there.close()
    run(loop)
    assert ends == ["second"]


@pytest.mark.parametrize("low_priority", [True, False])
def test_a_handler_can_change_what_it_waits_for(loop: Loop, low_priority: bool) -> None:
    masks: list[int] = []

    class Writer(Reader):
        def on_event(self, mask: int) -> None:
            masks.append(mask)
            self.loop.stop()

    writer = Writer(loop, lambda data: None, low_priority=low_priority)
    loop.modify(writer.here.fileno(), EPOLLOUT)
    writer.there.send(b"x")
    run(loop)
    assert masks == [EPOLLOUT]


def test_a_raised_priority_keeps_handler_and_events(loop: Loop) -> None:
    seen: list[bytes] = []

    def once(data: bytes) -> None:
        seen.append(data)
        loop.stop()

    reader = Reader(loop, once, low_priority=True)
    loop.modify(reader.here.fileno(), EPOLLIN)
    loop.raise_priority(reader.here.fileno())
    loop.raise_priority(reader.here.fileno())  # has no effect
    reader.there.send(b"x")
    run(loop)
    assert seen == [b"x"]


def test_an_error_with_low_priority_affects_only_its_descriptor(loop: Loop) -> None:
    errors: list[str] = []
    loop.on_error = lambda where, error: errors.append(where)

    def fail(data: bytes) -> None:
        raise RuntimeError("bad")

    Reader(loop, fail, low_priority=True).there.send(b"x")

    def fine(data: bytes) -> None:
        if errors:
            loop.stop()

    Reader(loop, fine, low_priority=True).there.send(b"x" * 1000)
    run(loop)
    assert errors == ["while Reader served a descriptor"]


def test_the_loop_keeps_no_handler_that_has_ended(loop: Loop) -> None:
    """It may wait for its next event for long, and the handler has a connection with all that belongs to it."""

    class Leaver(Reader):
        def on_event(self, mask: int) -> None:
            self.close()

    leavers = [Leaver(loop, lambda data: None)]
    leavers[0].there.send(b"x")
    there = weakref.ref(leavers.pop())
    turns: list[bool] = []

    def turn(now: float) -> float:
        turns.append(there() is not None)
        if len(turns) == 2:
            loop.stop()
        return math.inf

    loop.run(turn)
    assert turns == [True, False], "before and after its event"


def test_input_that_a_handler_has_kept_is_reported_without_epoll(loop: Loop) -> None:
    kept = 3
    reader: Reader

    def read(data: bytes) -> None:
        assert data == b"x"

    class Keeper:
        def on_event(self, mask: int) -> None:
            nonlocal kept
            kept -= 1
            if kept:
                loop.again(reader.here.fileno())
            else:
                loop.stop()

        def abandon(self) -> None:
            """Not called."""

    reader = Reader(loop, read, low_priority=True)
    loop.register(reader.here.fileno(), Keeper(), EPOLLIN)  # takes over the descriptor
    loop.again(reader.here.fileno())
    run(loop)
    assert kept == 0


def test_kept_input_of_a_handler_that_was_replaced_is_not_reported(loop: Loop) -> None:
    reported: list[bytes] = []
    first = Reader(loop, reported.append, low_priority=True)
    loop.again(first.here.fileno())
    loop.replace(first.here.fileno(), Reader(loop, reported.append))
    loop.call_later(0.01, loop.stop)
    run(loop)
    assert not reported
