"""Fuzzes the reader of telemetry: no line, file or name of a file may end the analysis or take much memory or time.

`python -m tests.fuzz.telemetry --seconds 600 --seed 1`: the work of tasks, which needs no Java; with --report, whole
runs of Spark over folders with some hundred files. Seeds count up from --seed; a finding names its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.fuzz.telemetry_files import BOOT_MS, HOURS, ROUTERS, Maker
from waymesh_schema.telemetry import KINDS, FileName

MOST_S: Final = 120.0
"""A file that takes longer is a finding: of CPU in a task. A run of Spark may take five times as long, of all time."""
MOST_BYTES: Final = 1500 << 20
"""More resident memory of a process that does the work of a task is a finding."""
MEMORY: Final = "MiB of memory"
FILES: Final = 150
PART_ROWS: Final = 10_000
LOT: Final = 25
"""Seeds of a process."""


class Odd(AssertionError):
    """A finding."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Odd(f"over {MOST_S:g} s")


def task(seed: int, root: Path) -> None:
    """The work of a task on a hostile file. Raises for a finding."""
    import pyarrow.parquet as pq

    from waymesh_analytics.rollups.tasks import Shard, work
    from waymesh_analytics.store import parsing

    maker = Maker(seed)
    kind = maker.rng.choice(tuple(KINDS))
    count = maker.rng.choice((0, 1, 10, 60, 300))
    made = maker.file(kind, count=count)
    found = parsing.parse_file(kind, "2026-01-30T00", made.packed)
    found.records.validate(full=True)
    numbers = found.records["seq"].to_pylist()
    if missing := set(made.good) - set(numbers):
        raise Odd(f"{kind}: good lines are missing: {sorted(missing)[:5]}")
    if made.lines is not None and found.lines != made.lines:
        raise Odd(f"{kind}: {found.lines} lines instead of {made.lines}")
    data, _ = parsing.unpack(made.packed)
    if len(data) < 4 << 20 and (table := parsing._whole(kind, data)) is not None:
        rows = parsing._by_line(kind, data).records
        if not table.equals(rows):
            raise Odd(f"{kind}: two ways of reading differ: {len(table)} rows, {len(rows)} rows")
    path = root / FileName(kind, "2026-01-30", 0, "A", BOOT_MS, 1, count).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.packed)
    shard = Shard(
        kind, "2026-01-30T00", "run", f"file://{root}/store", ((f"file:{path}", len(made.packed), count),), {}
    )
    result = work(shard)
    if result.error:
        raise Odd(result.error)
    for written in filter(None, (result.curated, *result.rollups.values())):
        for batch in pq.read_table(root / "store" / written).to_batches(PART_ROWS):
            batch.to_pylist()  # in parts: all together would take more memory than the work did


def report(seed: int, root: Path, spark: Any) -> None:
    """A run over a folder of hostile files. Raises for a finding."""
    from waymesh_analytics.options import Options
    from waymesh_analytics.pipeline import analyze

    maker = Maker(seed)
    export = root / "export"
    for _ in range(FILES):
        kind, router, hour = maker.rng.choice(tuple(KINDS)), maker.rng.choice(ROUTERS), maker.rng.randrange(HOURS)
        first, count = maker.rng.randrange(1, 1000), maker.rng.choice((0, 1, 5, 30))
        path = export / maker.name(kind, hour, router, first, count)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(maker.file(kind, router, first, count).packed)
    analyze(spark, Options(str(export), str(root / "out")), lambda text: None)
    for file in [root / "out/summary.json", *(root / "out/tables").glob("*.json")]:
        json.loads(file.read_text(), parse_constant=_no_number)
    if not (root / "out/report.html").stat().st_size:
        raise Odd("the page is empty")


def _no_number(text: str) -> None:
    raise Odd(f"a table has {text}")


def attempt(seed: int, spark: Any = None) -> str:
    """What is wrong with a seed; empty: nothing."""
    root = Path(tempfile.mkdtemp(prefix="waymesh-fuzz-"))
    # A task: its CPU time, which does not depend on what else the machine does.
    timer, seconds = (signal.ITIMER_PROF, MOST_S) if spark is None else (signal.ITIMER_REAL, 5 * MOST_S)
    signal.setitimer(timer, seconds)
    try:
        if spark is None:
            task(seed, root)
        else:
            report(seed, root, spark)
    except Exception:  # noqa: BLE001  every exception is a finding here
        return traceback.format_exc()
    finally:
        signal.setitimer(timer, 0)
        shutil.rmtree(root, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return f"{used >> 20} {MEMORY}" if spark is None and used > MOST_BYTES else ""


def guarded(seeds: range) -> list[str]:
    """The findings of some seeds in a process of their own: it may be killed, and then its memory is free again."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with os.fdopen(writer, "w", errors="replace") as stream:
            for seed in seeds:
                said = attempt(seed)
                stream.write(json.dumps([seed, said]) + "\n")
                stream.flush()
                if said.endswith(MEMORY):
                    break  # so would be what all others say
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as stream:
        done: list[tuple[int, str]] = [json.loads(line) for line in stream]
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    found = [f"seed {seed}: {said}" for seed, said in done if said]
    return [*found, f"seed {seeds[len(done)]}: the process ended with {code}"] if code else found


def main() -> int:
    """The command; 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.telemetry")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=sys.maxsize, help="seeds")
    parser.add_argument("--report", action="store_true", help="whole runs, with Spark")
    asked = parser.parse_args()
    for each in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(each, _late)
    spark = None
    if asked.report:
        from waymesh_analytics.spark import java_options
        from waymesh_analytics.spark.session import JAVA_OPTIONS, SMALL_DATA, open_session

        java = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {java_options.SMALL_DATA}"}
        spark = open_session("local[1]", {**java, "spark.driver.memory": "1g", **SMALL_DATA})
    else:
        import waymesh_analytics.rollups.tasks  # noqa: F401  once for all children
    seed, end, findings = asked.seed, time.monotonic() + asked.seconds, 0
    while time.monotonic() < end and seed < asked.seed + asked.most:
        lot = range(seed, min(seed + (1 if asked.report else LOT), asked.seed + asked.most))
        if asked.report:
            said = attempt(seed, spark)
            found = [f"seed {seed}: {said}"] if said else []
        else:
            found = guarded(lot)
        seed = lot.stop
        findings += len(found)
        print(*found, sep="\n", end="\n" if found else "", flush=True)
    print(f"seeds {asked.seed} to {seed - 1}: {findings} findings in all", flush=True)
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
