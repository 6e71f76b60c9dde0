"""Figures about the operator itself, in a registry of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

MESH = ("namespace", "router")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All figures. One object for each run of the operator, so that tests do not see each other's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.reconciles = self._counter("reconciles", "Turns of a mesh's worker, by result.", *MESH, "result")
        self.duration = self._histogram("reconcile_seconds", "How long a turn took.")
        self.waiting = self._histogram("queue_wait_seconds", "From a change seen to the turn that acts on it.")
        self.queue = self._gauge("queue_depth", "Meshes that wait for a turn.")
        self.workers = self._gauge("meshes", "Meshes that are looked after.")
        self.actions = self._counter("actions", "Steps of plans carried out, by kind and result.", "action", "result")
        self.drift = self._gauge("drift", "Differences found that no change of a resource explains.", *MESH)
        self.repairs = self._counter("drift_repaired", "Differences put right.", *MESH)
        self.converged = self._gauge("converged", "1 for a mesh that is as its resources say.", *MESH)
        self.routers = self._gauge("routers_running", "Routers that answer.", *MESH)
        self.requests = self._counter("api_requests", "Requests to the API server.", "verb", "kind", "status")
        self.live_requests = self._counter("live_rounds", "Rounds of management requests to routers.", "result")
        self.events_seen = self._counter("watch_events", "What came through the watches.", "kind")
        self.missed = self._counter("missed_events", "Changes that an audit found and no watch had told of.", "kind")
        self.analytics = Gauge(
            "waymesh_analytics_last_success_timestamp_seconds",
            "When a job of analytics last succeeded, by namespace and release of the chart.",
            ("namespace", "release"),
            registry=self.registry,
        )
        self.leader = self._gauge("leader", "1 while this replica holds the Lease.")

    def asked(self, verb: str, kind: str, status: int) -> None:
        """Count a request to the API server."""
        self.requests.labels(verb, kind, str(status)).inc()

    def forget(self, namespace: str, router: str) -> None:
        """Drop the series of a mesh that is gone."""
        for gauge in (self.drift, self.converged, self.routers):
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
