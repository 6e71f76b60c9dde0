"""Which rules of a user group allow an address, and what it costs to find them."""

from __future__ import annotations

from typing import Any

import pytest

from waymesh_router.core.addresses.patterns import PatternTree
from waymesh_router.policy.decide import Request
from waymesh_router.policy.explain import explain
from waymesh_router.policy.links import LinkRequest
from waymesh_router.policy.names import MOST_NAMED, AllowedAddresses, allowing
from waymesh_router.policy.vhosts import parse_policy

pytestmark = pytest.mark.engine_independent
RULES = ("news", "news*", "*", "n*", "${user}", "${user}*", "a.{user}*", "news", "")
PATTERNS = ("#", "*", "news.*", "news.#", "news/#", "*.uk", "${user}.*", "a.{user}", "*.${user}", "news.*")


class Trees:
    """Makes pattern trees; counts them, and the patterns that were added to them."""

    def __init__(self) -> None:
        self.made = self.added = 0

    def __call__(self) -> PatternTree[str]:
        counts = self

        class Counted(PatternTree[str]):
            def add(self, pattern: str, value: str) -> None:
                counts.added += 1
                super().add(pattern, value)

        self.made += 1
        return Counted()


@pytest.mark.parametrize("user", ["", "ann", "*", "news"])
@pytest.mark.parametrize("address", ["", "news", "news.uk", "news/uk", "ann", "ann.x", "a.ann", "a.annex", "x.*", "no"])
def test_the_rules_that_are_named_are_those_that_allow_alone(user: str, address: str) -> None:
    alone = tuple(rule for rule in RULES if AllowedAddresses((rule,), (), user, PatternTree[str]).allow(address))
    assert allowing(RULES, (), user, PatternTree[str], address) == alone
    found = {rule for rule in PATTERNS if AllowedAddresses((), (rule,), user, PatternTree[str]).allow(address)}
    # Two with the same words are one rule.
    same = {rule.replace("/", ".") for rule in allowing((), PATTERNS, user, PatternTree[str], address)}
    assert same == {rule.replace("/", ".") for rule in found}


def test_a_check_builds_no_tree_for_each_pattern() -> None:
    """As many trees for many patterns as for few, and each pattern is added to two: to decide, and to name it."""
    for count in (10, 1000):
        trees = Trees()
        group = {"remoteHosts": "*", "sourcePattern": ", ".join(f"a{number}.*" for number in range(count))}
        vhost = {"hostname": "v", "allowUnknownUser": True, "groups": {"$default": group}}
        policy = parse_policy({"enableVhostPolicy": True}, [vhost], trees, lambda _: [])
        before = trees.made, trees.added
        found = explain(policy, Request("ann", "10.0.0.1", "v"), LinkRequest(True, ("a7.x",)))
        assert found.reasons[-1] == "sourcePattern allow 'a7.x': 'a7.*'"
        assert (trees.made - before[0], trees.added - before[1]) == (2, 2 * count)


def test_plain_rules_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many sets of rules for many addresses as for few: one for each direction."""
    made = []
    build = AllowedAddresses.__init__

    def counted(self: AllowedAddresses, *given: Any) -> None:
        made.append(self)
        build(self, *given)

    monkeypatch.setattr(AllowedAddresses, "__init__", counted)
    for count in (10, 1000):
        made.clear()
        group = {"remoteHosts": "*", "sources": ", ".join(f"a{number}" for number in range(count))}
        vhost = {"hostname": "v", "allowUnknownUser": True, "groups": {"$default": group}}
        policy = parse_policy({"enableVhostPolicy": True}, [vhost], PatternTree[str], lambda _: [])
        found = explain(policy, Request("ann", "10.0.0.1", "v"), LinkRequest(True, ("a7",)))
        assert found.reasons[-1] == "sources allow 'a7': 'a7'"
        assert len(made) == 2


def test_at_most_some_patterns_are_named() -> None:
    many = tuple("#." * number + "x" for number in range(3 * MOST_NAMED))
    assert len(allowing((), many, "", PatternTree[str], "x")) == MOST_NAMED
