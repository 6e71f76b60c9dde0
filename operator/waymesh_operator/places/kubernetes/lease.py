"""Leader election: of several replicas, only the holder of the Lease acts.

A Lease expires by the local clock, counted from its last observed change, because clocks of nodes may differ.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import LEASE, POD, KubeClient

log = logging.getLogger(__name__)
NAME = "waymesh-operator"
POD_MARK = "_"
"""Ends the name of the pod in the identity of a holder that is a pod; no name of a pod or host has this character."""
GONE_PERIODS = 2
"""For how many periods the Lease of a pod that is gone must not have changed: the process of a pod that was deleted by
force may still run, and would renew it."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: validity of an unrenewed Lease, when its holder gives up, interval of renewals and attempts."""

    duration_s: float = 15.0
    deadline_s: float = 10.0
    period_s: float = 3.0


@dataclass(slots=True)
class _Seen:
    """The Lease as last seen, and when this state was first seen."""

    version: str = ""
    holder: str = ""
    duration_s: float = 0.0
    transitions: int = 0
    at: float = 0.0


@dataclass(slots=True)
class Lease:
    """One holder's view of the Lease."""

    kube: KubeClient
    namespace: str
    identity: str
    times: Times = field(default_factory=Times)
    clock: Callable[[], float] = time.monotonic
    _seen: _Seen = field(default_factory=_Seen)
    _renewed: float = float("-inf")

    async def acquire(self) -> None:
        """Wait until this replica is the leader."""
        while not await self._try():
            await asyncio.sleep(self.times.period_s)

    async def hold(self) -> None:
        """Renew the Lease; returns when leadership is lost or may be lost.

        The time counts from the start of the last renewal that succeeded, as others may count it. All attempts
        together end within the deadline.
        """
        await self._sleep()
        while (left := self._left()) > 0:
            try:
                async with asyncio.timeout(left):
                    if not await self._renew():
                        log.warning("lost leadership to %s", self._seen.holder)
                        return
            except TimeoutError:
                log.warning("cannot renew the Lease: no answer")
            await self._sleep()
        log.error("lost leadership: the Lease was not renewed for %g s", self.times.deadline_s)

    def _left(self) -> float:
        """Return the seconds for which the Lease is surely held."""
        return self._renewed + self.times.deadline_s - self.clock()

    async def _sleep(self) -> None:
        await asyncio.sleep(min(self.times.period_s, max(0.0, self._left())))

    async def _renew(self) -> bool:
        """Try to renew the Lease once; returns False if another replica holds it."""
        try:
            await self._write(self.identity, force=True)
        except KubeError as error:
            if error.conflict and not await self._still_ours():
                return False
            log.warning("cannot renew the Lease: %s", error)
        return True

    async def release(self) -> None:
        """Release the Lease, so that the next leader does not wait until it expires."""
        try:
            await self._write("", force=True)
        except KubeError as error:
            log.warning("cannot release the Lease: %s", error)

    async def _try(self) -> bool:
        try:
            if not await self._look():
                # Each holder has a different field manager: if two create the Lease at once, one gets a conflict.
                await self._write(self.identity, force=False)
            elif self._seen.holder in ("", self.identity) or self._run_out() or await self._holder_is_gone():
                await self._write(self.identity, force=True)
            else:
                return False
        except KubeError as error:
            if not error.conflict:
                log.warning("cannot acquire the Lease: %s", error)
            return False
        return True

    async def _look(self) -> bool:
        """Read the Lease; return False if it does not exist."""
        try:
            self._note(await self.kube.get(LEASE, self.namespace, NAME))
        except KubeError as error:
            if error.missing:
                self._seen = _Seen()
                return False
            raise
        return True

    async def _still_ours(self) -> bool:
        try:
            return await self._look() and self._seen.holder == self.identity
        except KubeError:
            return True  # the Lease may still be held: the deadline decides

    def _run_out(self) -> bool:
        return self.clock() - self._seen.at > self._seen.duration_s

    async def _holder_is_gone(self) -> bool:
        """Whether the holder was a pod that does not exist any more, as after a reinstallation: the roles of the former
        release are deleted before its pod can release the Lease. False if pods cannot be listed here."""
        pod, mark, _ = self._seen.holder.rpartition(POD_MARK)
        if not mark or self.clock() - self._seen.at < GONE_PERIODS * self.times.period_s:
            return False
        try:
            return not await self.kube.list(POD, self.namespace, fields=f"metadata.name={pod}")
        except KubeError as error:
            log.debug("cannot look for the pod %s: %s", pod, error)
            return False

    def _note(self, lease: Mapping[str, Any]) -> None:
        version, spec = lease["metadata"].get("resourceVersion", ""), lease.get("spec") or {}
        if version != self._seen.version:
            self._seen = _Seen(
                version,
                spec.get("holderIdentity") or "",
                float(spec.get("leaseDurationSeconds") or self.times.duration_s),
                int(spec.get("leaseTransitions") or 0),
                self.clock(),
            )

    async def _write(self, holder: str, *, force: bool) -> None:
        began, now = self.clock(), datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = holder != self._seen.holder
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self.times.duration_s)) if holder else 1,
            "leaseTransitions": self._seen.transitions + (1 if changed and holder and self._seen.version else 0),
            "renewTime": now,
        }
        metadata: dict[str, Any] = {"name": NAME, "namespace": self.namespace}
        if self._seen.version:
            metadata["resourceVersion"] = self._seen.version
        manifest = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        self._note(await self.kube.apply(manifest, manager=f"{NAME}-{self.identity}"[:128], force=force))
        self._renewed = began
