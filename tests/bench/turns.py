"""Scenario of long turns: one router's core with 100,000 of a thing, and an event that concerns all of them.

`python -m tests.bench.turns COUNT [CASE…]` measures in its own process, with the engine that WAYMESH_ENGINE names.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tests.bench.errors import BenchError
from tests.bench.figures import INTERPRETED
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.kit.routed_turns import ALL_CASES

COUNT: Final = 100_000
PART: Final = 5
"""Of the things only this part is there when time is short: with --quick, and on the interpreted engine."""
LIMIT_S: Final = 900.0


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    count = COUNT // (PART if bench.quick or bench.engine == INTERPRETED else 1)
    command = [sys.executable, "-m", "tests.bench.turns", str(count)]
    environment = os.environ | dict(bench.launcher.environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip().rpartition("\n")[2] or "the measurement failed")
    yield {f"turn-{name}": longest for name, longest in json.loads(done.stdout).items()}


def longest_ms(name: str, count: int) -> float:
    """Milliseconds of CPU of the longest turn of a case."""
    scene, event = ALL_CASES[name].build(count)
    gc.collect()
    gc.freeze()
    gc.disable()  # the router has a schedule of its own for this
    try:
        return max(_ms(turn) for turn in scene.turns(event))
    finally:
        gc.enable()
        gc.unfreeze()


def _ms(turn: Callable[[], object]) -> float:
    before = time.process_time()
    turn()
    return (time.process_time() - before) * 1e3


def main(words: Sequence[str]) -> None:
    """Print the longest turn of each case as JSON."""
    count, names = int(words[0]), words[1:] or list(ALL_CASES)
    print(json.dumps({name: round(longest_ms(name, count), 3) for name in names}))


SCENARIOS: Final = (Scenario("turns", _run),)

if __name__ == "__main__":
    main(sys.argv[1:])
