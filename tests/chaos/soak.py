"""`python -m tests.chaos.soak --hours 1`: nothing that comes and goes leaves something behind."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import waymesh_amqp
from tests.chaos import counted
from tests.chaos.churn import Churn, Soaked
from tests.chaos.slope import grows, growth, step
from tests.kit import tls_contexts
from tests.kit.process import RouterProcess
from tests.kit.waiting import wait_until

ALLOWED = {"rss": 0.05, "descriptors": 0.02, "objects": 0.05}
"""Growth over a whole soak, as a share. Tables may not grow at all. Of objects, what a router had when it started is
not counted: some 800 stay, and one kept for each connection would double them within minutes."""
SETTLE_S = 60.0
STAYING = ("A", "B")
"""The edge router comes and goes."""
NAMED = 8
"""So many types are named that grew most."""
Readings = dict[str, list[float]]
Types = dict[str, list[Counter[str]]]
"""How many objects of each type a router had after each round."""


def main() -> int:
    """Soak, and judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="no round begins later (default 1)")
    asked = parser.parse_args()
    tls_contexts.share()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"engine {waymesh_amqp.engine()}, logs and readings in {folder}", flush=True)
    readings, types = soak(folder, asked.hours * 3600)
    (folder / "readings.json").write_text(json.dumps(readings), encoding="utf-8")
    (folder / "types.json").write_text(json.dumps(types), encoding="utf-8")
    found = judge(readings, types)
    print("\n".join([*found, f"soak: {len(found)} figures grew"]))
    return 1 if found else 0


def soak(folder: Path, seconds: float) -> tuple[Readings, Types]:
    """One round after the other; what was read after each one."""
    readings: Readings = defaultdict(list)
    types: Types = defaultdict(list)
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
                types[name].append(at_rest(soaked, name, tables[name], counts[name]))
                _read(soaked.routers[name], types[name][-1], readings)
            latest = ", ".join(f"{name} {values[-1]:.0f}" for name, values in sorted(readings.items()))
            print(f"{time.monotonic() - began:6.0f} s, {churn.messages} messages: {latest}", flush=True)
    finally:
        soaked.kill()
    return readings, types


def at_rest(soaked: Soaked, name: str, tables: dict[str, int], counts: Path) -> Counter[str]:
    """The objects of a router when its tables are what they were at the start, and also the connection has ended which
    asked for these: a router learns that after its peer."""
    wait_until(lambda: soaked.tables(name) == tables, SETTLE_S, lambda: f"{name}: {soaked.tables(name)}, not {tables}")
    pid, connections = soaked.routers[name].pid, tables["connection"] - 1

    def look() -> Counter[str] | None:
        counted.ask(pid, counts)
        wait_until(counts.exists, SETTLE_S, "the number of objects")
        types = counted.read(counts)
        return types if types[counted.CONNECTION] == connections else None

    found = wait_until(look, SETTLE_S, lambda: f"{name}: {counted.read(counts)}, not {connections} connections")
    assert found is not None
    return found


def _read(router: RouterProcess, types: Counter[str], readings: Readings) -> None:
    readings[f"{router.name} objects"].append(types.total())
    readings[f"{router.name} rss"].append(router.resident_bytes() / 1024)
    readings[f"{router.name} descriptors"].append(len(list(Path(f"/proc/{router.pid}/fd").iterdir())))


def judge(readings: Readings, types: Mapping[str, Sequence[Mapping[str, int]]]) -> list[str]:
    """The figures that grew; of objects with the types that grew most. `types`: by router, of each reading."""
    found = []
    for name, values in readings.items():
        router, figure = name.split()
        if grows(values, ALLOWED[figure]):
            text = f"{name} grew by {growth(values):.1%}, from {values[0]:.0f} to {values[-1]:.0f}"
            found.append(text + (f": {grown(types[router])}" if figure == "objects" else ""))
    return found


def grown(readings: Sequence[Mapping[str, int]]) -> str:
    """The types of which there are more objects in the last readings than in the first ones that count."""
    steps = {name: step([types.get(name, 0) for types in readings]) for name in set().union(*readings)}
    most = sorted(((by, name) for name, by in steps.items() if by >= 1), reverse=True)
    return ", ".join(f"{name} +{by:.0f}" for by, name in most[:NAMED])


if __name__ == "__main__":
    sys.exit(main())
