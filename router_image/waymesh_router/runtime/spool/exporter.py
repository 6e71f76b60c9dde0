"""The runtime side of telemetry: a spool of files, clocks, and process metrics."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.spool.files import SpoolSettings
from waymesh_router.runtime.spool.spool import RecordCounter, Spool
from waymesh_router.telemetry.exporter import Process

POLL_S = 0.1
"""Interval at which the delay of the loop is measured."""


class ExporterHost(Protocol):
    """The host of an exporter."""

    loop: Loop
    incarnation: Incarnation

    @property
    def log(self) -> Callable[[str, str, str], None]:
        """Writes a log line: module, level, text."""


class Incarnation:
    """State that all exporters of the process share, also those of later configurations: start time, record counts."""

    def __init__(self) -> None:
        self.boot = time.time_ns() // 1_000_000
        self.counter = RecordCounter()
        self.spool: Spool | None = None
        """The spool that was created last."""

    def follow(self, settings: SpoolSettings, log: Callable[[str, str], None]) -> Spool:
        """Create the next spool, which first finishes the files of the previous one."""
        self.spool = Spool(settings, self.counter, log, self.spool)
        return self.spool


def check_folder(path: str) -> None:
    """Raises HostError if the folder cannot be created or written to."""
    root = Path(path)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"telemetry: path: {error}") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise HostError(f"telemetry: path: {root} cannot be written to")


class FileExporter:
    """See `waymesh_router.telemetry.exporter.Exporter`."""

    def __init__(self, attrs: Mapping[str, Any], router_id: str, host: ExporterHost) -> None:
        root = Path(attrs["path"])
        with contextlib.suppress(HostError):  # each file repeats this check and reports its failure
            check_folder(attrs["path"])
        boot = host.incarnation.boot
        settings = SpoolSettings(root, attrs["mesh"], router_id, boot, attrs["maxMegabytes"] << 20)
        loop, log = host.loop, host.log
        self.clock_ns = time.monotonic_ns  # called for each sample, so without a wrapper
        self.sink = host.incarnation.follow(
            settings, lambda level, text: loop.call_from_thread(lambda: log("ROUTER", level, text))
        )
        self._loop = loop
        self._lag_us = 0
        self._measure_at = 0.0
        self._measure_lag()

    def wall_us(self) -> int:
        """See Exporter."""
        return time.time_ns() // 1000

    def process(self) -> Process:
        """See Exporter."""
        lag, self._lag_us = self._lag_us, 0
        return Process(time.process_time_ns() // 1000, lag)

    def _measure_lag(self) -> None:
        """Measure the delay of the timer: the time for which the loop was busy."""
        now = self._loop.now()
        if self._measure_at:
            self._lag_us = max(self._lag_us, int((now - self._measure_at) * 1e6))
        if not self.sink.closed:
            self._measure_at = now + POLL_S
            self._loop.call_at(self._measure_at, self._measure_lag)
