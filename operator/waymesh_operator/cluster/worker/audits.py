"""Periodic full lists in addition to the watches.

They fill the inventory before the first reconcile. Later they find what watches miss: after a gap, kopf lists again and
reports existing objects, but not those deleted meanwhile. They also detect a watch that has silently stopped: a
change that a list shows must also arrive through the watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import OWNED, RESOURCES, SELECTOR, Kind

from .environment import Environment
from .inventory import Key, key_of, version_of

log = logging.getLogger(__name__)
AUDIT_EVERY_S, RETRY_S = 120.0, 2.0
PATIENCE_S = 60.0
"""How long a change seen in a list may take to arrive through the watch."""


@dataclass(slots=True)
class Auditor:
    """Audits of all kinds that are watched, in all namespaces (`namespaces` empty) or in some."""

    world: Environment
    namespaces: Sequence[str] = ()
    _awaited: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _filled: bool = False

    async def fill(self) -> None:
        """List everything, repeated until it succeeds: then the inventory is complete."""
        while True:
            try:
                await self.once()
            except KubeError as error:
                log.warning("cannot list the resources yet: %s", error)
                await asyncio.sleep(RETRY_S)
            else:
                self._filled = True
                return

    async def run(self) -> None:
        """Audit until cancelled."""
        while True:
            await asyncio.sleep(AUDIT_EVERY_S * (1 + self.world.rng.uniform(-0.2, 0.2)))
            try:
                await self.once()
            except KubeError as error:
                log.warning("audit failed: %s", error)

    async def once(self) -> None:
        """List all kinds one after the other and compare. Raises KubeError."""
        for kind in (*RESOURCES, *OWNED):
            for namespace in self.namespaces or (None,):
                await self._audit(kind, namespace)

    def delivered(self, body: Mapping[str, Any]) -> None:
        """Note that a watch delivered this."""
        awaited = self._awaited.get(key_of(body))
        if awaited is not None and version_of(body) >= awaited[0]:
            del self._awaited[key_of(body)]

    def check(self) -> str | None:
        """Liveness check: return a problem if no watch delivered a change in time."""
        now = self.world.clock()
        for (kind, namespace, name), (_, since) in self._awaited.items():
            if now - since > PATIENCE_S:
                return (
                    f"a change of {kind} {namespace}/{name} has not been delivered by a watch for {now - since:.0f} s"
                )
        return None

    async def _audit(self, kind: Kind, namespace: str | None) -> None:
        began = self.world.clock()
        listed = await self.world.kube.list(kind, namespace, "" if kind in RESOURCES else SELECTOR)
        news, lost = self.world.inventory.audit(kind.kind, namespace, listed, began)
        present = {key_of(body) for body in listed}
        for key in [key for key in self._awaited if key[0] == kind.kind and namespace in (None, key[1])]:
            if key not in present:
                del self._awaited[key]
        if not self._filled:
            return
        for body in news:
            self._awaited.setdefault(key_of(body), (version_of(body), began))
        if news or lost:
            log.info("audit of %s: watches missed %d changes and %d deletions", kind.plural, len(news), lost)
            self.world.metrics.missed.labels(kind.kind).inc(len(news) + lost)
