"""Which patterns of link routes a pattern in a user group includes."""

from __future__ import annotations

import pytest

from waymesh_schema.address_match import covers, matches_all

pytestmark = pytest.mark.engine_independent


@pytest.mark.parametrize(
    ("wide", "pattern", "expected"),
    [
        ("#", "a.b", True),
        ("#", "#", True),
        ("a.#", "a/b/#", True),
        ("a.#", "a", True),
        ("a.*", "a.b", True),
        ("a.*", "a.*", True),
        ("a.#.b", "a.x.#.b", True),
        ("a.b", "/a/b/", True),
        ("a.#", "#", False),
        ("a.#", "ab.#", False),
        ("a.#", "*.#", False),
        ("a.*", "a.#", False),
        ("a.*", "a", False),
        ("a.b", "a.*", False),
        ("a.b", "a.b.c", False),
        ("", "a", False),
    ],
)
def test_a_pattern_includes_what_it_matches(wide: str, pattern: str, expected: bool) -> None:
    assert covers(wide, pattern) == expected


def test_a_pattern_of_thousands_of_words_is_answered() -> None:
    assert covers("#.a.#", "a." * 5000 + "a")


def test_only_patterns_without_another_word_match_everything() -> None:
    found = {pattern: matches_all(pattern) for pattern in ("#", "/#/#", "*.#", "a.#", "")}
    assert found == {"#": True, "/#/#": True, "*.#": False, "a.#": False, "": False}
