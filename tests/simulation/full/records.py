"""Telemetry records of a simulated router, kept in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from waymesh_router.telemetry.exporter import Process
from waymesh_schema.telemetry import KINDS

if TYPE_CHECKING:
    from tests.simulation.full.world import World


class Records:
    """An exporter and its sink in one. `rows`: what was put, by kind, as dicts of the kind's own fields. `stamps`: when
    that was, ts and mono_us. `ahead_us`: how wrong the machine's clock is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        self.seqs: Counter[str] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.stamps: dict[str, list[tuple[int, int]]] = {kind: [] for kind in KINDS}
        self.ahead_us = 0
        self.error = ""
        self.published = 0
        self.closed = False

    @property
    def sink(self) -> Records:
        return self

    def wall_us(self) -> int:
        return round(self._world.now * 1e6) + self.ahead_us

    def clock_ns(self) -> int:
        return round(self._world.now * 1e9)

    def process(self) -> Process:
        return Process(1, 2)

    def put(self, kind: str, ts_us: int, mono_us: int, values: tuple[Any, ...]) -> None:
        names = [field.name for field in KINDS[kind].own]
        assert len(names) == len(values), f"{kind}: {len(values)} values for {len(names)} fields"
        self.seqs[kind] += 1
        self.stamps[kind].append((ts_us, mono_us))
        self.rows[kind].append(dict(zip(names, values)))

    def flush(self) -> None:
        """Nothing waits."""

    def rotate(self) -> None:
        self.published += 1

    def close(self) -> None:
        self.closed = True
