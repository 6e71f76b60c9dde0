"""All known link route addresses, of this router and of others, by their patterns."""

from __future__ import annotations

from waymesh_router.core.addresses.keys import link_route_pattern, outgoing_route
from waymesh_router.core.addresses.patterns import PatternTree


class RouteIndex:
    """Keys of link routes by pattern: one tree for each direction."""

    def __init__(self) -> None:
        self._trees: dict[bool, PatternTree[list[str]]] = {False: PatternTree(), True: PatternTree()}

    def add(self, key: str) -> None:
        """A link route became known."""
        tree, pattern = self._trees[outgoing_route(key)], link_route_pattern(key)
        keys = tree.get(pattern)
        if keys is None:
            tree.add(pattern, [key])
        else:
            keys.append(key)

    def remove(self, key: str) -> None:
        """No router has the link route any more."""
        tree, pattern = self._trees[outgoing_route(key)], link_route_pattern(key)
        keys = tree.get(pattern) or []
        keys.remove(key)
        if not keys:
            tree.remove(pattern)

    def match(self, address: str, outgoing: bool) -> list[str] | None:
        """Keys of the best matching link routes in one direction; None if no link route matches."""
        return self._trees[outgoing].match(address)

    def match_any(self, address: str) -> set[str]:
        """Keys of the best matching link routes of each direction."""
        return {key for tree in self._trees.values() for key in tree.match(address) or ()}

    def match_both(self, address: str) -> bool:
        """Whether link routes match the address in both directions."""
        return all(tree.match(address) for tree in self._trees.values())
