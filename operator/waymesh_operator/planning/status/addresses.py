"""The statuses of all Addresses of a mesh, of which there may be thousands: one is computed again only if something on
which it depends has changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from waymesh_operator.resources.dependents import Address
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.builders import address_entity

from .conditions import MeshSnapshot
from .dependents import address_status, lost

Status = dict[str, Any]


class AddressStatuses:
    """Remembers each status with what it was computed from."""

    def __init__(self) -> None:
        self._mesh: object = None
        self._known: dict[Ref, tuple[object, Status]] = {}

    def of(
        self, addresses: Iterable[tuple[Address, Status]], seen: MeshSnapshot | None, now: datetime
    ) -> Iterable[Status]:
        """Yield the `address_status` of each Address, which comes with its present one. Those that are not given are
        forgotten."""
        mesh = _shared_basis(seen)
        former = self._known if mesh == self._mesh else {}
        self._mesh, self._known = mesh, {}
        for address, before in addresses:
            basis = address, before, _own_basis(address, seen)
            known = former.get(address.ref)
            if known is None or known[0] != basis:
                status = address_status(address, seen, before, now)
                # Equal ones share their memory with the object.
                known = basis, before if status == before else status
            self._known[address.ref] = known
            yield known[1]


def _shared_basis(seen: MeshSnapshot | None) -> object:
    """Return what the statuses of all Addresses depend on: which routers there are, and which of them do not answer."""
    if seen is None:
        return None
    starting = "" if seen.observed.mesh.routers else seen.desired.obstacles.starting
    return starting, [(router.id, lost(router, seen)) for router in seen.desired.mesh.routers]


def _own_basis(address: Address, seen: MeshSnapshot | None) -> object:
    """Return what the status of one Address depends on besides: its verdict, and what routers report of it."""
    if seen is None:
        return None
    key = address_entity(address).key
    live: list[object] = [by_key.get(key) for by_key in seen.live.values()]
    refused = [seen.refused.get((router.id, key)) for router in seen.desired.mesh.routers] if seen.refused else None
    return seen.verdict("Address", address.ref), seen.consumers.get(address.ref, 0), live, refused
