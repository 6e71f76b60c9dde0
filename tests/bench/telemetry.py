"""What telemetry costs: by the clocks of the threads that do it; and by two routers alike but for it, loaded in turn in
many rounds, so that a machine that gets slower or faster does so to both."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, Target, need_start

ROUNDS: Final = 12
QUICK_ROUNDS: Final = 4
TIMES: Final = ("--warmup", "0.1", "--seconds", "0.9", "--at-least", "1000")
LOADS: Final[Mapping[str, tuple[str, ...]]] = {
    "full": ("--unsettled",),
    "paced": ("--unsettled", "--rate", "20000"),
}
SETTINGS: Final[Mapping[str, Mapping[str, object]]] = {
    "default": {},
    "each-100th": {"samplesPerSecond": 1_000_000},
}
"""Beyond a hundred samples a second a router takes fewer by default; then it is really one delivery in a hundred."""


RATES: Final[Mapping[str, tuple[str, ...]]] = {
    "5k": ("--rate", "5000"),
    "10k": ("--rate", "10000"),
    "20k": ("--rate", "20000"),
    "full": (),
}


def _run_share(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        for setting, more in SETTINGS.items():
            for rate, words in RATES.items():
                yield {f"telemetry-share-{rate}-{setting}": _share(bench, more, words)}


def _share(bench: Bench, settings: Mapping[str, object], words: tuple[str, ...]) -> float:
    """How much of the router's CPU telemetry took, in percent."""
    with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as folder:
        clocks = Path(folder, "clocks")
        command = f"{shlex.quote(sys.executable)} -m tests.bench.clocked_router {clocks} -c {{config}}"
        spec = RouterSpec("A", extra=[("telemetry", {"path": folder, "sampleOneIn": 100, **settings})])
        with running(replace(bench.launcher, command=command), spec) as (router,):
            seconds = "1" if bench.quick else "6"
            target = Target((router.pid,), router.port, router.port)
            result = bench.load(target, "--unsettled", "--seconds", seconds, *words)
        return 100.0 * int(clocks.read_text()) / float(result["sent"] * result["router_cpu_us_per_message"])


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for setting, more in SETTINGS.items():
        with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as spool:
            telemetry = ("telemetry", {"path": spool, "sampleOneIn": 100, **more})
            with running(bench.launcher, RouterSpec("off"), RouterSpec("on", extra=[telemetry])) as routers:
                targets = [Target((router.pid,), router.port, router.port) for router in routers]
                for _ in range(QUICK_ROUNDS if bench.quick else ROUNDS):
                    for load, words in LOADS.items():
                        yield {f"telemetry-{load}-{setting}": _extra(bench, targets, words)}


def _extra(bench: Bench, targets: list[Target], words: tuple[str, ...]) -> float:
    """How much more CPU a message costs with telemetry, in percent: off, on, on, off, for what drifts meanwhile."""
    off, on = targets
    costs = [bench.load(target, *TIMES, *words)["router_cpu_us_per_message"] for target in (off, on, on, off)]
    return 100.0 * float(costs[1] + costs[2]) / float(costs[0] + costs[3]) - 100.0


SCENARIOS: Final = (Scenario("telemetry-share", _run_share), Scenario("telemetry", _run))
