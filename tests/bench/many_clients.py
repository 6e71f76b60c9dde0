"""Makes the export of one router and hour with a great many clients, each with a container-id of its own.

    python -m tests.bench.many_clients FOLDER --clients 1000000 --deliveries 20000000
    waymesh analyze FOLDER --out FOLDER.report

Each client connects, attaches a link, sends its share of the deliveries, and goes. Half of the records of deliveries
are those of where they came in. Files are as large as routers make them.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

from tests.bench.export import BOOT_MS, DAY, HOUR_US, INT, PIECE, START_US, WORD, template
from waymesh_router.telemetry.lines import LineWriter, Row
from waymesh_schema.telemetry import KINDS, FileName

ROUTER = "hub"
FILE_LINES = 200_000
"""Of a file: about 64 MiB before compression, where routers begin another one."""
CONSUMERS = 500


class Records:
    """The numbered records of a kind, in files."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.written = 0
        self.lines: list[bytes] = []
        self.writer = LineWriter(KINDS[kind], "bench", ROUTER, BOOT_MS)

    def put(self, line: str, ts_us: int, *values: object) -> None:
        seq = self.written + len(self.lines) + 1
        self.lines.append((line % (seq, ts_us, ts_us - BOOT_MS * 1000, *values)).encode())
        if len(self.lines) == FILE_LINES:
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


def deliveries(root: Path, clients: int, count: int) -> Iterator[int]:
    """`count` records, two for each delivery; yields how many so far."""
    records = Records(root, "delivery")
    same = ("orders", 0, 4, ROUTER)
    into = (INT, "in", *same, None, None, 0, 500, False, 1, None, WORD, None, "accepted", False, INT, INT, 100.0)
    out = (INT, "out", *same, ROUTER, ROUTER, 0, 500, False, 2, 3, None, WORD, "accepted", False, INT, INT, 100.0)
    came, left = template(records.writer, into), template(records.writer, out)
    for number in range(count // 2):
        ts, times = START_US + number * HOUR_US // (count // 2), (number % 900, 1000 + number % 50_000)
        records.put(came, ts, number, f"client-{number * 7919 % clients:09d}", *times)
        records.put(left, ts, number, f"consumer-{number % CONSUMERS:03d}", *times)
        if number % (50 * PIECE) == 0:
            yield 2 * number
    records.close()


def clients(root: Path, count: int) -> None:
    """The connections and links of `count` clients: two records each."""
    connections, links = Records(root, "connection"), Records(root, "link")
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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the export of one router and hour with a great many clients.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--deliveries", type=int, default=20_000_000)
    asked = parser.parse_args()
    clients(asked.folder, asked.clients)
    for made in deliveries(asked.folder, asked.clients, asked.deliveries):
        print(f"{made:,} records of deliveries", flush=True)


if __name__ == "__main__":
    main()
