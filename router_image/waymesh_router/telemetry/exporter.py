"""What telemetry needs of the world: clocks, figures of the process, a place for records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

BACKLOG, DISK, ROOM = REASONS = ("backlog", "disk", "room")
"""Why records are lost: the writer was behind; the disk did not take them; older ones made room for newer ones."""


@dataclass(frozen=True, slots=True)
class Process:
    """The process that the router runs in: CPU microseconds so far, how late its loop was at worst since it was asked
    last."""

    cpu_us: int
    loop_lag_us: int


class Sink(Protocol):
    """Where records go."""

    @property
    def seqs(self) -> Mapping[str, int]:
        """The number of the last record of each kind."""

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        """How many records were lost so far, by kind and reason."""

    @property
    def error(self) -> str:
        """Why records cannot be written; "" while they can."""

    def put(self, kind: str, ts_us: int, mono_us: int, values: tuple[Any, ...]) -> None:
        """Take a record, whose values must not change from now on; never waits."""

    def flush(self) -> None:
        """Write what was taken."""

    def rotate(self) -> None:
        """Publish what was taken."""

    def close(self) -> None:
        """Publish what was taken; no more will come."""


class Exporter(Protocol):
    """The way out for one router's records."""

    @property
    def sink(self) -> Sink:
        """Where they go."""

    def wall_us(self) -> int:
        """Microseconds since 1970 by the machine's clock, which may be set."""

    def clock_ns(self) -> int:
        """Nanoseconds by a clock that nobody sets."""

    def process(self) -> Process:
        """Figures of the process."""
