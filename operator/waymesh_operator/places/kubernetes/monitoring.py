"""Logs, metrics and health probes of the operator itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from pythonjsonlogger import json

from waymesh_schema.findings import FINDING_KINDS

Check = Callable[[], str | None]
"""Returns a problem, None if there is none."""


@dataclass(slots=True)
class Heartbeat:
    """A heartbeat object that must come back through a watch after it was written.

    A failed write to the API server does not count as a dead watch: restarting the operator would not help.
    """

    patience_s: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _written: dict[str, float] = field(default_factory=dict)

    def written(self, token: str) -> None:
        """Note that this token is being written. The watch may deliver it before the API server answers."""
        self._written[token] = self.clock()

    def failed(self, token: str) -> None:
        """Note that this token was not written."""
        self._written.pop(token, None)

    def returned(self, token: str) -> None:
        """Note that a watch has delivered this token; earlier tokens no longer need to arrive."""
        at = self._written.get(token)
        if at is not None:
            self._written = {name: when for name, when in self._written.items() if when > at and name != token}

    def forget(self) -> None:
        """Reset: no watch is running."""
        self._written.clear()

    def check(self) -> str | None:
        """Return the problem, if there is one."""
        waited = self.clock() - min(self._written.values(), default=self.clock())
        if waited <= self.patience_s:
            return None
        return f"no watch has delivered the heartbeat for {waited:.0f} s"


@dataclass(slots=True)
class Health:
    """The checks of each probe, by name."""

    alive: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)

    def problems(self, checks: dict[str, Check]) -> dict[str, str]:
        """Return the problems found, by name of the check."""
        found = {name: check() for name, check in checks.items()}
        return {name: text for name, text in found.items() if text is not None}


class HealthServer:
    """GET /healthz, /readyz and /metrics."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int, host: str = "") -> None:
        """Listen on all addresses, or on one; port 0 takes a free one. Raises OSError."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._figures)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self._health.problems(self._health.alive))

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self._health.problems(self._health.ready))

    async def _figures(self, request: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(problems: dict[str, str]) -> web.Response:
    text = "".join(f"{name}: {problem}\n" for name, problem in problems.items())
    return web.Response(status=503 if problems else 200, text=text or "ok\n")


MESH = ("namespace", "router")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The operator's metrics, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.reconciles = self._counter("reconciles", "Reconciles, by result.", *MESH, "result")
        self.duration = self._histogram("reconcile_seconds", "Duration of a reconcile.")
        self.waiting = self._histogram("queue_wait_seconds", "Time from a change to the reconcile that acts on it.")
        self.queue = self._gauge("queue_depth", "Meshes waiting for a reconcile.")
        self.workers = self._gauge("meshes", "Meshes with a worker.")
        self.actions = self._counter("actions", "Actions of plans, by kind and result.", "action", "result")
        self.drift = self._gauge("drift", "Drifted entities found.", *MESH)
        self.repairs = self._counter("drift_repaired", "Drifted entities and objects repaired.", *MESH)
        self.converged = self._gauge("converged", "1 for a mesh whose condition Converged is True.", *MESH)
        self.routers = self._gauge("routers_running", "Routers that answer.", *MESH)
        self.expiring = self._gauge("certificate_expiring", "1 for a mesh with condition CertificateExpiring.", *MESH)
        self.ends = self._gauge(
            "listener_not_after_seconds",
            "When a listener's certificate or list expires, in seconds since 1970; by listener and status field.",
            *MESH,
            "listener",
            "field",
        )
        self._ends: dict[tuple[str, str], set[tuple[str, str]]] = {}
        self.requests = self._counter("api_requests", "Requests to the API server.", "verb", "kind", "status")
        self.live_requests = self._counter("live_rounds", "Readings of routers over management.", "result")
        self.events_seen = self._counter("watch_events", "Events delivered by watches.", "kind")
        self.missed = self._counter("missed_events", "Changes that an audit found and no watch had delivered.", "kind")
        self.analytics = Gauge(
            "waymesh_analytics_last_success_timestamp_seconds",
            "When an analytics job last succeeded, by namespace and release of the chart.",
            ("namespace", "release"),
            registry=self.registry,
        )
        self.findings = Gauge(
            "waymesh_analytics_findings",
            "Cases that the last analytics job found, by namespace and release of the chart; kinds: docs/findings.md.",
            ("namespace", "release", "kind", "severity"),
            registry=self.registry,
        )
        self.left_out = self._gauge(
            "left_out", "1 for a kind or namespace that the operator cannot list, and goes on without.", "what"
        )
        self.left_to_others = self._gauge("left_to_others", "1 for a Router that another operator looks after.", *MESH)
        self.leader = self._gauge("leader", "1 while this replica holds the Lease.")

    def asked(self, verb: str, kind: str, status: int) -> None:
        """Count a request to the API server."""
        self.requests.labels(verb, kind, str(status)).inc()

    def leave_out(self, names: Iterable[str]) -> None:
        """Set the kinds and namespaces that cannot be listed."""
        self.left_out.clear()
        for name in names:
            self.left_out.labels(name).set(1)

    def listeners_end(self, namespace: str, router: str, ends: Mapping[tuple[str, str], float]) -> None:
        """Set when certificates and lists of a mesh's listeners expire, by listener and field."""
        former = self._ends.pop((namespace, router), set())
        for gone in former - ends.keys():
            self.ends.remove(namespace, router, *gone)
        for key, moment in ends.items():
            self.ends.labels(namespace, router, *key).set(moment)
        if ends:
            self._ends[namespace, router] = set(ends)

    def found(self, namespace: str, release: str, counts: Mapping[str, int]) -> None:
        """Set the number of cases of each kind that the last analytics job of a release found; 0 for other kinds."""
        for name, kind in FINDING_KINDS.items():
            self.findings.labels(namespace, release, name, kind.severity).set(counts.get(name, 0))

    def forget_findings(self, namespace: str, release: str) -> None:
        """Remove the findings of a deleted release."""
        for name, kind in FINDING_KINDS.items():
            self.findings.remove(namespace, release, name, kind.severity)

    def forget(self, namespace: str, router: str) -> None:
        """Remove the series of a deleted mesh."""
        self.listeners_end(namespace, router, {})
        for gauge in (self.drift, self.converged, self.routers, self.expiring, self.left_to_others):
            gauge.remove(namespace, router)
        self.repairs.remove(namespace, router)
        for result in ("done", "busy", "error"):
            self.reconciles.remove(namespace, router, result)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"waymesh_operator_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"waymesh_operator_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"waymesh_operator_{name}", text, buckets=SECONDS, registry=self.registry)


class JsonFormatter(json.JsonFormatter):
    """One JSON object per line: `time`, `level`, `logger`, `message`, the `extra` fields and an `exception`."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        renamed = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "exception"}
        super().__init__(["asctime", "levelname", "name", "message"], rename_fields=renamed, json_default=str)
        self.converter = time.gmtime

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Write levels in lower case."""
        return log_data | {"level": log_data["level"].lower()}


def set_up(form: str, level: str) -> None:
    """Log as `json` or `text` from this level up; kopf's messages and access logs only from warning up."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("kopf", "aiohttp.access", "kubernetes", "proton"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
