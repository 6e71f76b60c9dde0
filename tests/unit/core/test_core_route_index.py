"""The patterns of known link routes."""

from __future__ import annotations

from waymesh_router.core.addresses.route_index import RouteIndex


def test_a_key_is_found_by_its_pattern_in_its_direction_only() -> None:
    index = RouteIndex()
    index.add("Cb2")
    assert index.match("b2.queue", False) == ["Cb2"]
    assert index.match("b2.queue", True) is None
    assert index.match("b3.queue", False) is None
    assert not index.match_both("b2.queue")


def test_both_directions() -> None:
    index = RouteIndex()
    index.add("Cb2")
    index.add("Db2")
    assert index.match_any("b2.queue") == {"Cb2", "Db2"}
    assert index.match_both("b2.queue")


def test_a_prefix_and_an_equal_pattern_share_a_place() -> None:
    index = RouteIndex()
    index.add("Cb2")
    index.add("Eb2/#")
    assert index.match("b2", False) == ["Cb2", "Eb2/#"]
    index.remove("Cb2")
    assert index.match("b2", False) == ["Eb2/#"]
    index.remove("Eb2/#")
    assert index.match("b2", False) is None
