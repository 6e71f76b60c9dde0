"""The environment of the workers: API client, clock, threads, metrics, what the API server says about the cluster (its
route APIs, the keys of ServiceAccount tokens), and the recorder of Events."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import EVENT, ROUTES, KubeClient
from waymesh_operator.places.kubernetes.context import OperatorSettings
from waymesh_operator.places.kubernetes.monitoring import Metrics
from waymesh_operator.router_entities.tokens import UNKNOWN, ServiceAccountKeys, service_account_keys
from waymesh_operator.routers.management import KeyFolder, Reach, SecureReach

from .inventory import Inventory, References
from .ownership import OtherOperators
from .turns import Threads, Turns

log = logging.getLogger(__name__)
GROUPS = tuple(sorted({kind.group for kind in ROUTES}))


@dataclass(slots=True)
class ServedApis:
    """Reads the discovery documents, and reads them again when they are too old."""

    _known: Mapping[str, str] = field(default_factory=dict)
    _read_at: float = float("-inf")

    def forget(self) -> None:
        """Make the next `read` read the documents again."""
        self._read_at = float("-inf")

    async def read(self, kube: KubeClient, now: float, max_age_s: float) -> Mapping[str, str]:
        """Return the apiVersion of each kind that the cluster has; of several versions, the one that the API server
        lists first. Raises KubeError."""
        if now - self._read_at < max_age_s:
            return self._known
        found: dict[str, str] = {}
        for group in GROUPS:
            for version in await _versions(kube, group):
                for kind in await _kinds(kube, version):
                    found.setdefault(kind, version)
        self._known, self._read_at = {kind.kind: found[kind.kind] for kind in ROUTES if kind.kind in found}, now
        return self._known


async def _versions(kube: KubeClient, group: str) -> list[str]:
    """The apiVersions of a group, the preferred one first."""
    try:
        answer = await kube.document(f"/apis/{group}")
    except KubeError as error:
        if error.missing:
            return []
        raise
    return [str(item["groupVersion"]) for item in answer.get("versions") or ()]


async def _kinds(kube: KubeClient, api_version: str) -> set[str]:
    answer = await kube.document(f"/apis/{api_version}")
    return {str(item["kind"]) for item in answer.get("resources") or () if "/" not in str(item.get("name", ""))}


CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
"""Paths of the API server. The JWKS is read here, even if the configuration names another URL."""
KEYS_EVERY_S = 60.0


@dataclass(slots=True)
class ServiceAccounts:
    """Reads both documents again when they are KEYS_EVERY_S old. After a failure, the earlier ones stay in use."""

    _known: ServiceAccountKeys = UNKNOWN
    _read_at: float = float("-inf")

    async def read(self, kube: KubeClient, now: float, live: bytes) -> ServiceAccountKeys:
        """Return the current issuer and keys; `error`: why they are unknown or out of date.

        `live`: the routers' file (`ServiceAccountKeys.file`), for an operator that has not read the documents yet.
        """
        if now - self._read_at < KEYS_EVERY_S:
            return self._known
        try:
            configuration = await kube.document(CONFIGURATION)
            keys = await kube.document(KEYS)
            self._known = service_account_keys(configuration.get("issuer"), keys.get("keys"))
        except (KubeError, ValueError) as error:
            log.warning("cannot read the keys of ServiceAccount tokens: %s", error)
            return replace(self._known if self._known.issuer else _parsed_keys(live), error=str(error))
        self._read_at = now
        return self._known


def _parsed_keys(live: bytes) -> ServiceAccountKeys:
    """Parse a file; empty if there is none, or it is not one of ours."""
    try:
        found = json.loads(live)
        return service_account_keys(found.get("issuer"), found.get("keys"))
    except (ValueError, AttributeError):
        return UNKNOWN


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
    # The namespace of the operator, which tells its Events from those of other operators.
    home: str = ""
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
        if self.home:
            event["reportingInstance"] = self.home
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

    `gather_s`: how long a change waits, so that several changes share one turn. `look_up_s`: interval
    between rounds of looking up what resources refer to. `apis_s`: maximum age of the list of route APIs.
    `patience_s`: how long a turn waits for what routers report; later reports serve the next turn.
    """

    resync_s: float = 30.0
    busy_s: float = 1.0
    busiest_s: float = 5.0
    backoff_s: float = 60.0
    gather_s: float = 0.1
    look_up_s: float = 1.0
    apis_s: float = 60.0
    patience_s: float = 1.0
    jitter: float = 0.15

    @property
    def least_resync_s(self) -> float:
        """The shortest interval between resyncs. Work to be done at each resync must become due within it, otherwise
        it is done only at every second one."""
        return self.resync_s * (1 - self.jitter)


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of the workers. Blocking work (management requests, long computations) runs in `threads`."""

    kube: KubeClient
    inventory: Inventory
    recorder: EventRecorder
    settings: OperatorSettings
    threads: Threads
    keys: KeyFolder
    metrics: Metrics = field(default_factory=Metrics)
    reach: Reach = field(default_factory=SecureReach)
    pace: Pace = field(default_factory=Pace)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    rng: random.Random = field(default_factory=random.Random)
    references: References = field(default_factory=References)
    service_accounts: ServiceAccounts = field(default_factory=ServiceAccounts)
    served: ServedApis = field(default_factory=ServedApis)
    turns: Turns = field(default_factory=Turns)
    others: OtherOperators = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", OtherOperators(self.kube, self.clock, self.now))

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run a computation in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads.plans, work)

    async def at_router(self, work: Callable[[], _T]) -> _T:
        """Run requests to a router in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads.routers, work)

    async def at_routers(self, works: Iterable[Callable[[], _T]]) -> list[_T | BaseException]:
        """Run requests to several routers at the same time; returns their results or errors. Other turns go on."""
        requests = [self.at_router(work) for work in works]
        if not requests:
            return []
        async with self.turns.waiting():
            return await asyncio.gather(*requests, return_exceptions=True)
