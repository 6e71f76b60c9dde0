"""`python -m tests.chaos.soak --hours 1`: nothing that comes and goes leaves something behind."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import waymesh_amqp
from tests.chaos import counted
from tests.chaos.churn import Churn, Soaked
from tests.chaos.slope import grows, growth
from tests.kit import tls_contexts
from tests.kit.waiting import wait_until

ALLOWED = {"rss": 0.05, "descriptors": 0.02, "objects": 0.05}
"""Growth over a whole soak, as a share. Tables may not grow at all. Of objects, what a router had when it started is
not counted: some 800 stay, and one kept for each connection would double them within minutes."""
SETTLE_S = 60.0
STAYING = ("A", "B")
"""The edge router comes and goes."""
Readings = dict[str, list[float]]


def main() -> int:
    """Soak, and judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="no round begins later (default 1)")
    asked = parser.parse_args()
    tls_contexts.share()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"engine {waymesh_amqp.engine()}, logs and readings in {folder}", flush=True)
    readings = soak(folder, asked.hours * 3600)
    (folder / "readings.json").write_text(json.dumps(readings), encoding="utf-8")
    found = judge(readings)
    print("\n".join([*found, f"soak: {len(found)} figures grew"]))
    return 1 if found else 0


def soak(folder: Path, seconds: float) -> Readings:
    """One round after the other; what was read after each one."""
    readings: Readings = defaultdict(list)
    counts = {name: folder / f"{name}.json" for name in ("A", "B", "E")}
    soaked = Soaked(folder, {name: counted.words(path) for name, path in counts.items()})
    try:
        soaked.start()
        churn = Churn(soaked)
        tables = {name: soaked.tables(name) for name in STAYING}
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            churn.round()
            for name in STAYING:
                _read(soaked, name, tables[name], counts[name], readings)
            latest = ", ".join(f"{name} {values[-1]:.0f}" for name, values in sorted(readings.items()))
            print(f"{time.monotonic() - began:6.0f} s, {churn.messages} messages: {latest}", flush=True)
    finally:
        soaked.kill()
    return readings


def _read(soaked: Soaked, name: str, tables: dict[str, int], counts: Path, readings: Readings) -> None:
    """The figures of a router at rest: when its tables are what they were at the start."""
    wait_until(lambda: soaked.tables(name) == tables, SETTLE_S, lambda: f"{name}: {soaked.tables(name)}, not {tables}")
    router = soaked.routers[name]
    counted.ask(router.pid, counts)
    wait_until(counts.exists, SETTLE_S, "the number of objects")
    readings[f"{name} objects"].append(json.loads(counts.read_text(encoding="utf-8"))["objects"])
    readings[f"{name} rss"].append(router.resident_bytes() / 1024)
    readings[f"{name} descriptors"].append(len(list(Path(f"/proc/{router.pid}/fd").iterdir())))


def judge(readings: Readings) -> list[str]:
    """The figures that grew."""
    return [
        f"{name} grew by {growth(values):.1%}, from {values[0]:.0f} to {values[-1]:.0f}"
        for name, values in readings.items()
        if grows(values, ALLOWED[name.split()[1]])
    ]


if __name__ == "__main__":
    sys.exit(main())
