"""The interface between telemetry and the runtime: clocks, process figures, and a sink for records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

BACKLOG, DISK, ROOM = REASONS = ("backlog", "disk", "room")
"""Reasons for lost records: the writer was too slow; the disk refused them; newer records replaced them."""


@dataclass(frozen=True, slots=True)
class Process:
    """The process of the router: CPU time in microseconds, and the largest delay of its loop since the last query."""

    cpu_us: int
    loop_lag_us: int


class Sink(Protocol):
    """Accepts records and publishes them."""

    @property
    def seqs(self) -> Mapping[str, int]:
        """The sequence number of the last record of each kind."""

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """Number of lost records so far, by kind and reason."""

    @property
    def error(self) -> str:
        """Why records cannot be written; "" if they can."""

    def put(self, kind: str, ts_us: int, mono_us: int, values: tuple[Any, ...]) -> None:
        """Accept a record, whose values must not change afterwards. Never blocks."""

    def flush(self) -> None:
        """Write the records so far."""

    def rotate(self) -> None:
        """Publish the records so far."""

    def close(self) -> None:
        """Publish the records so far; no more will follow."""


class Exporter(Protocol):
    """Exports the records of one router."""

    @property
    def sink(self) -> Sink:
        """The sink for records."""

    def wall_us(self) -> int:
        """Microseconds since 1970 by the system clock, which can be adjusted."""

    def clock_ns(self) -> int:
        """Nanoseconds of a monotonic clock."""

    def process(self) -> Process:
        """Figures of the process."""
