"""Writes exports as routers would, with the names and lines of waymesh_schema."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from waymesh_router.telemetry.lines import LineWriter
from waymesh_schema.telemetry import KINDS, FileName

HOUR_US = 3_600_000_000
DAY = datetime(2026, 1, 30, tzinfo=UTC)
"""A Friday."""
START_US = int(DAY.timestamp() * 1_000_000)


@dataclass
class RouterExport:
    """The records of one incarnation of a router. `boot_us`: its start, behind START_US; `skew_us`: its clock's."""

    root: Path
    name: str
    boot_us: int = 0
    skew_us: int = 0
    mesh: str = "test"
    seqs: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lines: dict[tuple[str, int], list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def boot(self) -> int:
        return (START_US + self.boot_us) // 1000

    def put(self, kind: str, at_us: int, **values: Any) -> None:
        """A record, `at_us` microseconds behind START_US; fields that are not given are null."""
        own = tuple([values.pop(f.name, None) for f in KINDS[kind].own])
        assert not values, f"{kind} has no {values}"
        self.seqs[kind] += 1
        ts = START_US + at_us + self.skew_us
        writer = LineWriter(KINDS[kind], self.mesh, self.name, self.boot)
        writer.add(self.seqs[kind], ts, at_us - self.boot_us, own)
        self.lines[kind, ts // HOUR_US].append((self.seqs[kind], writer.take()))

    def lose(self, kind: str, count: int = 1) -> None:
        """Numbers that were spent on records which nobody will see."""
        self.seqs[kind] += count

    def write(self) -> list[Path]:
        """Write a file for each kind, hour and row of numbers without a gap; what was written is forgotten."""
        written = []
        for kind, hour, numbered in self._rows():
            moment = datetime.fromtimestamp(hour * 3600, UTC)
            name = FileName(
                kind, moment.date().isoformat(), moment.hour, self.name, self.boot, numbered[0][0], len(numbered)
            )
            path = self.root / name.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(b"".join(line for _, line in numbered), 1, mtime=0))
            written.append(path)
        self.lines.clear()
        return written

    def _rows(self) -> Iterator[tuple[str, int, list[tuple[int, bytes]]]]:
        for (kind, hour), numbered in sorted(self.lines.items()):
            for _, row in groupby(enumerate(numbered), lambda pair: pair[1][0] - pair[0]):
                yield kind, hour, [line for _, line in row]
