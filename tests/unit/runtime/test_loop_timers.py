"""Timers of the loop: in order, once, and stored no longer than they are needed."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator

import pytest

from waymesh_router.runtime.loop import Loop, Timer

LATER_S = 3600.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    try:
        yield made
    finally:
        made.close()


def stored() -> int:
    """Timers of all loops."""
    gc.collect()
    return sum(isinstance(one, Timer) for one in gc.get_objects())


def run_until(loop: Loop, when: float) -> None:
    """Run what is due by then."""
    loop.call_at(when, loop.stop)
    loop.run(lambda now: now)


def test_cancelled_timers_are_not_stored_until_they_are_due(loop: Loop) -> None:
    """Each was made beside a flood, and kept a block of 1 MiB of Python's allocator."""
    before = stored()
    kept = [loop.call_later(LATER_S, lambda: None) for _ in range(5)]
    for _ in range(1000):
        loop.call_later(LATER_S, lambda: None).cancel()
    assert stored() - before <= 2 * len(kept)
    for timer in kept:
        timer.cancel()
    del kept, timer
    assert stored() == before


@pytest.mark.parametrize("seed", range(5))
def test_the_others_run_in_order(loop: Loop, seed: int) -> None:
    rng = random.Random(seed)
    begin = loop.now()
    ran: list[float] = []
    timers = {}
    for _ in range(300):
        when = begin - rng.random()
        timers[when] = loop.call_at(when, lambda when=when: ran.append(when))  # type: ignore[misc]
    cancelled = set(rng.sample(sorted(timers), 200))
    for when in cancelled:
        timers[when].cancel()
        timers[when].cancel()
    run_until(loop, begin)
    assert ran == sorted(set(timers) - cancelled)


def test_a_timer_that_is_due_cancels_others(loop: Loop) -> None:
    """One that is due in the same turn, one that has run, and itself; what is stored is still counted right."""
    ran: list[str] = []
    begin = loop.now()
    before = stored()

    def cancel() -> None:
        ran.append("second")
        for timer in timers:
            timer.cancel()

    timers = [
        loop.call_at(begin - 3, lambda: ran.append("first")),
        loop.call_at(begin - 2, cancel),
        loop.call_at(begin - 1, lambda: ran.append("third")),
        loop.call_at(begin + LATER_S, lambda: ran.append("fourth")),
    ]
    run_until(loop, begin)
    assert ran == ["first", "second"]
    timers.clear()
    kept = loop.call_later(LATER_S, lambda: None)
    for _ in range(100):
        loop.call_later(LATER_S, lambda: None).cancel()
    assert stored() - before <= 2
    kept.cancel()
