"""Finds all bindings whose key matches a subject."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")

AMQP, MQTT = "amqp", "mqtt"
_SEPARATORS = {AMQP: ".", MQTT: "/"}
_ONE = {AMQP: "*", MQTT: "+"}
_ANY = "#"


class _Branch(Generic[V]):
    """A node of the tree. `any`: the token is `#`; `values`: of the keys that end here."""

    __slots__ = ("any", "literals", "one", "rest", "values")

    def __init__(self, any_: bool = False) -> None:
        self.any = any_
        self.literals: dict[str, _Branch[V]] = {}
        self.one: _Branch[V] | None = None
        self.rest: _Branch[V] | None = None
        self.values: list[V] = []

    def empty(self) -> bool:
        return not (self.literals or self.one or self.rest or self.values)


class BindingKeys(Generic[V]):
    """Keys of tokens with `*` (method mqtt: `+`) for one token and `#` for any number of them, none included.

    Tokens are separated by `.` (mqtt: `/`) and may be empty. A match costs the number of tokens times the number of
    branches of the tree that are reached, however often `#` occurs in the keys.
    """

    def __init__(self, method: str) -> None:
        self._separator = _SEPARATORS[method]
        self._one = _ONE[method]
        self._last_only = method == MQTT
        self._root: _Branch[V] = _Branch()

    def check(self, key: str) -> None:
        """Raises ValueError if the key is invalid for this method."""
        tokens = key.split(self._separator)
        if self._last_only and _ANY in tokens[:-1]:
            raise ValueError("# must be the last token of the key")

    def add(self, key: str, value: V) -> None:
        """Add a value; a key may have several. Raises ValueError as `check` does."""
        self.check(key)
        branch = self._root
        for token in key.split(self._separator):
            branch = self._child(branch, token)
        branch.values.append(value)

    def remove(self, key: str, value: V) -> None:
        """Remove a value. Raises ValueError if the key does not have it."""
        path = [self._root]
        tokens = key.split(self._separator)
        for token in tokens:
            path.append(self._child(path[-1], token))
        path[-1].values.remove(value)
        while tokens and path.pop().empty():
            self._cut(path[-1], tokens.pop())

    def match(self, subject: str) -> list[V]:
        """The values of all keys that match."""
        reached = _with_rests([self._root])
        for token in subject.split(self._separator):
            following: list[_Branch[V]] = []
            for branch in reached:
                if token in branch.literals:
                    following.append(branch.literals[token])
                if branch.one is not None:
                    following.append(branch.one)
                if branch.any:
                    following.append(branch)
            if not following:
                return []
            reached = _with_rests(following)
        return [value for branch in reached for value in branch.values]

    def _child(self, branch: _Branch[V], token: str) -> _Branch[V]:
        """The child for a token, created if needed."""
        if token == self._one:
            branch.one = branch.one or _Branch()
            return branch.one
        if token == _ANY:
            branch.rest = branch.rest or _Branch(True)
            return branch.rest
        return branch.literals.setdefault(token, _Branch())

    def _cut(self, branch: _Branch[V], token: str) -> None:
        if token == self._one:
            branch.one = None
        elif token == _ANY:
            branch.rest = None
        else:
            del branch.literals[token]


def _with_rests(branches: list[_Branch[V]]) -> dict[_Branch[V], None]:
    """The branches without duplicates, and those that follow when `#` matches no token."""
    found: dict[_Branch[V], None] = {}
    for start in branches:
        branch: _Branch[V] | None = start
        while branch is not None and branch not in found:
            found[branch] = None
            branch = branch.rest
    return found
