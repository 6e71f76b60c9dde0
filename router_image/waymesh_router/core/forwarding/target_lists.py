"""The remote routers with consumers of an address that a message can go to: computed again only after a change.

`paths` counts changes of the paths to remote routers, see `ConsumerChoice.paths`. Routing chapter, "Distribution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from waymesh_router.core.model import Address, Node, RouterConnection, Target

LIMITLESS = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
"""Larger than any cost of a path."""


def nearest(address: Address, paths: cython.longlong) -> list[Target]:
    """The targets with the lowest cost."""
    forget_old_paths(address, paths)
    if address.nearest is None:
        target: Target
        reachable: list[Target] = []
        least: cython.longlong = LIMITLESS
        for t in address.targets.values():
            target = t
            if target.neighbour() is not None and target.node.cost <= least:
                if target.node.cost < least:
                    reachable = []
                    least = target.node.cost
                reachable.append(target)
        address.nearest = reachable
    return address.nearest


def ways(address: Address, paths: cython.longlong) -> list[Target]:
    """One target for each neighbour that leads to remote consumers, for messages that enter the mesh here."""
    forget_old_paths(address, paths)
    if address.ways is None:
        target: Target
        found: dict[RouterConnection | None, Target] = {}
        for t in address.targets.values():
            target = t
            neighbour: Node | None = target.neighbour()
            if neighbour is not None:
                found.setdefault(neighbour.connection, target)
        address.ways = list(found.values())
    return address.ways


def forget_old_paths(address: Address, paths: cython.longlong) -> None:
    """Forget what was computed by paths that have changed since."""
    if address.nearest_by != paths:
        address.nearest = address.ways = None
        address.nearest_by = paths
