"""Numbers in messages about demand."""

from __future__ import annotations

import pytest

from waymesh_router.core.forwarding.demand_messages import MOST, number


@pytest.mark.parametrize("value", [None, "7", 1.5, True, -1, [], {}, b"1"])
def test_what_is_no_number_counts_as_0(value: object) -> None:
    assert number({"window": value}, "window") == 0


def test_numbers_are_limited() -> None:
    assert number({}, "window") == 0
    assert number({"window": 7}, "window", MOST) == 7
    assert number({"window": 1 << 64}, "window", MOST) == MOST
    assert number({"at": 1 << 70}, "at") < 1 << 63
