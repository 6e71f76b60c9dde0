"""Connections that have not opened yet are limited; the oldest one of the host with most of them is ended."""

from __future__ import annotations

import pytest

from waymesh_router.runtime.transport.opening import Opening

pytestmark = pytest.mark.engine_independent


class Crowd:
    """Connections by number. `ended`: those that were ended, in order."""

    def __init__(self, most: int) -> None:
        self.lines: list[str] = []
        self.ended: list[int] = []
        self.opening = Opening(most, lambda level, text: self.lines.append(level))

    def add(self, fd: int, host: str) -> None:
        def end(reason: str) -> None:
            assert "maxOpeningConnections" in reason
            self.ended.append(fd)
            self.opening.remove(fd)

        self.opening.add(fd, host, end)


def test_the_oldest_is_ended_where_there_is_one_too_many() -> None:
    crowd = Crowd(3)
    for fd in range(5):
        crowd.add(fd, "one")
    assert crowd.ended == [0, 1]
    assert len(crowd.opening) == 3


def test_a_host_with_many_does_not_end_those_of_others() -> None:
    crowd = Crowd(3)
    crowd.add(0, "other")
    for fd in range(1, 100):
        crowd.add(fd, "one")
    assert crowd.ended == list(range(1, 98))
    crowd.add(100, "third")
    assert crowd.ended[-1] == 98


def test_what_has_opened_does_not_count() -> None:
    crowd = Crowd(2)
    for fd in range(100):
        crowd.add(fd, "one")
        crowd.opening.remove(fd)
    assert crowd.ended == []
    assert len(crowd.opening) == 0


def test_ending_is_logged_when_it_starts_and_when_it_is_over() -> None:
    crowd = Crowd(4)
    for fd in range(50):
        crowd.add(fd, "one")
    assert crowd.lines == ["warning"]
    for fd in range(46, 49):
        crowd.opening.remove(fd)
    assert crowd.lines == ["warning", "notice"]
    assert crowd.opening.ended == 46
