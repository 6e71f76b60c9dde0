"""Reports on analytics jobs: when they last succeeded, and what they found.

A job writes its findings to its container's termination message, so it needs no permission for that, and the operator
no additional one: it lists Jobs, CronJobs and pods anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import CRON_JOB, JOB, kind_of
from waymesh_schema.findings import FoundKind, Severity, parse_findings

from .environment import NORMAL, WARNING, Environment
from .inventory import Object

log = logging.getLogger(__name__)
ANALYTICS_SELECTOR = "app.kubernetes.io/name=waymesh-analytics"
INSTANCE = "app.kubernetes.io/instance"
ANALYTICS_EVERY_S = 30.0
Release = tuple[str, str]
"""Namespace and release of the chart."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run with findings."""

    pod: Object
    # Seconds since 1970.
    finished: float
    found: Sequence[FoundKind]


@dataclass(frozen=True, slots=True)
class AnalyticsWatch:
    """Polls the Jobs, CronJobs and pods of analytics in all namespaces (`namespaces` empty) or in some."""

    world: Environment
    namespaces: Sequence[str] = ()
    # By release the uid of the pod whose findings have been reported.
    _reported: dict[Release, str] = field(default_factory=dict)
    # Releases of which a job has succeeded.
    _succeeded: set[Release] = field(default_factory=set)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self.once()
            except KubeError as error:
                log.debug("cannot list the analytics jobs: %s", error)
            await asyncio.sleep(ANALYTICS_EVERY_S)

    async def once(self) -> None:
        """Poll once. Raises KubeError."""
        listed: dict[str, list[Object]] = {}
        for kind in (JOB, CRON_JOB, kind_of("Pod")):
            listed[kind.kind] = []
            for namespace in self.namespaces or (None,):
                listed[kind.kind] += await self.world.kube.list(kind, namespace, ANALYTICS_SELECTOR)
        jobs = [*listed["Job"], *listed["CronJob"]]
        for (place, instance), moment in latest(jobs).items():
            self.world.metrics.analytics.labels(place, instance).set(moment)
            self._succeeded.add((place, instance))
        for release, run in latest_runs(listed["Pod"]).items():
            await self._report(release, run, jobs)
        present = {release_of(each) for each in (*jobs, *listed["Pod"])}
        for gone in self._reported.keys() - present:
            del self._reported[gone]
            self.world.metrics.forget_findings(*gone)
        for gone in self._succeeded - present:
            self._succeeded.remove(gone)
            self.world.metrics.analytics.remove(*gone)

    async def _report(self, release: Release, run: Run, jobs: Iterable[Object]) -> None:
        """Report the findings of a run, once."""
        uid = str(run.pod["metadata"].get("uid", ""))
        if self._reported.get(release) == uid:
            return
        self._reported[release] = uid
        self.world.metrics.found(*release, {each.kind.name: each.count for each in run.found})
        about = owner(run.pod, jobs)
        for each in run.found:
            sort = NORMAL if each.kind.severity is Severity.INFO else WARNING
            text = each.text or f"{each.kind.title}: {each.count:,}"
            await self.world.recorder.record(about, sort, each.kind.name, f"{text}. {each.kind.action}")


def release_of(body: Object) -> Release:
    """The namespace and release of an object of the chart."""
    metadata = body["metadata"]
    return metadata["namespace"], str((metadata.get("labels") or {}).get(INSTANCE, ""))


def latest(jobs: Iterable[Object]) -> dict[Release, float]:
    """By release the seconds since 1970 at which a job last succeeded."""
    found: dict[Release, float] = {}
    for job in jobs:
        key = release_of(job)
        for moment in _successes(job):
            found[key] = max(moment, found.get(key, 0.0))
    return found


def _successes(job: Object) -> Iterator[float]:
    """Return the success times: a Job's completion time, a CronJob's time of its last successful Job."""
    status: dict[str, Any] = job.get("status") or {}
    for name in ("completionTime", "lastSuccessfulTime"):
        if status.get(name):
            yield datetime.fromisoformat(status[name]).timestamp()


def latest_runs(pods: Iterable[Object]) -> dict[Release, Run]:
    """Return by release the last run with findings. Other pods of analytics have none."""
    found: dict[Release, Run] = {}
    for pod in pods:
        key = release_of(pod)
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            findings = parse_findings(ended.get("message") or "")
            if findings is None or not ended.get("finishedAt"):
                continue
            finished = datetime.fromisoformat(ended["finishedAt"]).timestamp()
            if key not in found or finished > found[key].finished:
                found[key] = Run(pod, finished, findings)
    return found


def owner(pod: Object, jobs: Iterable[Object]) -> Mapping[str, Any]:
    """Return the object of a run's Events: its CronJob, which persists, else its Job, else the pod."""
    by_name = {(job["kind"], job["metadata"]["namespace"], job["metadata"]["name"]): job for job in jobs}
    about: Mapping[str, Any] = pod
    for _ in range(2):
        above = _controller(about)
        if above is None:
            break
        about = by_name.get((above["kind"], *_place(above)), above)
    return about


def _controller(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the object's controller from its owner references; None if there is none."""
    for reference in body["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            metadata = {"name": reference["name"], "namespace": body["metadata"]["namespace"], "uid": reference["uid"]}
            return {"apiVersion": reference["apiVersion"], "kind": reference["kind"], "metadata": metadata}
    return None


def _place(body: Mapping[str, Any]) -> tuple[str, str]:
    return body["metadata"]["namespace"], body["metadata"]["name"]
