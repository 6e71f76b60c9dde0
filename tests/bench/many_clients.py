"""Makes the export of one router and hour with a great many clients, each with a container-id of its own.

    python -m tests.bench.many_clients FOLDER --clients 1000000 --deliveries 20000000
    python -m tests.bench.many_clients FOLDER --clients 1000000 --deliveries 20000000 --report FOLDER.report

Each client connects, attaches a link, sends its share of the deliveries, and goes; the first LARGE clients send half of
all. Half of the records of deliveries are those of where they came in. Files have as many lines as routers give them,
or --lines. With --report, the job makes a report of them in a control group (which needs root) with the memory of the
chart's defaults, and its tables are compared with what was made.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.analytics import family, watch
from tests.bench.export import BOOT_MS, DAY, HOUR_US, INT, PIECE, START_US, WORD, template
from tests.kit.control_group import ControlGroup
from waymesh_router.telemetry.lines import LineWriter, Row
from waymesh_schema.telemetry import KINDS, FileName

ROUTER = "hub"
FILE_LINES = 200_000
"""Of a file: about 64 MiB before compression, where routers begin another one."""
CONSUMERS = 500
LARGE = 1000
POD_BYTES = 3 << 30
"""`analytics.resources.limits.memory` of the chart."""
HEAP = "spark.driver.memory=1g"
"""`analytics.driverMemory` of the chart."""
WEIGHT = 100.0


class Records:
    """The numbered records of a kind, in files."""

    def __init__(self, root: Path, kind: str, size: int = FILE_LINES) -> None:
        self.root, self.kind, self.size = root, kind, size
        self.written = 0
        self.lines: list[bytes] = []
        self.writer = LineWriter(KINDS[kind], "bench", ROUTER, BOOT_MS)

    def put(self, line: str, ts_us: int, *values: object) -> None:
        seq = self.written + len(self.lines) + 1
        self.lines.append((line % (seq, ts_us, ts_us - BOOT_MS * 1000, *values)).encode())
        if len(self.lines) == self.size:
            self.close()

    def close(self) -> None:
        """Write a file of what is there."""
        if not self.lines:
            return
        place = (self.kind, DAY.date().isoformat(), DAY.hour, ROUTER, BOOT_MS)
        path = self.root / FileName(*place, self.written + 1, len(self.lines)).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(b"".join(self.lines), 1, mtime=0))
        self.written += len(self.lines)
        self.lines.clear()


def sender(number: int, clients: int) -> int:
    """The client that sends a delivery: one of the first LARGE for every second, one of all for the others."""
    return number // 2 % min(LARGE, clients) if number % 2 else number // 2 * 7919 % clients


def deliveries(root: Path, clients: int, count: int, lines: int) -> Iterator[int]:
    """`count` records, two for each delivery; yields how many so far."""
    records = Records(root, "delivery", lines)
    same = ("orders", 0, 4, ROUTER)
    into = (INT, "in", *same, None, None, 0, 500, False, 1, None, WORD, None, "accepted", False, INT, INT, WEIGHT)
    out = (INT, "out", *same, ROUTER, ROUTER, 0, 500, False, 2, 3, None, WORD, "accepted", False, INT, INT, WEIGHT)
    came, left = template(records.writer, into), template(records.writer, out)
    for number in range(count // 2):
        ts, times = START_US + number * HOUR_US // (count // 2), (number % 900, 1000 + number % 50_000)
        records.put(came, ts, number, f"client-{sender(number, clients):09d}", *times)
        records.put(left, ts, number, f"consumer-{number % CONSUMERS:03d}", *times)
        if number % (50 * PIECE) == 0:
            yield 2 * number
    records.close()


def clients(root: Path, count: int, lines: int) -> None:
    """The connections and links of `count` clients: two records each."""
    connections, links = Records(root, "connection", lines), Records(root, "link", lines)
    peer: Row = (INT, WORD, WORD, "in", "normal", None, "app", "PLAIN", "TLSv1.3", None, INT, None, {}, None, 100, 100)
    opened, closed = (template(connections.writer, (event, *peer)) for event in ("open", "close"))
    link = (INT, INT, WORD, "orders", "in", "endpoint", "normal", "orders", 0, None, 250, 250, 0, 0, 0)
    attached, detached = (template(links.writer, (event, *link, INT, *[0] * 9, None)) for event in ("attach", "detach"))
    for number in range(count):
        name, host = f"client-{number:09d}", f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        ts = START_US + number * (HOUR_US - 20_000_000) // count
        connections.put(opened, ts, number, name, host, 0)
        links.put(attached, ts, number, number, name, 0)
        links.put(detached, ts + 10_000_000, number, number, name, 10)
        connections.put(closed, ts + 10_000_000, number, name, host, 10)
    connections.close()
    links.close()


def analyze(folder: Path, report: Path, master: str) -> bool:
    """Run the job as the chart does, and print what it cost; whether it succeeded."""
    group = ControlGroup(POD_BYTES)
    if not group.within:
        raise SystemExit("no right to make a control group")
    job = [sys.executable, "-m", "waymesh_analytics", str(folder), f"--out={report}", f"--conf={HEAP}", "--quiet"]
    used = [0]

    def running() -> bool:
        used[0] = max(used[0], group.used())
        return process.poll() is None

    process = subprocess.Popen([*group.within, *job, f"--master={master}"])
    cost = watch(running, lambda: family(process.pid))
    print(
        f"{cost}; without files in memory {used[0] >> 20:,} MiB, with them {group.most() >> 20:,}, limit "
        f"{POD_BYTES >> 20:,}; killed {group.killed()}; exit code {process.returncode}; "
        f"load average {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    group.remove()
    return process.returncode == 0


def differences(tables: Path, clients: int, count: int) -> Iterator[str]:
    """Where the tables of a report say something else than what was made."""

    def rows(name: str) -> list[dict[str, Any]]:
        return list(json.loads((tables / f"{name}.json").read_text()))

    each = count // 2
    sent: Counter[str] = Counter()
    for number in range(each):
        sent[f"client-{sender(number, clients):09d}"] += 1
    talkers = rows("talkers")
    for side in ("in", "out"):
        found = sum(row["samples"] for row in talkers if row["side"] == side)
        if found != each:
            yield f"talkers, side {side}: {found} samples of {each}"
    named = {row["container"]: row["samples"] for row in talkers if row["side"] == "in"}
    yield from (
        f"talkers: {name} sent {count}, not {named.get(name)}"
        for name, count in sent.most_common(min(LARGE, clients))
        if named.get(name) != count
    )
    yield from (f"talkers: {name} sent {sent[name]}" for name, n in named.items() if n > sent[name] and name in sent)
    for name, wanted, column in (
        ("traffic", each, "samples"),
        ("outcomes", round(each * WEIGHT), "accepted"),
        ("connections", clients, "opened"),
        ("completeness", count + 4 * clients, "records"),
        ("completeness", 0, "lost"),
    ):
        found = sum(row[column] for row in rows(name))
        if found != wanted:
            yield f"{name}: {column} {found}, not {wanted}"


def main() -> int:
    """The command; 1 if a report differs from what was made."""
    parser = argparse.ArgumentParser(description="Make the export of one router and hour with a great many clients.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--deliveries", type=int, default=20_000_000)
    parser.add_argument("--lines", type=int, default=FILE_LINES, help="of a file (default: %(default)s)")
    parser.add_argument("--report", type=Path, help="make a report there, instead of the export")
    parser.add_argument("--master", default="local[*]")
    asked = parser.parse_args()
    if asked.report:
        if not analyze(asked.folder, asked.report, asked.master):
            return 1
        found = list(differences(asked.report / "tables", asked.clients, asked.deliveries))
        print("\n".join(found[:20]) if found else "The report has what was made.")
        return bool(found)
    clients(asked.folder, asked.clients, asked.lines)
    for made in deliveries(asked.folder, asked.clients, asked.deliveries, asked.lines):
        print(f"{made:,} records of deliveries", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
