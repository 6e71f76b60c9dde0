"""Tables give back the memory of what has gone."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from waymesh_amqp.tables import LARGE_BYTES, shrink, shrink_all

MANY = 50_000


@pytest.mark.parametrize("table", [dict.fromkeys(range(MANY)), set(range(MANY))])
def test_a_table_without_most_of_its_entries_shrinks(table: Any) -> None:
    for key in range(3, MANY):
        table.discard(key) if isinstance(table, set) else table.pop(key)
    assert sys.getsizeof(table) > 1 << 20
    shrink(table)
    assert list(table) == [0, 1, 2]
    assert sys.getsizeof(table) < LARGE_BYTES


def test_a_table_with_many_entries_stays() -> None:
    full = dict.fromkeys(range(MANY))
    half = dict.fromkeys(range(MANY))
    for key in range(MANY // 2):
        del half[key]
    before = sys.getsizeof(full), sys.getsizeof(half)
    shrink_all(full, half)
    assert (sys.getsizeof(full), sys.getsizeof(half)) == before
