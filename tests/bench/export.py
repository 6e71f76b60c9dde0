"""Makes a large export of telemetry, as a mesh of many routers would write it; the same for the same arguments.

    python -m tests.bench.export FOLDER --deliveries 50000000 --links 13000000

Lines are filled into templates, one for each flow and link, which LineWriter has made: a record costs 4 microseconds.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from waymesh_router.telemetry.lines import LineWriter, Row
from waymesh_schema.telemetry import KINDS, FileName

DAY = datetime(2026, 1, 31, tzinfo=UTC)
START_US = int(DAY.timestamp() * 1_000_000)
HOUR_US = 3_600_000_000
BOOT_MS = int((DAY - timedelta(days=1)).timestamp() * 1000)
ADDRESSES = 400
FLOWS_EACH = 45
OUTCOMES = ("accepted",) * 96 + ("released", "rejected", "modified", "presettled")
PIECE = 20_000
"""Lines that are compressed in one go."""
INT: Any = "%d"
WORD: Any = "%s"
"""In the place of values that a template leaves open."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much: records in all, hours and routers."""

    deliveries: int
    links: int
    hours: int = 24
    routers: int = 60
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Flow:
    """A producer, a consumer and the way between them. `into`, `out`: the lines of the two halves, by whether they are
    pre-settled; open are seq, ts, mono_us, sid, outcome, queue_us and settle_us."""

    entry: int
    leave: int
    base_us: int
    into: tuple[str, str]
    out: tuple[str, str]


@dataclass(slots=True)
class File:
    """The lines of one kind, router and hour, compressed piece by piece."""

    first: int
    count: int = 0
    lines: list[str] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)

    def put(self, template: str, ts_us: int, *values: object) -> None:
        self.lines.append(template % (self.first + self.count, ts_us, ts_us - BOOT_MS * 1000, *values))
        self.count += 1
        if len(self.lines) >= PIECE:
            self.pack()

    def pack(self) -> None:
        self.packed.append(gzip.compress("".join(self.lines).encode(), 1, mtime=0))
        self.lines.clear()


