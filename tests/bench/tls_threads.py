"""What a message over TLS costs the thread that routes, with and without a thread that does TLS (`workerThreads: 2`).

Both routers are measured one after the other, so the load of the machine matters little. Without a second core, or with
the interpreted engine, there is no such thread, and the ratios are 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.bench.scenarios import Bench, Scenario
from tests.bench.tls import World, tls_world

SIZES: Final = {"100": "100", "1k": "1000", "10k": "10000"}


def _times_ns(pid: int) -> tuple[int, int]:
    """CPU of the thread that routes, which is the first one, and of all threads."""
    found = {
        int(task.name): int((task / "schedstat").read_text(encoding="ascii").split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    }
    return found[pid], sum(found.values())


def _costs(bench: Bench, world: World, *words: str) -> tuple[float, float]:
    """CPU of a message in µs: of the thread that routes, and of all threads."""
    pid = world.tls.pids[0]
    routing, total = _times_ns(pid)
    result: Mapping[str, Any] = bench.load(world.tls, *bench.times(), "--tls", *words)
    routing, total = (after - before for after, before in zip(_times_ns(pid), (routing, total)))
    whole = float(result["router_cpu_us_per_message"])
    return whole * routing / total, whole


def _scenario(name: str, *words: str) -> Scenario:
    def run(bench: Bench) -> Iterator[Mapping[str, float]]:
        on_all_cores = replace(bench, launcher=bench.mesh_launcher)
        with ExitStack() as stack:
            alone = stack.enter_context(tls_world(on_all_cores))
            threaded = stack.enter_context(tls_world(on_all_cores, {"workerThreads": 2}))
            for _ in range(bench.repetitions):
                without = _costs(bench, alone, *words)
                routing, total = _costs(bench, threaded, *words)
                yield {name: routing / without[0], f"{name}-all": total / without[1]}

    return Scenario(name, run)


SCENARIOS: Final = tuple(
    _scenario(f"tls-thread-{name}", "--at-least", "1000", "--unsettled", "--body", body) for name, body in SIZES.items()
)
