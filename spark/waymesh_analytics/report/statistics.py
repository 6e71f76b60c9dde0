"""The arithmetic of the report on small numbers of values; without Spark, so that it can be tested alone."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

MAD_TO_SIGMA = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation (MAD)."""

Graph = Mapping[str, Mapping[str, int]]
"""Router → neighbour → cost."""


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 where all are equal, 1/n where one has everything."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def robust_scores(values: Sequence[float], floor: float = 0.1) -> list[float]:
    """The distance of each value from the median, in standard deviations estimated by the MAD.

    The estimate is at least `floor` times the median, so that tiny changes of a steady series get low scores.
    """
    middle = median(values)
    sigma = MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    unit = max(sigma, floor * abs(middle), 1e-9)
    return [(value - middle) / unit for value in values]


def theil_sen(values: Sequence[float]) -> float:
    """Return the median slope between all pairs of values, which are one step apart; 0 for fewer than two values."""
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(len(values)), 2)]
    return median(slopes) if slopes else 0.0


def cheapest_hops(graph: Graph, source: str) -> dict[str, int]:
    """The hops of the cheapest path to each router; of paths with equal cost, the shortest."""
    best: dict[str, tuple[int, int]] = {source: (0, 0)}
    queue: list[tuple[int, int, str]] = [(0, 0, source)]
    while queue:
        cost, hops, here = heapq.heappop(queue)
        if (cost, hops) > best[here]:
            continue
        for there, step in graph.get(here, {}).items():
            path = (cost + step, hops + 1)
            if there not in best or path < best[there]:
                best[there] = path
                heapq.heappush(queue, (*path, there))
    return {name: hops for name, (_, hops) in best.items()}


def lost_between(first: int, last: int, count: int, from_start: bool) -> int:
    """How many records of a gapless sequence are missing; `from_start`: the sequence should begin with 1."""
    begin = 1 if from_start else first
    return max(0, last - begin + 1 - count)