class Export:
    """Writes the files of one hour after the other."""

    def __init__(self, root: Path, shape: Shape) -> None:
        self.root = root
        self.shape = shape
        self.names = [f"r{number // 12}-{number % 12:02d}" for number in range(shape.routers)]
        self.writers = {
            (kind, number): LineWriter(KINDS[kind], "bench", name, BOOT_MS)
            for kind in ("delivery", "link", "node")
            for number, name in enumerate(self.names)
        }
        self.next = dict.fromkeys(self.writers, 1)
        self.rng = random.Random(shape.seed)

    def files(self, kind: str) -> list[File]:
        """Empty ones, one a router."""
        return [File(self.next[kind, n]) for n in range(self.shape.routers)]

    def publish(self, kind: str, hour: int, files: list[File]) -> None:
        """Write what is in them."""
        moment = DAY + timedelta(hours=hour)
        for number, file in enumerate(files):
            if file.count:
                file.pack()
                name = self.names[number]
                place = (kind, moment.date().isoformat(), moment.hour, name, BOOT_MS)
                path = self.root / FileName(*place, file.first, file.count).path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(file.packed))
                self.next[kind, number] += file.count

    def flows(self) -> tuple[list[Flow], list[float]]:
        """Flows and how likely each is; the first addresses have most of the traffic."""
        flows, weights = [], []
        for number in range(ADDRESSES):
            for each in range(FLOWS_EACH):
                one, other = self.rng.sample(range(self.shape.routers), 2)
                between = self.rng.sample(range(self.shape.routers), self.rng.randrange(4))
                path = [one, *(step for step in between if step not in (one, other)), other]
                flows.append(self.flow(number, each, path))
                weights.append(self.rng.random() / (number + 1) ** 1.05)
        return flows, list(accumulate(weights))

    def flow(self, number: int, each: int, path: list[int]) -> Flow:
        """A flow of an address by its number."""
        entry, leave = path[0], path[-1]
        size, base_us = self.rng.randrange(100, 5000), self.rng.randrange(200, 4000) * len(path)
        same = (f"orders/q{number:03d}", 0, 4, self.names[entry])
        way = (self.names[leave], "|".join(self.names[step] for step in path), len(path) - 1)
        into = (INT, "in", *same, None, None, 0, size, False, 1, None, f"producer-{number:03d}-{each % 8}", None, WORD)
        out = (INT, "out", *same, *way, size, False, 2, 3, None, f"consumer-{number:03d}-{each % 8}", WORD)

        def lines(router: int, values: tuple[Any, ...]) -> tuple[str, str]:
            writer = self.writers["delivery", router]
            plain, presettled = (template(writer, (*values, flag, INT, INT, 100.0)) for flag in (False, True))
            return plain, presettled

        return Flow(entry, leave, base_us, lines(entry, into), lines(leave, out))

    def deliveries(self) -> Iterator[int]:
        """Two records for each sample: where it came in and where it went out. Yields how many so far."""
        flows, sums = self.flows()
        each = self.shape.deliveries // self.shape.hours // 2
        slower = [0.5 + self.rng.expovariate(1.0) for _ in range(4096)]
        for hour in range(self.shape.hours):
            files = self.files("delivery")
            start, sid = START_US + hour * HOUR_US, hour * each + 1
            for begin in range(0, each, PIECE):
                count = min(PIECE, each - begin)
                chosen = self.rng.choices(flows, cum_weights=sums, k=count)
                ends = self.rng.choices(OUTCOMES, k=count)
                times = self.rng.choices(slower, k=count)
                for number, (flow, outcome, factor) in enumerate(zip(chosen, ends, times), begin):
                    presettled, settle = outcome == "presettled", int(flow.base_us * factor)
                    ts, open_values = start + number * HOUR_US // each, (sid + number, outcome, settle // 4, settle)
                    files[flow.entry].put(flow.into[presettled], ts, *open_values)
                    files[flow.leave].put(flow.out[presettled], ts, *open_values)
            self.publish("delivery", hour, files)
            yield 2 * each * (hour + 1)

    def links(self) -> Iterator[int]:
        """A record a minute for each link; yields how many so far."""
        each = self.shape.links // self.shape.hours // 60 // self.shape.routers
        templates = [
            [_link_line(self.writers["link", router], router * 1000 + link, link) for link in range(each)]
            for router in range(self.shape.routers)
        ]
        for hour in range(self.shape.hours):
            files = self.files("link")
            for minute in range(hour * 60, hour * 60 + 60):
                ts = START_US + minute * 60_000_000
                for router, file in enumerate(files):
                    for link, template in enumerate(templates[router]):
                        file.put(template, ts, *_link_values(router * 1000 + link, minute))
            self.publish("link", hour, files)
            yield 60 * each * self.shape.routers * (hour + 1)

    def nodes(self) -> None:
        """A ring of routers, each hour."""
        count = self.shape.routers
        for hour in range(self.shape.hours):
            files = self.files("node")
            for number, file in enumerate(files):
                costs = {self.names[(number + step) % count]: 1 for step in (-1, 1)}
                values: tuple[Any, ...] = (self.names[number], 0, None, costs, [], 1, None, False)
                file.put(template(self.writers["node", number], values), START_US + hour * HOUR_US)
            self.publish("node", hour, files)


def template(writer: LineWriter, values: Row) -> str:
    """A line that is open where the values are, and in front for seq, ts and mono_us."""
    writer.add(1, 2, 3, values)
    return writer.take().decode().replace('"seq":1,"ts":2,"mono_us":3', '"seq":%d,"ts":%d,"mono_us":%d', 1)


def _link_line(writer: LineWriter, number: int, link: int) -> str:
    """Open: seq, ts, mono_us and what `_link_values` gives."""
    text = ("interval", link, link // 3, f"client-{number}", f"link-{number}", "out" if link % 2 else "in")
    kind = ("inter-router", "inter-router") if link < 4 else ("endpoint", "normal")
    state = (None, 250, INT, INT, INT, INT)
    counters = (INT, 0, 0, INT, INT, INT, INT, INT, INT, INT)
    return template(writer, (*text, *kind, f"orders/q{number % ADDRESSES:03d}", 0, *state, *counters, None))


def _link_values(number: int, minute: int) -> tuple[int, ...]:
    passed = (1 + number * 7919 % 500) * (minute + 1)
    starved = number % 53 == 0 and 20 < minute % 60 < 28
    waits = (0, (minute % 60 - 20) * 60, 5) if starved else (250, 0, 0)
    outcomes = (passed * 97 // 100, passed // 400, passed // 50, passed // 500)
    return (*waits, passed % 31, passed, *outcomes, passed // 1000, passed // 20000, number % 211 == 0 and minute > 360)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make a large export of telemetry.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deliveries", type=int, default=50_000_000)
    parser.add_argument("--links", type=int, default=13_000_000)
    parser.add_argument("--hours", type=int, default=24)
    asked = parser.parse_args()
    export = Export(asked.folder, Shape(asked.deliveries, asked.links, asked.hours))
    export.nodes()
    for made in export.deliveries():
        print(f"{made:,} deliveries", flush=True)
    for made in export.links():
        print(f"{made:,} links", flush=True)


if __name__ == "__main__":
    main()
