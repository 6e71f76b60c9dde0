"""The statuses of all Addresses of a mesh, of which there may be thousands: one is computed again only if something on
which it depends has changed."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.names import Entity, resource_of
from waymesh_operator.router_entities.verdicts import Verdict

from .conditions import Key, MeshSnapshot
from .dependents import address_status, lost

Status = dict[str, Any]
_Known = tuple[Address, Status, Status]
"""An Address, its status at that time, and the one that it should have: the same object if they are equal."""


class AddressStatuses:
    """Remembers each status, and what all of them were computed from."""

    def __init__(self) -> None:
        self._basis: _Basis | None = None
        self._known: dict[Ref, _Known] = {}

    def changed(
        self, addresses: Iterable[tuple[Address, Status]], seen: MeshSnapshot | None, now: datetime
    ) -> Iterable[tuple[Address, Status]]:
        """Yield the Addresses whose `address_status` differs from the present one, which comes with each, and the new
        status. Those that are not given are forgotten."""
        former, basis = self._basis, _basis(seen)
        known = self._known if former is not None and former.shared == basis.shared else {}
        again = basis.since(former) if former is not None and known else frozenset()
        self._basis, self._known = basis, {}
        for address, before in addresses:
            ref = address.ref
            found = known.get(ref)
            if found is None or ref in again:
                found = _computed(address, before, seen, now)
            elif found[0] is not address or found[1] is not before:
                same = found[0] == address and found[1] == before
                found = (address, before, _shared(found[2], before)) if same else _computed(address, before, seen, now)
            self._known[ref] = found
            if found[2] is not before:
                yield address, found[2]


def _computed(address: Address, before: Status, seen: MeshSnapshot | None, now: datetime) -> _Known:
    return address, before, _shared(address_status(address, seen, before, now), before)


def _shared(status: Status, before: Status) -> Status:
    """Return a status, as the present object if it is equal: then they share their memory."""
    return before if status == before else status


@dataclass(frozen=True, slots=True)
class _Basis:
    """What statuses of Addresses are computed from, besides the Addresses."""

    # What all of them depend on: which routers there are, and which of them do not answer.
    shared: object = None
    verdicts: Mapping[tuple[str, Ref], Verdict] = field(default_factory=dict)
    consumers: Mapping[Ref, int] = field(default_factory=dict)
    refused: Mapping[tuple[str, Key], str] = field(default_factory=dict)
    # The entities of each router: those that have not changed are the same objects.
    live: Mapping[str, Sequence[Entity]] = field(default_factory=dict)

    def since(self, former: _Basis) -> frozenset[Ref]:
        """Return the Addresses for which something differs from a former basis."""
        refs = {ref for ref, _ in self.consumers.items() ^ former.consumers.items()}
        if self.verdicts is not former.verdicts:
            refs.update(key[1] for key, one in self.verdicts.items() if former.verdicts.get(key) is not one)
            refs.update(ref for _, ref in former.verdicts.keys() - self.verdicts.keys())
        keys = {key for (_, key), _ in self.refused.items() ^ former.refused.items()}
        for router, present in self.live.items():
            entities, before = _tails(present, former.live[router])
            keys.update(entities[one].key for one in entities.keys() - before.keys())
            keys.update(before[one].key for one in before.keys() - entities.keys())
        refs.update(resource_of(name) for _, name in keys)
        return frozenset(refs)


def _tails(present: Sequence[Entity], former: Sequence[Entity]) -> tuple[dict[int, Entity], dict[int, Entity]]:
    """Return entities by their identity, from the first on that is not the same: new ones are the last."""
    same = list(map(operator.is_, present, former))
    first = same.index(False) if False in same else len(same)
    return _by_identity(present[first:]), _by_identity(former[first:])


def _by_identity(entities: Sequence[Entity]) -> dict[int, Entity]:
    return dict(zip(map(id, entities), entities))


def _basis(seen: MeshSnapshot | None) -> _Basis:
    if seen is None:
        return _Basis()
    routers = seen.observed.mesh.routers
    starting = "" if routers else seen.desired.obstacles.starting
    shared = starting, list(routers), [(router.id, lost(router, seen)) for router in seen.desired.mesh.routers]
    live = {name: router.entities for name, router in routers.items()}
    consumers = {ref: count for ref, count in seen.consumers.items() if count}
    return _Basis(shared, seen.desired.verdicts, consumers, seen.refused, live)
