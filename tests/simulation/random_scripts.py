"""Many long random scripts of clients at whole meshes, with long messages, message groups, exclusive consumers and
priorities of consumers: all is settled and returned when the clients have gone.

    .venv/bin/python -m tests.simulation.random_scripts --seeds 0-999 [--steps 300]

Each third script has priorities; every second one is a storm: routers and connections fail, too. Prints the seed of
each script that fails, and why; ends with 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.simulation.full.scripts import Script
from waymesh_amqp import engine

STORM = 1.5
EXCLUSIVE = 0.2


def script(seed: int) -> Script:
    """The script of a seed; other numbers of groups, storms and priorities with the next ones."""
    priorities = (0, 0, 5, -1) if seed % 3 == 0 else ()
    return Script(seed, STORM * (seed % 2), priorities, groups=1 + seed % 7, exclusive=EXCLUSIVE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.random_scripts", description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="first and last one")
    parser.add_argument("--steps", type=int, default=300, help="of each script")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    bad = messages = 0
    started = time.monotonic()
    for seed in range(first, last + 1):
        try:
            one = script(seed)
            one.run(options.steps)
            messages += len(one.sent)
        except (AssertionError, LookupError, TypeError, ValueError, AttributeError):
            bad += 1
            print(f"seed {seed}: {traceback.format_exc(limit=-3)}", flush=True)
        if seed % 50 == 49:
            print(f"until {seed}: {bad} failed, {messages} messages, {time.monotonic() - started:.0f} s", flush=True)
    print(f"seeds {first} to {last}, {options.steps} steps, {engine()}: {bad} failed, {messages} messages")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
