"""Retry delays of a connector."""

from __future__ import annotations

import itertools

import pytest

from waymesh_router.connections.retries import FIRST_S, LAST_S, SHARE, Retries

pytestmark = pytest.mark.engine_independent


def tries(retries: Retries, now: float, end: float) -> list[float]:
    """The times of all attempts until `end`; each fails at once."""
    found = []
    while now < end:
        now += retries.delay(now)
        found.append(now)
    return found


def test_a_peer_is_tried_again_within_a_tenth_of_the_time_it_was_away() -> None:
    for jitter in (0.0, 0.999):
        times = tries(Retries(lambda jitter=jitter: jitter, 100.0), 100.0, 200.0)  # type: ignore[misc]
        assert times[0] <= 100.0 + FIRST_S
        for before, after in itertools.pairwise(times):
            assert after - before <= max(FIRST_S, min(LAST_S, (before - 100.0) * SHARE)) + 1e-9
        assert max(after - before for before, after in itertools.pairwise(times)) >= LAST_S / 2


def test_two_minutes_cost_no_more_than_200_tries() -> None:
    assert len(tries(Retries(lambda: 0.0, 0.0), 0.0, 120.0)) <= 200


def test_delays_begin_anew_after_a_connection_that_lived() -> None:
    retries = Retries(lambda: 0.999, 0.0)
    assert retries.delay(100.0) > 1.9
    retries.connected(100.0)
    retries.lost(100.5)
    assert retries.delay(100.5) > 1.9, "a peer that accepts and closes is one that refuses"
    retries.connected(110.0)
    retries.lost(111.0)
    assert retries.delay(111.0) <= FIRST_S


def test_a_peer_that_accepts_and_ends_each_connection_is_tried_less_and_less() -> None:
    """It is away for no longer than the last try, so the time it was away does not count."""
    retries, now, found = Retries(lambda: 0.0, 0.0), 0.0, 0
    while now < 6.0:
        now += retries.delay(now)
        retries.connected(now)
        retries.lost(now)
        found += 1
    assert found <= 12
    assert retries.delay(now) <= LAST_S
