"""The time that a consumer takes for a delivery, from its settlements alone."""

from __future__ import annotations

import pytest

from waymesh_router.core.forwarding.speed import Speed


def work(speed: Speed, each: float, count: int, now: float = 10.0) -> float:
    """Settlements of a consumer that always has the next delivery."""
    for _ in range(count):
        now += each
        speed.settled(now)
    return now


def test_nothing_is_known_at_first() -> None:
    assert Speed().each == 0.0


def test_it_is_the_time_between_settlements() -> None:
    speed = Speed()
    speed.began(10.0)
    now = work(speed, 0.05, 20)
    assert speed.each == pytest.approx(0.05)
    work(speed, 0.005, 60, now)
    assert speed.each == pytest.approx(0.005, rel=0.1)


def test_the_time_without_deliveries_does_not_count() -> None:
    speed = Speed()
    for number in range(20):
        speed.began(100.0 * number)
        speed.settled(100.0 * number + 0.05)
    assert speed.each == pytest.approx(0.05)


def test_settlements_of_one_turn_share_the_time_since_the_turn_before() -> None:
    """A consumer of 1,000 a second, in turns of 5 ms."""
    speed, now = Speed(), 10.0
    speed.began(now)
    for _ in range(20):
        now += 0.005
        for _ in range(5):
            speed.settled(now)
    assert speed.each == pytest.approx(0.001)


def test_settlements_at_the_time_of_the_sending_take_some_time() -> None:
    speed = Speed()
    speed.began(10.0)
    speed.settled(10.0)
    assert 0.0 < speed.each < 1e-5


def test_a_consumer_that_settles_all_that_it_has_together_is_as_fast_as_one_that_does_not() -> None:
    """As proton clients do whose handlers block."""
    speed, now = Speed(), 10.0
    speed.began(now)
    for _ in range(3):
        now += 0.5
        for _ in range(10):
            speed.settled(now)
    speed.began(now)
    assert speed.each == pytest.approx(0.05)


def test_the_time_of_one_of_several_at_a_time_is_averaged() -> None:
    speed = Speed()
    speed.took(0.2)
    assert speed.each == pytest.approx(0.2)
    for _ in range(40):
        speed.took(0.1)
    assert speed.each == pytest.approx(0.1, rel=0.01)
    speed.took(0.0)
    assert speed.each > 0.0, "0 is: unknown"
