"""The `telemetry` entity: starts, replaces and ends the collector of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from waymesh_router.core.delivery_sampling import SamplePace
from waymesh_router.core.telemetry_hooks import TelemetryHooks
from waymesh_router.telemetry.collector import Collector, Pace

if TYPE_CHECKING:
    from waymesh_router.core.core import Core
    from waymesh_router.host import Host
    from waymesh_router.log.event_log import EventLog
    from waymesh_router.management.view import RouterView


class TelemetryExport:
    """`collector`: the current one, None while telemetry is off."""

    def __init__(self, view: RouterView, core: Core, host: Host, events: EventLog) -> None:
        self._view, self._core, self._host, self._events = view, core, host, events
        self.collector: Collector | None = None
        self._last_collector: Collector | None = None

    def configure(self, attrs: Mapping[str, Any]) -> None:
        """Apply the entity. Raises OSError if the exporter cannot be created; then nothing changes."""
        exporter = self._host.exporter(attrs, self._core.router_id) if attrs["path"] else None
        self.end()
        if exporter is None:
            return
        pace = Pace(float(attrs["intervalSeconds"]), float(attrs["rotateSeconds"]))
        self.collector = self._last_collector = Collector(self._view, exporter, pace, self._last_collector)
        self._events.records = self.collector
        if attrs["sampleOneIn"]:
            often = SamplePace(attrs["sampleOneIn"], float(attrs["samplesPerSecond"]))
            self._core.sampling.start(often, exporter.clock_ns, self.collector.delivery)

    def router_ending(self) -> None:
        """The router is being stopped: its connections will be closed."""
        if self.collector is not None:
            self.collector.ending = True

    def end(self) -> None:
        """Publish the records so far and create no more."""
        if self.collector is not None:
            self.collector.finish()
        self.collector, self._events.records = None, TelemetryHooks()
        self._core.sampling.stop()

    def tick(self, now: float) -> None:
        """Run the timers of collector and samples."""
        if self.collector is not None:
            self.collector.tick(now)
            self._core.sampling.tick(now)
