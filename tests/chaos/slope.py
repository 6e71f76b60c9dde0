"""Whether a figure that was read again and again grows: pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median

WARM_UP = 0.2
"""The share of readings that do not count: caches fill."""


def slope(values: Sequence[float]) -> float:
    """The median of the slopes between all pairs, per reading (Theil and Sen): outliers do not matter."""
    pairs = itertools.combinations(enumerate(values), 2)
    found = [(later - earlier) / (j - i) for (i, earlier), (j, later) in pairs]
    return median(found) if found else 0.0


def growth(values: Sequence[float]) -> float:
    """How much it grew by its slope over all readings after the warm-up, as a share of their median."""
    counted = _warm(values)
    level = median(counted) if counted else 0.0
    if not level:
        return 0.0 if not counted or max(counted) == 0 else 1.0
    return slope(counted) * (len(counted) - 1) / level


def step(values: Sequence[float]) -> float:
    """How much higher the last third of the readings after the warm-up is than the first, by their medians."""
    counted = _warm(values)
    third = max(1, len(counted) // 3)
    return median(counted[-third:]) - median(counted[:third])


def grows(values: Sequence[float], allowed: float) -> bool:
    """Whether the growth is above the allowed share, and the last third of the readings is above the first, too."""
    counted = _warm(values)
    third = max(1, len(counted) // 3)
    return growth(values) > allowed and step(values) > median(counted[:third]) * allowed / 2


def _warm(values: Sequence[float]) -> Sequence[float]:
    return values[int(len(values) * WARM_UP) :]
