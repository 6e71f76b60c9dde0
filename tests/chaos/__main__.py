"""`python -m tests.chaos --minutes 10 --seed 1`: routers under faults, and whether their promises were kept."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import waymesh_amqp
from tests.chaos import apart
from tests.chaos.brokers import PLACES
from tests.chaos.cluster_schedule import cluster_schedule
from tests.chaos.mesh import shape
from tests.chaos.on_cluster import OnCluster
from tests.chaos.planted import DEFECTS, words
from tests.chaos.processes import Processes
from tests.chaos.run import Options, Result, Run, save
from tests.chaos.schedule import Round, from_rows, schedule, text
from tests.chaos.simulated import schedule_of, shrink, simulate
from tests.chaos.workload import PLANS, WIDE, WITHOUT_BROKERS, Plan
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
    parser.add_argument(
        "--simulate",
        type=int,
        metavar="SEEDS",
        help="in the simulation instead: so many seeds, each as long as --minutes; what fails is made smaller",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="no round of faults begins later (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule and of what the clients do (default 1)")
    parser.add_argument("--schedule", type=Path, help="schedule.json of an earlier run, all of it, not a new one")
    parser.add_argument("--idle", type=int, default=8, help="idle time-out of all connections in seconds (default 8)")
    parser.add_argument("--plant", choices=DEFECTS, default="", help="give all routers a defect, which a run must find")
    parser.add_argument(
        "--wide",
        action="store_true",
        help="also brokers, transactions, exchanges, fallback, 10 MB, a tenant, requests and replies, clients of rhea "
        "and go-amqp",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="in namespaces of its own: also lost, late and reordered packets, partitions, little bandwidth, "
        "full disks and clocks that jump",
    )
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="on routers of a Router resource, in the test cluster of this name that has the operator: "
        "python -m tests.cluster --name NAME up --chart",
    )
    parser.add_argument(
        "--tls", action="store_true", help="over TLS: certificates and authorities are renewed, and expire"
    )
    parser.add_argument("--folder", type=Path, help="for logs (default: a new one, which stays after a violation)")
    return parser.parse_args(arguments)


def main() -> int:
    """Run what was asked for."""
    asked = parse(sys.argv[1:])
    given: list[Round] | None = None
    if asked.schedule:
        given = from_rows(json.loads(asked.schedule.read_text(encoding="utf-8")))
    if asked.simulate:
        return simulate_seeds(asked, given)
    if asked.cluster:
        return run_on_cluster(asked, given)
    if asked.apart:
        apart.enter(["-m", "tests.chaos", *sys.argv[1:]])
    tls_contexts.share()
    seconds = 0.0 if given else asked.minutes * 60
    plans, brokers = (WIDE, PLACES) if asked.wide else (PLANS, {})
    targets = shape(plans, brokers, apart=asked.apart, tls=asked.tls)
    rounds = given or schedule(asked.seed, seconds, targets, asked.idle)
    folder = folder_of(asked)
    print(f"seed {asked.seed}, engine {waymesh_amqp.engine()}, {len(rounds)} rounds\n{text(rounds)}", flush=True)
    options = Options(seconds, say=lambda line: print(line, flush=True))
    if asked.plant:
        options.patience_s = options.rest_s = PLANT_PATIENCE_S
    within = words(asked.plant) if asked.plant else None
    place = Processes(folder, asked.seed, asked.idle, within, wide=asked.wide, apart=asked.apart, tls=asked.tls)
    began = time.monotonic()
    result = Run(place, options).go(rounds)
    plant = f" --plant {asked.plant}" if asked.plant else ""
    plant += "".join(f" --{name}" for name in ("wide", "apart", "tls") if getattr(asked, name))
    return judge(asked, rounds, result, folder, f"{time.monotonic() - began:.0f} s", plant)


def run_on_cluster(asked: argparse.Namespace, given: list[Round] | None) -> int:
    """Run a schedule on a real Kubernetes; the exit code."""
    rounds = given or cluster_schedule(asked.seed, asked.minutes * 60, PLANS, asked.idle)
    folder = folder_of(asked)
    print(f"seed {asked.seed}, cluster {asked.cluster}, {len(rounds)} rounds\n{text(rounds)}", flush=True)
    options = Options(0.0 if given else asked.minutes * 60, say=lambda line: print(line, flush=True))
    began = time.monotonic()
    result = Run(OnCluster(asked.cluster, asked.seed, asked.idle), options).go(rounds)
    took = f"{time.monotonic() - began:.0f} s"
    return judge(asked, rounds, result, folder, took, f" --cluster {asked.cluster}")


def folder_of(asked: argparse.Namespace) -> Path:
    """Where logs and histories go."""
    folder: Path = asked.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def judge(
    asked: argparse.Namespace, rounds: list[Round], result: Result, folder: Path, took: str, words_again: str
) -> int:
    """Print the verdict, and keep what a look at violations needs; the exit code."""
    save(folder, rounds, result, asked.seed)
    for problem in result.problems[:SHOWN]:
        print("note: " + problem)
    took = f"{result.rounds} rounds, {len(result.events)} events, {took}"
    if not result.violations:
        print(f"kept: {took}")
        if asked.folder is None:
            shutil.rmtree(folder)
        return 0
    for found in result.violations[:SHOWN]:
        print(f"{found.kind} {found.message}: {found.text}")
    print(f"violated: {len(result.violations)} violations, {took}; see {folder}")
    print(
        f"again: WAYMESH_ENGINE={waymesh_amqp.engine()} {sys.executable} -m tests.chaos --seed {asked.seed} "
        f"--idle {asked.idle}{words_again} --schedule {folder / 'schedule.json'}"
    )
    return 1


def simulate_seeds(asked: argparse.Namespace, given: list[Round] | None) -> int:
    """Run seeds in virtual time until one of them fails; the exit code."""
    print(f"{asked.simulate} seeds from {asked.seed} on, engine {waymesh_amqp.engine()}", flush=True)
    began, rounds_done = time.monotonic(), 0
    injected: Counter[str] = Counter()
    plans = WITHOUT_BROKERS if asked.wide else PLANS
    for seed in range(asked.seed, asked.seed + asked.simulate):
        rounds = given or schedule_of(seed, asked.minutes * 60, asked.idle, plans, apart=asked.apart)
        result = simulate(seed, rounds, asked.idle, plans=plans)
        rounds_done += result.rounds
        injected += result.injected
        if result.violations:
            kinds = {found.kind for found in result.violations}
            print(f"seed {seed}: {sorted(kinds)} in {len(rounds)} rounds, which are made fewer", flush=True)
            rounds = shrink(rounds, partial(fails_alike, kinds, seed, asked.idle, plans))
            print(text(rounds))
            asked.seed = seed
            result = simulate(seed, rounds, asked.idle, lambda line: print(line, flush=True), plans=plans)
            again = " --simulate 1" + " --wide" * asked.wide
            return judge(asked, rounds, result, folder_of(asked), "virtual", again)
        if seed % 10 == 9:
            print(f"{time.monotonic() - began:6.0f} s: seed {seed}, {rounds_done} rounds", flush=True)
    took = f"{time.monotonic() - began:.0f} s, {time.process_time():.0f} s of CPU"
    print(f"kept: {asked.simulate} seeds, {rounds_done} rounds, {took}")
    print("injected: " + ", ".join(f"{what} {count}" for what, count in sorted(injected.items())))
    return 0


def fails_alike(kinds: set[str], seed: int, idle_s: int, plans: Mapping[str, Plan], rounds: list[Round]) -> bool:
    """Whether a schedule has a violation of one of these kinds."""
    return any(found.kind in kinds for found in simulate(seed, rounds, idle_s, plans=plans).violations)


if __name__ == "__main__":
    sys.exit(main())
