"""Resources that want the same: the oldest has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from .model import Address, AutoLink, LinkRoute, Ref

_R = TypeVar("_R", Address, AutoLink, LinkRoute)


def conflicts(addresses: Iterable[Address]) -> dict[Ref, Address]:
    """Addresses that want what an older one of the same Router has: loser → winner."""
    return _losers(addresses, lambda a: [(a.router, a.prefix is None, a.match)])


def autolink_conflicts(autolinks: Iterable[AutoLink]) -> dict[Ref, AutoLink]:
    """Autolinks that would attach just what an older one attaches: loser → winner."""
    return _losers(
        autolinks,
        lambda a: [(a.router, a.address, a.direction, a.phase, a.external_address, a.broker, a.container_id)],
    )


def linkroute_conflicts(linkroutes: Iterable[LinkRoute]) -> dict[Ref, LinkRoute]:
    """Link routes whose prefix or pattern an older one has already in one of their directions: loser → winner."""
    return _losers(linkroutes, lambda r: [(r.router, r.prefix is None, r.match, way) for way in r.directions])


def _losers(resources: Iterable[_R], keys: Callable[[_R], list[Hashable]]) -> dict[Ref, _R]:
    """A loser takes nothing, so that it does not stand in the way of a third one."""
    winners: dict[Hashable, _R] = {}
    lost: dict[Ref, _R] = {}
    for resource in sorted(resources, key=lambda r: (r.created, r.ref)):
        wanted = keys(resource)
        winner = next((winners[key] for key in wanted if key in winners), None)
        if winner is None:
            winners.update(dict.fromkeys(wanted, resource))
        else:
            lost[resource.ref] = winner
    return lost
