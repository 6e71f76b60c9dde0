"""The arithmetic of the reports, without Spark."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waymesh_analytics.report.statistics import cheapest_hops, jain, lost_between, robust_scores, theil_sen
from waymesh_analytics.rollups.buckets import FIRST_OCTAVE, LINEAR, SUBBUCKETS, bucket_middle, percentiles

pytestmark = pytest.mark.engine_independent


def bucket_of(value: int) -> int:
    """The bucket, reckoned with integers alone."""
    if value < LINEAR:
        return value
    octave = value.bit_length() - 1 - FIRST_OCTAVE
    return octave * SUBBUCKETS + (value >> octave)


@given(st.integers(min_value=0, max_value=1 << 40))
def test_the_middle_of_a_bucket_is_near_every_value_in_it(value: int) -> None:
    assert bucket_middle(bucket_of(value)) == pytest.approx(value, rel=1 / 64)


@given(st.lists(st.integers(min_value=0, max_value=1 << 30), min_size=1, max_size=200))
def test_percentiles_of_buckets_are_those_of_the_values(values: list[int]) -> None:
    buckets: dict[int, float] = {}
    for value in values:
        buckets[bucket_of(value)] = buckets.get(bucket_of(value), 0.0) + 1.0
    shares = (0.5, 0.9, 0.999)
    ranked = sorted(values)
    exact = [ranked[math.ceil(share * len(values)) - 1] for share in shares]
    for found, value in zip(percentiles(buckets, shares), exact):
        assert found == pytest.approx(value, rel=1 / 64)


def test_jain() -> None:
    assert jain([3, 3, 3]) == 1.0
    assert jain([5, 0, 0, 0]) == 0.25
    assert jain([0, 0]) == 1.0


def test_theil_sen_is_not_moved_by_one_value() -> None:
    assert theil_sen([1, 3, 5, 1000, 9]) == 2
    assert theil_sen([7]) == 0


def test_a_steady_series_has_no_outliers() -> None:
    assert max(map(abs, robust_scores([100, 100, 100, 101]))) < 1
    scores = robust_scores([100, 101, 99, 100, 500])
    assert max(scores[:4]) < 1
    assert scores[4] > 6


def test_cheapest_way_is_not_the_shortest() -> None:
    graph = {"A": {"B": 10, "C": 1}, "C": {"D": 1}, "D": {"B": 1}, "B": {}}
    assert cheapest_hops(graph, "A") == {"A": 0, "C": 1, "D": 2, "B": 3}
    assert cheapest_hops({"A": {"B": 2, "C": 1}, "C": {"B": 1}}, "A")["B"] == 1, "of equal costs the shorter one"


def test_lost_records() -> None:
    assert lost_between(first=1, last=10, count=10, from_start=True) == 0
    assert lost_between(first=4, last=10, count=7, from_start=True) == 3
    assert lost_between(first=4, last=10, count=6, from_start=False) == 1
