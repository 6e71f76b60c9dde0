"""Waiting for a condition: how often it looks, and what it says when nothing comes."""

from __future__ import annotations

import pytest

from tests.kit import waiting

pytestmark = pytest.mark.engine_independent


class Clock:
    """Stands in for the module `time`: it goes by pauses, and by looks that take `look_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look_s: float) -> None:
        self.now = 0.0
        self.look_s = look_s
        self.pauses: list[float] = []
        monkeypatch.setattr(waiting, "time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def look(self) -> bool:
        """The condition: it never holds."""
        self.now += self.look_s
        return False


def test_first_true_value_is_returned_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 0)
    assert waiting.wait_until(lambda: "it") == "it"
    assert clock.pauses == []


@pytest.mark.parametrize(("look_s", "longest_s"), [(0.0, 0.05), (0.01, 0.05), (0.2, 0.4), (3.0, waiting.MAX_PAUSE_S)])
def test_looks_that_take_long_are_made_less_often(
    monkeypatch: pytest.MonkeyPatch, look_s: float, longest_s: float
) -> None:
    clock = Clock(monkeypatch, look_s)
    with pytest.raises(AssertionError, match="not within 20 s: a miracle"):
        waiting.wait_until(clock.look, 20, "a miracle")
    assert max(clock.pauses) == pytest.approx(longest_s)
    assert min(clock.pauses) >= min(2 * look_s, waiting.MAX_PAUSE_S) - 1e-9
    assert clock.now <= 20 + 2 * look_s + longest_s
