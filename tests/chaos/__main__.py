"""`python -m tests.chaos --minutes 10 --seed 1`: routers under faults, and whether their promises were kept."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import waymesh_amqp
from tests.chaos.mesh import shape
from tests.chaos.planted import DEFECTS
from tests.chaos.run import Options, Run, save
from tests.chaos.schedule import Round, from_rows, schedule, text
from tests.chaos.workload import PLANS
from tests.kit import tls_contexts

SHOWN = 20
PLANT_PATIENCE_S = 20.0
"""A defect that is planted need not be waited for as long as a slow machine would have to be."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Runs four routers on loopback under random faults, with clients that write down what they send "
        "and receive, and checks that what docs/reliability.md promises was kept. WAYMESH_ENGINE chooses the engine.",
        epilog="Exit code: 0 if all was kept, 1 if not; then a folder with the histories, the schedule and the logs "
        "stays, and the command that runs the schedule again is printed.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="no round of faults begins later (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule and of what the clients do (default 1)")
    parser.add_argument("--schedule", type=Path, help="schedule.json of an earlier run, all of it, not a new one")
    parser.add_argument("--idle", type=int, default=8, help="idle time-out of all connections in seconds (default 8)")
    parser.add_argument("--plant", choices=DEFECTS, default="", help="give all routers a defect, which a run must find")
    parser.add_argument("--folder", type=Path, help="for logs (default: a new one, which stays after a violation)")
    return parser.parse_args(arguments)


def main() -> int:
    """Run what was asked for."""
    asked = parse(sys.argv[1:])
    tls_contexts.share()
    seconds = 0.0 if asked.schedule else asked.minutes * 60
    rounds: list[Round]
    if asked.schedule:
        rounds = from_rows(json.loads(asked.schedule.read_text(encoding="utf-8")))
    else:
        rounds = schedule(asked.seed, seconds, shape(PLANS), asked.idle)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {asked.seed}, engine {waymesh_amqp.engine()}, {len(rounds)} rounds\n{text(rounds)}", flush=True)
    options = Options(asked.seed, asked.idle, seconds, defect=asked.plant, say=lambda line: print(line, flush=True))
    if asked.plant:
        options.patience_s = PLANT_PATIENCE_S
    began = time.monotonic()
    result = Run(folder, options).go(rounds)
    save(folder, rounds, result, options)
    for problem in result.problems[:SHOWN]:
        print("note: " + problem)
    took = f"{result.rounds} rounds, {len(result.events)} events, {time.monotonic() - began:.0f} s"
    if not result.violations:
        print(f"kept: {took}")
        if asked.folder is None:
            shutil.rmtree(folder)
        return 0
    for found in result.violations[:SHOWN]:
        print(f"{found.kind} {found.message}: {found.text}")
    print(f"violated: {len(result.violations)} violations, {took}; see {folder}")
    plant = f" --plant {asked.plant}" if asked.plant else ""
    print(
        f"again: WAYMESH_ENGINE={waymesh_amqp.engine()} {sys.executable} -m tests.chaos --seed {asked.seed} "
        f"--idle {asked.idle}{plant} --schedule {folder / 'schedule.json'}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
