"""The remote routers with consumers of an address that a message can go to: computed again only after a change.

`paths` counts changes of the paths to remote routers, see `ConsumerChoice.paths`. Routing chapter, "Distribution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from waymesh_router.core.forwarding.annotations import Annotations
    from waymesh_router.core.model import Address, Node, RouterConnection, Target

LIMITLESS = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
"""Larger than any cost of a path."""
LAST = cython.declare(cython.longlong, -0x7FFFFFFFFFFFFFFE)
"""The rank of a router without room, for deliveries that windows do not limit."""
BY_LOAD = cython.declare(cython.int, 1)
BY_RANK = cython.declare(cython.int, 2)
"""`Address.ordered`: how the targets were compared last, if no load and no rank has changed since; else 0."""
MOST_INGRESSES = 64
"""Ingress routers for which an address keeps ways."""


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
        address.ways = by_neighbour(address, None)
    return address.ways


def ways_from(address: Address, annotations: Annotations, paths: cython.longlong) -> list[Target]:
    """The same for a message of another router, on the tree of the router where it entered the mesh; all targets if it
    does not tell that router."""
    if not annotations.trace:
        return list(address.targets.values())
    forget_old_paths(address, paths)
    if address.ways_from is None:
        address.ways_from = {}
    known: list[Target] | None = address.ways_from.get(annotations.ingress)
    if known is None:
        if len(address.ways_from) >= MOST_INGRESSES:
            address.ways_from.clear()
        known = address.ways_from[annotations.ingress] = by_neighbour(address, annotations.ingress)
    return known


def by_neighbour(address: Address, ingress: str | None) -> list[Target]:
    """One target for each neighbour that leads to remote consumers, on the tree of router `ingress`; None: any."""
    target: Target
    found: dict[RouterConnection | None, Target] = {}
    for t in address.targets.values():
        target = t
        neighbour: Node | None = target.neighbour()
        if neighbour is not None and (ingress is None or ingress in target.node.valid_origins):
            found.setdefault(neighbour.connection, target)
    return list(found.values())


def by_load(address: Address, paths: cython.longlong) -> list[Target] | None:
    """The targets, those with the lowest load first, in the order of `Address.targets` if it is the same.

    None if something has changed since the last call: then to compare all once costs less.
    """
    return in_order(address, BY_LOAD, paths)


def by_rank(address: Address, paths: cython.longlong) -> list[Target] | None:
    """The same, those of the highest rank first."""
    return in_order(address, BY_RANK, paths)


def in_order(address: Address, order: cython.int, paths: cython.longlong) -> list[Target] | None:
    """The targets by BY_LOAD or BY_RANK, unless something has changed since the last call."""
    forget_old_paths(address, paths)
    if address.ordered != order:
        address.ordered = order
        address.order = None
        return None
    if address.order is None:
        address.order = sorted(address.targets.values(), key=_load if order == BY_LOAD else _rank_and_load)
    return address.order


def load_of(target: Target) -> cython.longlong:
    """The number of outstanding deliveries there; the cost of the path counts as additional ones."""
    return target.outstanding + target.node.cost


def rank_of(target: Target) -> cython.longlong:
    """The priority of the consumers of another router that would get one more delivery; LAST: they have no room."""
    if target.ranks is None:
        return 0
    priority: cython.longlong
    until: cython.longlong
    for priority, until in target.ranks:
        if target.outstanding < until:
            return priority
    return LAST


def _load(target: Target) -> int:
    return int(load_of(target))


def _rank_and_load(target: Target) -> tuple[int, int]:
    return -int(rank_of(target)), int(load_of(target))


def forget_old_paths(address: Address, paths: cython.longlong) -> None:
    """Forget what was computed by paths that have changed since."""
    if address.nearest_by != paths:
        forget_targets(address)
        address.nearest_by = paths


def forget_targets(address: Address) -> None:
    """Forget what was computed of other targets."""
    address.nearest = address.ways = address.ways_from = address.order = None
    address.ordered = 0
