"""The environment of the workers (API client, clock, threads, metrics), and the recorder of Events."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from waymesh_operator.cluster.context import OperatorSettings
from waymesh_operator.cluster.monitoring import Metrics
from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import EVENT, KubeClient
from waymesh_operator.routers.client import KeyFolder, Reach, SecureReach

from .inventory import Inventory, MissingReferences
from .route_apis import ServedApis
from .service_accounts import ServiceAccounts

log = logging.getLogger(__name__)
NORMAL, WARNING = "Normal", "Warning"
AGAIN_S = 300.0
"""How long the same Event is not repeated."""
REMEMBERED = 4096
_LONGEST = 1000


@dataclass(slots=True)
class _Series:
    count: int
    first: str
    at: datetime


@dataclass(slots=True)
class EventRecorder:
    """Writes Events. A failed write is logged and ignored."""

    kube: KubeClient
    now: Callable[[], datetime]
    _series: dict[str, _Series] = field(default_factory=dict)

    async def record(self, about: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Record an Event about an object. `kind` is NORMAL or WARNING, `reason` one word."""
        metadata, now = about["metadata"], self.now()
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        identity = "/".join((metadata.get("uid", ""), kind, reason, message))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        series = self._series.pop(digest, None) or _Series(0, stamp, datetime.min.replace(tzinfo=now.tzinfo))
        self._series[digest] = series
        if (now - series.at).total_seconds() < AGAIN_S:
            return
        series.count, series.at = series.count + 1, now
        while len(self._series) > REMEMBERED:
            del self._series[next(iter(self._series))]
        log.log(logging.WARNING if kind == WARNING else logging.INFO, message, extra=_fields(about, reason))
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": metadata["namespace"]},
            "involvedObject": _reference(about),
            "type": kind,
            "reason": reason,
            "message": message[:_LONGEST],
            "count": series.count,
            "firstTimestamp": series.first,
            "lastTimestamp": stamp,
            "source": {"component": "waymesh-operator"},
            "reportingComponent": "waymesh-operator",
        }
        try:
            await self.kube.apply(event)
        except KubeError as error:
            log.warning("cannot write an Event: %s", error)


def _reference(about: Mapping[str, Any]) -> dict[str, Any]:
    metadata = about["metadata"]
    return {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }


def _fields(about: Mapping[str, Any], reason: str) -> dict[str, Any]:
    metadata = about["metadata"]
    return {"kind": about["kind"], "namespace": metadata["namespace"], "object": metadata["name"], "reason": reason}


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between turns: when everything converged, while something is in progress, and at most after errors.

    `gather_s`: how long a change waits, so that several changes share one turn. `missing_s`: interval between lookups
    of missing references. `apis_s`: maximum age of the list of route APIs.
    """

    resync_s: float = 30.0
    busy_s: float = 1.0
    busiest_s: float = 5.0
    backoff_s: float = 60.0
    gather_s: float = 0.1
    missing_s: float = 1.0
    apis_s: float = 60.0
    jitter: float = 0.15

    @property
    def least_resync_s(self) -> float:
        """The shortest interval between resyncs. Work to be done at each resync must become due within it, otherwise
        it is done only at every second one."""
        return self.resync_s * (1 - self.jitter)


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of the workers. Blocking work (management requests, long computations) runs in `executor`."""

    kube: KubeClient
    inventory: Inventory
    recorder: EventRecorder
    settings: OperatorSettings
    executor: Executor
    keys: KeyFolder
    metrics: Metrics = field(default_factory=Metrics)
    reach: Reach = field(default_factory=SecureReach)
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    rng: random.Random = field(default_factory=random.Random)
    awaited: MissingReferences = field(default_factory=MissingReferences)
    service_accounts: ServiceAccounts = field(default_factory=ServiceAccounts)
    served: ServedApis = field(default_factory=ServedApis)

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)
