"""The arithmetic of the reports on small numbers of values; no Spark, so that it can be tested by itself.

Times are counted in buckets as in an HDR histogram: exact below LINEAR microseconds, then SUBBUCKETS for each doubling,
so that the middle of a bucket is within 1.6 % of every value in it. Buckets of hours and routers are merged by adding.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

SUBBUCKETS = 32
LINEAR = 2 * SUBBUCKETS
FIRST_OCTAVE = 5
"""log2(SUBBUCKETS)"""
MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation in units of its median absolute deviation."""

Graph = Mapping[str, Mapping[str, int]]
"""Router → neighbour → cost."""


def bucket_middle(bucket: int) -> float:
    """The value that a bucket stands for."""
    if bucket < LINEAR:
        return float(bucket)
    octave = bucket // SUBBUCKETS - 1
    return float((bucket - octave * SUBBUCKETS) << octave) + (1 << octave) / 2


def percentiles(buckets: Mapping[int, float], shares: Sequence[float]) -> list[float]:
    """The values below which the given shares lie; `buckets`: bucket → weight, not empty. `shares` ascend."""
    total = math.fsum(buckets.values())
    ordered = sorted(buckets.items())
    found: list[float] = []
    passed, index = ordered[0][1], 0
    for share in shares:
        while passed < share * total * (1 - 1e-12) and index + 1 < len(ordered):
            index += 1
            passed += ordered[index][1]
        found.append(bucket_middle(ordered[index][0]))
    return found


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 where all are equal, 1/n where one has everything."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else 1.0


def robust_scores(values: Sequence[float], floor: float = 0.1) -> list[float]:
    """How far each is from the median, in standard deviations estimated by the MAD; a deviation of less than `floor`
    of the median is never counted as the usual one, so that a steady series does not make a noise of nothing."""
    middle = median(values)
    usual = MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    unit = max(usual, floor * abs(middle), 1e-9)
    return [(value - middle) / unit for value in values]


def theil_sen(values: Sequence[float]) -> float:
    """The median of the slopes between any two values, which lie one step apart; 0 for fewer than two."""
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(len(values)), 2)]
    return median(slopes) if slopes else 0.0


def cheapest_hops(graph: Graph, source: str) -> dict[str, int]:
    """Steps of the cheapest way to each router; of equally cheap ones, of the shortest."""
    best: dict[str, tuple[int, int]] = {source: (0, 0)}
    queue: list[tuple[int, int, str]] = [(0, 0, source)]
    while queue:
        cost, hops, here = heapq.heappop(queue)
        if (cost, hops) > best[here]:
            continue
        for there, step in graph.get(here, {}).items():
            way = (cost + step, hops + 1)
            if there not in best or way < best[there]:
                best[there] = way
                heapq.heappush(queue, (*way, there))
    return {name: hops for name, (_, hops) in best.items()}


def lost_between(first: int, last: int, count: int, from_start: bool) -> int:
    """Records that are missing of a gapless sequence; `from_start`: it should begin with 1."""
    begin = 1 if from_start else first
    return max(0, last - begin + 1 - count)
