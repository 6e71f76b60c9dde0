"""What `waymesh analyze` costs on a large export, beside DuckDB with the same questions to the same Parquet files.

    python -m tests.bench.analytics FOLDER --deliveries 50000000 --links 13000000

FOLDER gets export/ (when it is not there yet) and out/. Needs `make analytics`, and the package duckdb to compare with.
Each step is a process of its own; counted are CPU seconds and the peak of resident memory of it and all its children.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waymesh_analytics.store.manifest import from_text, to_text

TICKS = os.sysconf("SC_CLK_TCK")
POLL_S = 0.1
MASTER = "local[2]"
SAME = 1e-6
"""Relative difference of two sums in another order."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one or more cores, seconds of a clock, bytes."""

    cpu_s: float
    wall_s: float
    peak: int

    def __str__(self) -> str:
        return f"{self.cpu_s:8.1f} CPU-s {self.wall_s:8.1f} s {self.peak / 2**20:8,.0f} MiB"


def measure(words: list[str]) -> Cost:
    """Run a command and watch it and its descendants. Raises CalledProcessError."""
    process = subprocess.Popen(words)
    cost = watch(lambda: process.poll() is None, lambda: family(process.pid))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return cost


def watch(running: Callable[[], bool], processes: Callable[[], Iterable[int]]) -> Cost:
    """What processes cost, which may begin and end, as long as something is running."""
    began, cpu, peaks = time.monotonic(), dict[int, float](), dict[int, int]()
    while running():
        for pid in processes():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
            high = [line for line in status.splitlines() if line.startswith("VmHWM:")]
            peaks[pid] = int(high[0].split()[1]) << 10 if high else peaks.get(pid, 0)
        time.sleep(POLL_S)
    return Cost(sum(cpu.values()), time.monotonic() - began, sum(peaks.values()))


def family(root: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


# ---- steps


def forget_last_hour(out: Path) -> None:
    """As if the last hour had not been worked up yet."""
    newest = max((out / "store/manifest").glob("[0-9]*.json"))
    manifest = from_text(newest.read_text())
    last = max(hour for hours in manifest.hours.values() for hour in hours)
    for entry in [hours.pop(last) for hours in manifest.hours.values() if last in hours]:
        for folder in {(out / "store" / file).parent for file in entry.paths}:
            shutil.rmtree(folder)
    newest.write_text(to_text(manifest))
    os.utime(newest.parent, (0, 0))  # so that the files of that hour are new


BUCKET = """case when settle_us < 64 then settle_us else (cast(floor(log2(settle_us + 0.5)) as int) - 5) * 32
    + (settle_us >> (cast(floor(log2(settle_us + 0.5)) as int) - 5)) end"""
ENDS = ("accepted", "rejected", "released", "modified", "presettled")
COUNTERS = ("deliveries", "accepted", "rejected", "released", "modified", "delayed_1s", "delayed_10s")
QUESTIONS = {
    "traffic": """select address, ingress, egress, count(*) samples, sum(weight) deliveries, sum(size * weight) bytes,
        sum(hops * weight) / sum(weight) mean_hops from d where half = 'out' group by all""",
    "outcomes": "select address, count(*) samples, "
    + ", ".join(f"sum(case when outcome = '{end}' then weight else 0 end) {end}" for end in ENDS)
    + " from d where half = 'in' group by all",
    "latency": f"""select address, {BUCKET} bucket, count(*) samples, sum(weight) deliveries from d
        where half = 'in' and outcome != 'presettled' group by all""",
    "talkers": """select address, half side, coalesce(producer, consumer) container, count(*) samples,
        sum(weight) deliveries, sum(size * weight) bytes from d group by all""",
    "links": "select router, boot, link_id, max(address) address, max(container) container, "
    + ", ".join(f"max({name}) - min({name}) {name}" for name in COUNTERS)
    + """, max(zero_credit_s) zero_credit_s, max(undelivered) undelivered, max(unsettled) unsettled, max(stuck) stuck
        from l where type = 'endpoint' group by all""",
    "hops": "select ingress, egress, hops, sum(weight) deliveries from d where half = 'out' group by all",
    "series": """select address, hour, sum(weight) deliveries, sum(settle_us * weight) settle_us from d
        where half = 'in' group by all""",
    "audit_d": "select router, boot, count(*), min(seq), max(seq), min(ts), max(ts) from d group by all",
    "audit_l": "select router, boot, count(*), min(seq), max(seq), min(ts), max(ts) from l group by all",
}
"""The questions of the report that read all records, as somebody would put them who has DuckDB alone."""


def answer_with_duckdb(out: Path) -> None:
    """Put QUESTIONS, write the answers to out/duckdb; in this process."""
    import duckdb

    (out / "duckdb").mkdir(exist_ok=True)
    link = duckdb.connect()
    link.execute("set threads = 2; set preserve_insertion_order = false; set TimeZone = 'UTC'")
    for view, kind in (("d", "delivery"), ("l", "link")):
        files = f"{out}/store/curated/{kind}/*/*/*.parquet"
        link.execute(f"create view {view} as select * from read_parquet('{files}', hive_partitioning = false)")
    for name, question in QUESTIONS.items():
        link.execute(f"copy ({question}) to '{out}/duckdb/{name}.json' (format json)")


def differences(out: Path) -> list[str]:
    """Where the tables of the report say something else than DuckDB."""
    found = []
    keys = {"traffic": ("address", "ingress", "egress"), "outcomes": ("address",), "links": ("router", "link_id")}
    keys["talkers"] = ("address", "side", "container")
    for name, key in keys.items():
        ours = {tuple(row[k] for k in key): row for row in json.loads((out / f"tables/{name}.json").read_text())}
        lines = (out / f"duckdb/{name}.json").read_text().splitlines()
        theirs = {tuple(row[k] for k in key): row for row in map(json.loads, lines)}
        if ours.keys() != theirs.keys():
            found.append(f"{name}: {len(ours)} rows, {len(theirs)} of DuckDB")
            continue
        found += [
            f"{name} {place}: {column} {ours[place][column]}, DuckDB {value}"
            for place, row in theirs.items()
            for column, value in row.items()
            if not _same(ours[place][column], value)
        ]
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= SAME * max(abs(one), abs(other), 1)
    return bool(one == other)


def main() -> int:
    """The command; 1 when the answers differ."""
    parser = argparse.ArgumentParser(description="Measure waymesh analyze on a large export.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deliveries", type=int, default=50_000_000)
    parser.add_argument("--links", type=int, default=13_000_000)
    parser.add_argument("--duckdb", action="store_true", help="only put the questions to DuckDB, in this process")
    asked = parser.parse_args()
    out, export = asked.folder / "out", asked.folder / "export"
    if asked.duckdb:
        answer_with_duckdb(out)
        return 0
    python = [sys.executable, "-m"]
    if not export.exists():
        sizes = ["--deliveries", str(asked.deliveries), "--links", str(asked.links)]
        print("export:          ", measure([*python, "tests.bench.export", str(export), *sizes]), flush=True)
    job = [*python, "waymesh_analytics", str(export), "--out", str(out), "--master", MASTER, "--quiet"]
    print("all, from lines: ", measure(job), flush=True)
    print("nothing new:     ", measure(job), flush=True)
    forget_last_hour(out)
    print("one hour more:   ", measure(job), flush=True)
    alone = [*python, "tests.bench.analytics", str(asked.folder), "--duckdb"]
    print("DuckDB:          ", measure(alone), flush=True)
    found = differences(out)
    print("\n".join(found[:20]) if found else "The answers are the same.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
