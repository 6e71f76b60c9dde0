"""When the jobs that read what routers export last succeeded: a figure that tells when they stop to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.kinds import CRON_JOB, JOB

from .inventory import Object
from .world import World

log = logging.getLogger(__name__)
SELECTOR = "app.kubernetes.io/name=waymesh-analytics"
INSTANCE = "app.kubernetes.io/instance"
EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class AnalyticsWatch:
    """Looks at the Jobs and CronJobs of analytics in all namespaces (`namespaces` empty) or in some."""

    world: World
    namespaces: Sequence[str] = ()

    async def run(self) -> None:
        """Looks for ever."""
        while True:
            try:
                await self.once()
            except KubeError as error:
                log.debug("the jobs of analytics cannot be listed: %s", error)
            await asyncio.sleep(EVERY_S)

    async def once(self) -> None:
        """One look. Raises KubeError."""
        found: list[Object] = []
        for kind in (JOB, CRON_JOB):
            for namespace in self.namespaces or (None,):
                found += await self.world.kube.list(kind, namespace, SELECTOR)
        for (place, instance), moment in latest(found).items():
            self.world.metrics.analytics.labels(place, instance).set(moment)


def latest(jobs: Iterable[Object]) -> dict[tuple[str, str], float]:
    """By namespace and release the seconds since 1970 at which a job last succeeded."""
    found: dict[tuple[str, str], float] = {}
    for job in jobs:
        metadata = job["metadata"]
        key = metadata["namespace"], str((metadata.get("labels") or {}).get(INSTANCE, ""))
        for moment in _successes(job):
            found[key] = max(moment, found.get(key, 0.0))
    return found


def _successes(job: Object) -> Iterator[float]:
    """A Job that succeeded says when it was completed, a CronJob when the last one was that it made."""
    status: dict[str, Any] = job.get("status") or {}
    for name in ("completionTime", "lastSuccessfulTime"):
        if status.get(name):
            yield datetime.fromisoformat(status[name]).timestamp()
