"""Ranges of settled delivery-ids, which are serial numbers. Spec: 2.8.10 (RFC 1982), 2.7.6."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from waymesh_amqp.outcome_ranges import OutcomeRanges

WRAP = 1 << 32
anywhere = st.integers(0, WRAP - 1)
near = st.lists(st.integers(0, 300), min_size=1, max_size=60)
around = st.lists(st.integers(0, 6) | st.integers(1010, 1040) | st.integers(2030, 2070), min_size=1, max_size=60)
"""Both sides of what can be marked, wherever the first one is."""


def taken(ranges: OutcomeRanges) -> list[tuple[int, int]]:
    """All ranges, in order."""
    found = []
    while ranges.take():
        found.append((ranges.first, ranges.last))
    return found


def merged(ids: list[int]) -> list[tuple[int, int]]:
    ranges = OutcomeRanges()
    for did in ids:
        ranges.add(did)
    return taken(ranges)


def ids_in(ranges: list[tuple[int, int]]) -> list[int]:
    """Each id of each range, in the order of the ranges."""
    return [(first + i) % WRAP for first, last in ranges for i in range((last - first) % WRAP + 1)]


def by_set(offsets: list[int], base: int) -> list[tuple[int, int]]:
    """The same by a slow and obvious way, for ids base + offset."""
    there = set(offsets)
    starts = sorted(i for i in there if i - 1 not in there)
    ends = sorted(i for i in there if i + 1 not in there)
    return [((base + a) % WRAP, (base + z) % WRAP) for a, z in zip(starts, ends, strict=True)]


@settings(deadline=None)
@given(base=anywhere, offsets=near)
@example(base=WRAP - 2, offsets=[5, 6, 0, 1, 2, 3])
@example(base=WRAP - 1, offsets=[1, 0])
@example(base=0x7FFFFFFF, offsets=[2, 1, 0, 1])
def test_ids_that_are_close_together_make_the_fewest_ranges(base: int, offsets: list[int]) -> None:
    assert merged([(base + i) % WRAP for i in offsets]) == by_set(offsets, base)


@settings(deadline=None)
@given(base=anywhere, offsets=around)
@example(base=WRAP - 1024, offsets=[1024, 2047, 0, 2048, 1023])
@example(base=5, offsets=[0, 1023, 1024, 1025])
def test_ids_that_are_further_apart_make_the_fewest_ranges_too(base: int, offsets: list[int]) -> None:
    assert merged([(base + i) % WRAP for i in offsets]) == by_set(offsets, base)


@pytest.mark.parametrize("length", [1023, 1024, 1025, 2048, 5000])
def test_a_long_range_before_others(length: int) -> None:
    base = WRAP - 700
    offsets = [*range(length), length + 1, *range(length + 3, 2 * length)]
    assert merged([(base + i) % WRAP for i in offsets]) == by_set(offsets, base)


@settings(deadline=None)
@given(ids=st.lists(anywhere, min_size=1, max_size=30))
@example(ids=[0, 0x80000000, 0x7FFFFFFF, 0x80000001])
@example(ids=[5, 0x80000004, 0x80000005, 0x80000006])
def test_no_range_has_an_id_that_was_not_settled(ids: list[int]) -> None:
    """Not even for ids that are so far apart that serial numbers have no order any more."""
    assert set(ids_in(merged(ids))) == set(ids)


def test_the_wrap_of_the_report() -> None:
    assert merged([3, 4, 0xFFFFFFFE, 0xFFFFFFFF, 0, 1]) == [(0xFFFFFFFE, 1), (3, 4)]


def test_nothing_was_settled() -> None:
    assert merged([]) == []


@pytest.mark.parametrize("first", [0, 7, WRAP - 1, WRAP - 3])
def test_ids_in_order_are_one_range(first: int) -> None:
    ranges = OutcomeRanges()
    for i in range(5):
        ranges.add((first + i) % WRAP)
    assert ranges.single()
    assert (ranges.first, ranges.last) == (first, (first + 4) % WRAP)
    ranges.clear()
    assert not ranges.pending
    ranges.add(2)
    ranges.add(9)
    assert not ranges.single()
    assert taken(ranges) == [(2, 2), (9, 9)]


@pytest.mark.parametrize("ids", [[5, 9, 2], [5, 9, 50_000, 2]])
def test_after_clear_nothing_is_left_of_earlier_ids(ids: list[int]) -> None:
    ranges = OutcomeRanges()
    for did in ids:
        ranges.add(did)
    assert len(taken(ranges)) == len(ids)
    ranges.clear()
    assert ranges.single()
    for did in (7, 6):
        ranges.add(did)
    assert taken(ranges) == [(6, 7)]
