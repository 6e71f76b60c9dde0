"""Latency buckets as in an HDR histogram, and percentiles from them.

A time is counted exactly below LINEAR microseconds, above that in SUBBUCKETS buckets for each doubling. The middle of a
bucket is therefore within 1.6 % of every value in it. Buckets of several hours and routers are merged by addition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

SUBBUCKETS = 32
LINEAR = 2 * SUBBUCKETS
FIRST_OCTAVE = 5
"""log2(SUBBUCKETS)"""


def bucket_middle(bucket: int) -> float:
    """The value that represents a bucket."""
    if bucket < LINEAR:
        return float(bucket)
    octave = bucket // SUBBUCKETS - 1
    return float((bucket - octave * SUBBUCKETS) << octave) + (1 << octave) / 2


def percentiles(buckets: Mapping[int, float], shares: Sequence[float]) -> list[float]:
    """The values below which the given shares lie; `buckets`: bucket → weight, not empty; `shares` must ascend."""
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
