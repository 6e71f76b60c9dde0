"""Recent lines of the log: how many are kept, and in how many objects."""

from __future__ import annotations

import sys

import pytest

from waymesh_router.runtime.log.recent import PACKED_LINES, LogLine, RecentLines


def _line(number: int) -> LogLine:
    return LogLine("SERVER", "info", f"line {number}", "server.py", number, 1_000 + number)


def _filled(most: int, count: int) -> RecentLines:
    recent = RecentLines(most)
    for number in range(count):
        recent.append(_line(number))
    return recent


@pytest.mark.parametrize("most", [0, 1, PACKED_LINES - 1, PACKED_LINES, 3 * PACKED_LINES + 1])
@pytest.mark.parametrize("count", [0, 1, PACKED_LINES, 4 * PACKED_LINES, 7 * PACKED_LINES + 3])
def test_the_most_recent_lines_are_kept(most: int, count: int) -> None:
    recent = _filled(most, count)
    kept = [_line(number) for number in range(max(0, count - most), count)]
    assert recent.lines() == kept
    for limit in (0, 1, PACKED_LINES + 1, 2 * count):
        assert recent.lines(limit) == kept[max(0, len(kept) - limit) :]


@pytest.mark.parametrize("most", [0, 5, 10 * PACKED_LINES])
def test_another_maximum_keeps_the_most_recent(most: int) -> None:
    recent = _filled(4 * PACKED_LINES, 3 * PACKED_LINES + 5)
    recent.keep(most)
    assert recent.lines() == [_line(number) for number in range(3 * PACKED_LINES + 5)][max(0, 197 - most) :]


@pytest.mark.parametrize("count", [50 * PACKED_LINES, 51 * PACKED_LINES - 1])
def test_no_line_stays_an_object(count: int) -> None:
    """Each would keep a block of memory in use, among the objects of links that have ended since."""
    recent = _filled(100 * PACKED_LINES, 0)
    before = sys.getallocatedblocks()
    for number in range(count):
        recent.append(_line(number))
    assert sys.getallocatedblocks() - before <= count // PACKED_LINES + 8  # one object each: bytes
    assert len(recent.lines()) == count
