"""Scenario of the memory that floods leave behind: each ten times at one router, its attackers gone in between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from tests.bench.attacks import ATTACKS
from tests.bench.errors import UnsupportedError
from tests.bench.floods import FLOODS, portion
from tests.bench.machine import raise_file_limit
from tests.bench.routers import RouterProcess, RouterSpec, rss_kib, running
from tests.bench.scenarios import Bench, Scenario, need_start

TIMES: Final = 10
REST_S: Final = 3.0
"""After a flood: the router ends its connections, and gives memory back at most once a second."""
STEP_S: Final = 0.2


def _rested(router: RouterProcess) -> int:
    """The least KiB in use while the router rests after a flood."""
    least, until = rss_kib(router.pid), time.monotonic() + REST_S
    while time.monotonic() < until:
        time.sleep(STEP_S)
        least = min(least, rss_kib(router.pid))
    return least


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    if bench.quick:
        raise UnsupportedError("ten floods of each kind take ten minutes")
    raise_file_limit()
    part = portion(bench)
    for name, flood in {**FLOODS, **ATTACKS}.items():
        with running(bench.launcher, RouterSpec("A")) as (router,):
            start, after = _rested(router), []
            for _ in range(TIMES):
                flood(router.port, part)
                after.append(_rested(router))
        mib = [round(kib / 1024, 1) for kib in (start, *after)]
        print(f"{name}: MiB at the start and after each flood: {mib}", flush=True)
        yield {f"kept-{name}": after[-1] / start, f"grows-{name}": after[-1] / after[1]}


SCENARIOS: Final = (Scenario("flood-memory", _run),)
