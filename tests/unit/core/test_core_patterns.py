"""The pattern tree against a plain search over all patterns. Routing chapter "Pattern Matching for Addresses"."""

from __future__ import annotations

import random
from itertools import product

import pytest

from waymesh_router.core.addresses.patterns import PatternTree, prefix_pattern, split_words

WORDS = ("a", "b", "*", "#")


def matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches(pattern[1:], words[n:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


def plain(patterns: list[str], address: str) -> str | None:
    found = [p for p in patterns if matches(tuple(split_words(p)), tuple(split_words(address)))]
    ranks = {"*": 1, "#": 2}
    return min(found, key=lambda p: (*(ranks.get(word, 0) for word in split_words(p)), 3), default=None)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_many_patterns_is_found(seed: int) -> None:
    rng = random.Random(seed)
    every = ["/".join(words) for n in range(1, 5) for words in product(WORDS, repeat=n)]
    patterns = rng.sample(every, 40)
    tree: PatternTree[str] = PatternTree()
    for pattern in patterns:
        tree.add(pattern, pattern)
    addresses = ["", *("/".join(words) for n in range(1, 6) for words in product("ab", repeat=n))]
    for round_ in range(2):
        for address in addresses:
            found, expected = tree.match(address), plain(patterns, address)
            assert found == expected or (found and expected and _equal(found, expected)), (round_, address)
        for pattern in patterns[:20]:
            tree.remove(pattern)
        patterns = patterns[20:]
    assert not tree._root.literals or patterns


def _equal(one: str, other: str) -> bool:
    """Of two patterns whose words are literal, `*` and `#` at the same places neither is better."""
    kinds = [["*#".find(word) for word in split_words(text)] for text in (one, other)]
    return kinds[0] == kinds[1]


def test_an_emptied_tree_is_empty() -> None:
    tree: PatternTree[int] = PatternTree()
    tree.add(prefix_pattern("a.b"), 1)
    tree.add("a/*/c", 2)
    assert (tree.match("a.b.c"), tree.match("a.x.c"), tree.get("a/b/#")) == (1, 2, 1)
    with pytest.raises(KeyError):
        tree.add("a.b.#", 3)
    tree.remove("a/b/#")
    assert tree.match("a.b.c") == 2
    tree.remove("a.*.c")
    assert tree.match("a.b.c") is None
    assert not tree._root.literals
    with pytest.raises(KeyError):
        tree.remove("a.*.c")


@pytest.mark.parametrize("prefix", ["a.b", "a.b.", "/a.b/", "//a.b..", "a/b/"])
def test_delimiters_at_the_ends_of_a_prefix_do_not_count(prefix: str) -> None:
    tree: PatternTree[int] = PatternTree()
    tree.add(prefix_pattern(prefix), 1)
    assert [tree.match(address) for address in ("a.b", "/a.b", "a.b.", "a.b.c")] == [1] * 4
    assert [tree.match(address) for address in ("a.bc", "a")] == [None] * 2
    with pytest.raises(KeyError):
        tree.add(prefix_pattern("a.b"), 2)
    tree.remove(prefix_pattern("a/b"))
    assert tree.match("a.b.c") is None


@pytest.mark.parametrize("pattern", ["a/*", "/a.*", "a.*//", "./a.*/."])
def test_delimiters_at_the_ends_of_a_pattern_do_not_count(pattern: str) -> None:
    tree: PatternTree[int] = PatternTree()
    tree.add(pattern, 1)
    assert [tree.match(address) for address in ("a.b", "/a.b", "//a.b", "a.b/")] == [1] * 4
    assert [tree.match(address) for address in ("a", "a.b.c")] == [None] * 2
    assert tree.get("a.*") == 1
