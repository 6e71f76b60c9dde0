"""CPU of the router for messages over WebSocket, beside the same over TCP in the same run.

`ws-100` is the scenario, with the load generator. `python -m tests.bench.web_socket` does it with clients on rhea and
prints medians as a table of Markdown. Sender and receiver use the same transport.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, Target, need_start
from tests.interop import programs
from tests.interop.programs import Program
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section, standalone

REPETITIONS = 3
MESSAGES: Final = (("100 B", 100, 5000), ("10 kB", 10_000, 1000), ("1 MiB", 1 << 20, 20))
"""Name, size of a message in bytes, number of messages."""


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    port = free_port()
    local = {"host": "127.0.0.1", "saslMechanisms": "ANONYMOUS", "authenticatePeer": "no"}
    web = ("listener", {**local, "port": port, "http": "yes"})
    with running(bench.launcher, RouterSpec("A", extra=[web])) as (router,):
        targets = Target((router.pid,), router.port, router.port), Target((router.pid,), port, port)
        for _ in range(bench.repetitions):
            words = [*bench.times(), "--at-least", "1000", "--unsettled"]
            runs = [bench.load(target, *words, *more) for target, more in zip(targets, ([], ["--ws"]), strict=True)]
            tcp, own = (float(run["router_cpu_us_per_message"]) for run in runs)
            yield {"ws-100": own, "ws-100-by-tcp": own / tcp}


def cpu_us(router: RouterProcess, program: Program, url: str, size: int, count: int) -> float:
    """Microseconds of the router's CPU for a message, unsettled, from one client to another."""
    receiver = program("receive", url=url, address="bench", count=count).wait_ready()
    sender = program("send", url=url, address="bench", count=count, size=size)
    before = router.cpu_s()
    assert sender.result()["outcomes"] == {"accepted": count}
    spent = router.cpu_s() - before
    receiver.result()
    return spent * 1e6 / count


def main() -> None:
    """Measure and print."""
    port = free_port()
    program = programs.rhea()
    with tempfile.TemporaryDirectory() as folder:
        listener = section("listener", name="web", host="127.0.0.1", port=port, http=True)
        router = standalone(Path(folder), extra=listener, within=()).start()
        try:
            print("| message | TCP, µs | WebSocket, µs | ratio |\n|---|--:|--:|--:|")
            for name, size, count in MESSAGES:
                urls = (router.url, f"ws://127.0.0.1:{port}")
                runs = [[cpu_us(router, program, url, size, count) for url in urls] for _ in range(REPETITIONS)]
                tcp, web = (statistics.median(column) for column in zip(*runs, strict=True))
                print(f"| {name} | {tcp:.1f} | {web:.1f} | {web / tcp:.1f} |", flush=True)
        finally:
            program.end()
            router.stop()


SCENARIOS: Final = (Scenario("ws-100", _run),)

if __name__ == "__main__":
    main()
