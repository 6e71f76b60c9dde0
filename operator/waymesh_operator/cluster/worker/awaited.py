"""What resources refer to and is not there yet, looked for by name until it is.

Secrets and claims of users bear no label of ours: a watch would have to stream every one of the cluster. A request by
name that is answered "not found" costs next to nothing, and there are such requests only while something is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import KubeClient
from waymesh_operator.kube.kinds import Kind
from waymesh_operator.resources.model import Ref

from .inventory import Inventory

log = logging.getLogger(__name__)
AT_ONCE = 16
"""Requests in one round: what is missing beyond that takes its turn in the next ones."""
Name = tuple[Kind, str]


@dataclass(slots=True)
class Awaited:
    """What each mesh waits for. A mesh gets a turn as soon as something of that is there."""

    _missing: dict[Ref, frozenset[Name]] = field(default_factory=dict)
    _rounds: int = 0

    def note(self, mesh: Ref, missing: Iterable[Name]) -> None:
        """All that this mesh waits for now, in its own namespace."""
        names = frozenset(missing)
        if names:
            self._missing[mesh] = names
        else:
            self._missing.pop(mesh, None)

    async def run(self, kube: KubeClient, inventory: Inventory, every_s: float) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(every_s)
            await self.look(kube, inventory)

    async def look(self, kube: KubeClient, inventory: Inventory) -> None:
        """One round: ask for what is missing, and wake the meshes that wait for what is there."""
        wanted = sorted({(mesh.namespace, *name) for mesh, names in self._missing.items() for name in names}, key=str)
        first = self._rounds * AT_ONCE % max(1, len(wanted))
        self._rounds += 1
        chosen = (wanted[first:] + wanted[:first])[:AT_ONCE]
        found = await asyncio.gather(*(_exists(kube, *one) for one in chosen))
        there = {one for one, exists in zip(chosen, found) if exists}
        for mesh, names in list(self._missing.items()):
            if any((mesh.namespace, *name) in there for name in names):
                self.note(mesh, (name for name in names if (mesh.namespace, *name) not in there))
                inventory.changed(mesh)


async def _exists(kube: KubeClient, namespace: str, kind: Kind, name: str) -> bool:
    try:
        await kube.get(kind, namespace, name)
    except KubeError as error:
        if not error.missing:
            log.debug("%s %s/%s cannot be looked for: %s", kind.kind, namespace, name, error)
        return False
    return True
