"""Changes of another router's addresses, applied in portions."""

from __future__ import annotations

from waymesh_router.core.addresses.later_changes import CHANGES_AT_ONCE, LaterChanges
from waymesh_router.core.portions import Portions


def test_changes_are_applied_in_order_some_in_each_turn() -> None:
    portions = Portions()
    applied: list[int] = []
    changes = LaterChanges(applied.append)
    changes.waiting.extend(range(CHANGES_AT_ONCE + 1))
    portions.add(changes)
    portions.run()
    assert applied == list(range(CHANGES_AT_ONCE))
    portions.run()
    assert applied == list(range(CHANGES_AT_ONCE + 1))
    assert (str(changes), changes.step(), bool(portions)) == ("addresses of another router", 0, False)
