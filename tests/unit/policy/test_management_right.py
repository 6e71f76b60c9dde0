"""The right to management that a listener and a user group give together."""

from __future__ import annotations

from itertools import product

import pytest

from waymesh_router.policy.management_right import RIGHTS, management_right

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize("default", RIGHTS)
def test_a_group_takes_the_place_of_the_default(default: str) -> None:
    assert management_right(None, default, None) == default
    assert [management_right(None, default, group) for group in RIGHTS] == list(RIGHTS)


@pytest.mark.parametrize(("listener", "default"), list(product(RIGHTS, RIGHTS)))
def test_the_listener_is_the_most_that_a_group_gives(listener: str, default: str) -> None:
    assert management_right(listener, default, None) == listener
    for group in RIGHTS:
        assert RIGHTS.index(management_right(listener, default, group)) == min(map(RIGHTS.index, (listener, group)))
