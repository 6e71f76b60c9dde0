"""Vhosts of files with overlapping patterns: the first one wins."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.overlaps import FirstPatterns

pytestmark = pytest.mark.engine_independent


def taken(*vhosts: dict[str, Any]) -> tuple[list[tuple[str, str]], list[str]]:
    """Host names and aliases that are left, and the warnings."""
    first = FirstPatterns(PatternTree[str])
    kept, warnings = [], []
    for vhost in vhosts:
        found, more = first.take({"aliases": "", **vhost})
        warnings += more
        if found is not None:
            kept.append((found["hostname"], found["aliases"]))
    return kept, warnings


def test_the_first_vhost_with_a_pattern_wins() -> None:
    kept, warnings = taken({"hostname": "*.a.b"}, {"hostname": "*/a/b"}, {"hostname": "*.a.c"})
    assert kept == [("*.a.b", ""), ("*.a.c", "")]
    assert warnings == ["vhost */a/b: is left out, because its pattern is that of vhost *.a.b"]


def test_an_alias_with_the_pattern_of_an_earlier_vhost_is_left_out() -> None:
    kept, warnings = taken({"hostname": "#.x"}, {"hostname": "y", "aliases": "z, #/x"})
    assert kept == [("#.x", ""), ("y", "z")]
    assert warnings == ["vhost y aliases: #/x is left out, because its pattern is that of vhost #.x"]


def test_other_names_of_a_vhost_whose_host_name_is_left_out_keep_its_rights() -> None:
    """They would be names of clients of the default vhost, which may allow more."""
    kept, warnings = taken({"hostname": "*.x"}, {"hostname": "*/x", "aliases": "y, z"})
    assert kept == [("*.x", ""), ("y", "z")]
    assert warnings == [
        "vhost */x: is left out, because its pattern is that of vhost *.x; it stays for its other names, as vhost y"
    ]
    kept, _ = taken({"hostname": "*.x", "aliases": "#.y"}, {"hostname": "*/x", "aliases": "#/y"})
    assert kept == [("*.x", "#.y")]


def test_patterns_that_only_match_common_names_stay() -> None:
    """The best match decides between them."""
    assert taken({"hostname": "*.b"}, {"hostname": "a.*"}, {"hostname": "#"}) == (
        [("*.b", ""), ("a.*", ""), ("#", "")],
        [],
    )


def test_equal_names_stay_and_are_refused_later() -> None:
    """Which of two vhosts with one name is meant cannot be known."""
    kept, warnings = taken({"hostname": "a"}, {"hostname": "b", "aliases": "a"}, {"hostname": ""}, {"hostname": ""})
    assert kept == [("a", ""), ("b", "a"), ("", ""), ("", "")]
    assert warnings == []
