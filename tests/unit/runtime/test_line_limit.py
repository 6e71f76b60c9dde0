"""The limit for the log lines that one unauthorized host can cause."""

from __future__ import annotations

import pytest

from waymesh_router.events.line_limit import OTHERS, LineLimit

pytestmark = pytest.mark.engine_independent


def written(limit: LineLimit, host: str, times: int, now: float) -> int:
    return sum(limit.admits(host, now) for _ in range(times))


def test_lines_of_each_host_are_counted_on_their_own() -> None:
    limit = LineLimit(most=3, window_s=60)
    assert [written(limit, host, 5, 10.0) for host in ("a", "b")] == [3, 3]
    assert written(limit, "a", 5, 69.9) == 0


def test_the_number_that_was_left_out_is_told_once_when_the_window_ends() -> None:
    limit = LineLimit(most=3, window_s=60)
    written(limit, "noisy", 10, 0.0)
    written(limit, "quiet", 3, 30.0)
    assert limit.ended(59.9) == []
    assert limit.ended(60.0) == [("noisy", 7)]
    assert limit.ended(60.0) == []
    assert limit.ended(1000.0) == [], "the quiet one had all its lines"
    assert written(limit, "noisy", 5, 1000.0) == 3


def test_a_clock_that_was_set_back_ends_the_windows() -> None:
    limit = LineLimit(most=1, window_s=60)
    written(limit, "a", 2, 5000.0)
    assert limit.ended(10.0) == [("a", 1)]
    assert written(limit, "a", 2, 10.0) == 1


def test_many_hosts_share_one_limit_and_take_no_more_memory() -> None:
    limit = LineLimit(most=2, window_s=60, most_hosts=3)
    assert [written(limit, f"h{number}", 3, 0.0) for number in range(5)] == [2, 2, 2, 2, 0]
    assert written(limit, "h0", 1, 1.0) == 0
    assert limit.ended(60.0) == [("h0", 2), ("h1", 1), ("h2", 1), (OTHERS, 4)]


def test_the_end_tells_of_all_windows() -> None:
    limit = LineLimit(most=1)
    written(limit, "a", 3, 0.0)
    written(limit, "b", 1, 0.0)
    assert limit.end() == [("a", 2)]
    assert limit.end() == []
