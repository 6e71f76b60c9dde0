"""What one link of a container may take in advance, from the deliveries that were accepted."""

from __future__ import annotations

from typing import Any

from waymesh_router.core.forwarding.pace import Pace


def paced(now: float = 10.0) -> Pace:
    changed: list[Any] = []
    return Pace(now, changed)


def work(pace: Pace, each: float, count: int, now: float) -> float:
    """Deliveries that are accepted one by one."""
    for _ in range(count):
        now += each
        pace.accepted()
        pace.look(now)
    return now


def test_one_delivery_at_first() -> None:
    pace = paced()
    pace.look(11.0)
    assert (pace.ahead, pace.room) == (1, 0)


def test_it_is_what_was_accepted_in_a_quarter_of_a_second() -> None:
    pace = paced()
    work(pace, 0.001, 100, 10.0)
    assert 240 <= pace.ahead <= 260


def test_long_jobs_are_not_taken_in_advance() -> None:
    pace = paced()
    work(pace, 0.5, 20, 10.0)
    assert pace.ahead == 1


def test_many_that_end_together_are_not_fast() -> None:
    """Twenty workers have begun together and end within some milliseconds, a minute later, and again."""
    pace = paced()
    now = 10.0
    for _ in range(3):
        now = work(pace, 0.001, 20, now + 60.0)
        assert pace.ahead == 1


def test_it_falls_when_work_becomes_slow() -> None:
    pace = paced()
    now = work(pace, 0.001, 100, 10.0)
    now = work(pace, 1.0, 1, now)
    assert pace.ahead <= 5
    work(pace, 1.0, 1, now)
    assert pace.ahead == 1


def test_what_was_measured_is_forgotten_when_nothing_comes() -> None:
    pace = paced()
    now = work(pace, 0.001, 101, 10.0)
    pace.rest(now + 0.5)
    assert pace.ahead > 1
    pace.look(now + 0.6)
    pace.rest(now + 2.0)
    assert pace.ahead == 1


def test_what_is_sent_takes_room() -> None:
    changed: list[Any] = []
    pace = Pace(10.0, changed)
    pace.room = 2
    for _ in range(3):
        pace.sent("link")
    assert pace.room == 0
    assert changed == ["link"], "each link is listed once in a turn"
    pace.look(10.0)
    pace.touch("link")
    assert changed == ["link", "link"]
