"""Addresses that a user may use: lists and patterns, which may contain the user's name. Dispatch book 3.6.4."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

RESERVED = ("_local/", "_topo/", "_edge/", "_local.", "_topo.", "_edge.", "$management")
"""Beginnings of the addresses that are reserved for routers, in addresses and in patterns."""
MOST_NAMED = 20
"""Number of patterns that are named as those that allow an address."""
_USER = re.compile(r"\$\{user\}|\{user\}")


class Patterns(Protocol):
    """The part of the router's pattern tree that policy uses."""

    def add(self, pattern: str, value: str) -> None: ...
    def remove(self, pattern: str) -> None: ...
    def match(self, address: str) -> str | None: ...


NewPatterns = Callable[[], Patterns]


class AllowedAddresses:
    """The rules of a group for one direction and one user. Without rules, no address is allowed."""

    __slots__ = ("_exact", "_patterns", "_prefixes", "every")

    def __init__(self, rules: Sequence[str], patterns: Sequence[str], user: str, tree: NewPatterns) -> None:
        self.every = "*" in rules or "#" in patterns
        """Whether all addresses are allowed."""
        self._exact: set[str] = set()
        prefixes: list[str] = []
        # Wildcards are recognized before the name is inserted, so that a user named `*` gains nothing.
        for rule in rules:
            if not user and _USER.search(rule):
                continue  # with an empty name, `${user}*` would allow everything
            if rule.endswith("*"):
                prefixes.append(with_user(rule[:-1], user))
            else:
                self._exact.add(with_user(rule, user))
        self._prefixes = tuple(prefixes)
        self._patterns: Patterns | None = None
        filled = {with_user(pattern, user) for pattern in patterns if _safe(pattern, user)}
        if filled:
            self._patterns = tree()
            for pattern in filled:
                try:
                    self._patterns.add(pattern, pattern)
                except KeyError:  # equal words with another delimiter: the same rule
                    continue

    def names_reserved(self, address: str) -> bool:
        """Whether a rule that itself names an address reserved for routers allows this one: `*` and `#` do not."""
        if address in self._exact:
            return True
        if any(prefix.startswith(RESERVED) and address.startswith(prefix) for prefix in self._prefixes):
            return True
        pattern = None if self._patterns is None else self._patterns.match(address)
        return pattern is not None and pattern.startswith(RESERVED)

    def allow(self, address: str) -> bool:
        if address in self._exact or address.startswith(self._prefixes):
            return True
        return self._patterns is not None and self._patterns.match(address) is not None


def allowing(
    rules: Sequence[str], patterns: Sequence[str], user: str, tree: NewPatterns, address: str
) -> tuple[str, ...]:
    """The rules that allow an address, in their order, and at most `MOST_NAMED` patterns, each as it was configured.

    The time is that of one `AllowedAddresses`, however many rules there are.
    """
    found = [rule for rule in rules if _allows(rule, user, address)]
    filled = {pattern: with_user(pattern, user) for pattern in patterns if _safe(pattern, user)}
    left = tree()
    for text in dict.fromkeys(filled.values()):
        with suppress(KeyError):  # equal words with another delimiter: the same rule
            left.add(text, text)
    matching: set[str] = set()
    while len(matching) < MOST_NAMED and (best := left.match(address)) is not None:
        left.remove(best)
        matching.add(best)
    return (*found, *(pattern for pattern, text in filled.items() if text in matching))


def _allows(rule: str, user: str, address: str) -> bool:
    """Whether a rule that is no pattern allows the address, as in `AllowedAddresses`."""
    if not user and _USER.search(rule):
        return False
    if rule.endswith("*"):
        return address.startswith(with_user(rule[:-1], user))
    return address == with_user(rule, user)


def with_user(rule: str, user: str) -> str:
    """The rule with the leftmost `${user}` or `{user}` replaced by the name, once."""
    return _USER.sub(lambda _: user, rule, count=1)


def _safe(pattern: str, user: str) -> bool:
    """Whether the name can be inserted: with a wildcard or an empty word, the pattern would match other names too."""
    return not _USER.search(pattern) or ("*" not in user and "#" not in user and all(re.split(r"[./]", user)))
