"""Scenarios of one or two routers: message costs, round trips, memory, start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.bench import loadgen
from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.floor import FloorProcess
from tests.bench.routers import Launcher, RouterSpec, rss_kib, running
from tests.bench.tools import Tools
from tests.kit.ports import free_port
from waymesh_client.management import ManagementClient


@dataclass(frozen=True)
class Target:
    """A router that a scenario can send to: process ids for the CPU, ports of both sides."""

    pids: tuple[int, ...]
    send_port: int
    recv_port: int


@dataclass(frozen=True)
class Bench:
    """What every scenario needs."""

    tools: Tools
    launcher: Launcher
    engine: str
    quick: bool
    cores: frozenset[int] | None          # of the load generator
    external: Target | None = None        # a router that runs already
    once: bool = False                    # a single repetition: the caller repeats
    stream_mb: int = 1000                 # length of the message of `stream-1gb`

    @property
    def repetitions(self) -> int:
        """How often each scenario is measured."""
        return 1 if self.quick or self.once else 3

    @property
    def mesh_launcher(self) -> Launcher:
        """For scenarios of time, not of cost: the routers are on all cores."""
        return replace(self.launcher, cores=None)

    def load(self, target: Target, *arguments: str) -> dict[str, Any]:
        """One run of the load generator against a target."""
        ports = ["--send-port", str(target.send_port), "--recv-port", str(target.recv_port)]
        pids = ["--pid", ",".join(map(str, target.pids))]
        return loadgen.run(self.tools.loadgen, [*ports, *pids, *arguments], self.cores)

    def times(self) -> list[str]:
        """Length of a load run."""
        return ["--warmup", "0.2", "--seconds", "0.5"] if self.quick else ["--warmup", "0.5", "--seconds", "2"]


@contextmanager
def one_router(bench: Bench) -> Iterator[Target]:
    """A router of its own, or the one that runs already."""
    if bench.external:
        yield bench.external
        return
    with running(bench.launcher, RouterSpec("A")) as (router,):
        yield Target((router.pid,), router.port, router.port)


@contextmanager
def two_routers(bench: Bench) -> Iterator[Target]:
    """A and B, connected; senders at A, receivers at B."""
    need_start(bench)
    mesh = free_port()
    with running(bench.launcher, RouterSpec("A", mesh_port=mesh), RouterSpec("B", connect_to=[(mesh, 1)])) as (a, b):
        yield Target((a.pid, b.pid), a.port, b.port)


def need_start(bench: Bench) -> None:
    """Raises UnsupportedError when this run starts no routers."""
    if bench.external:
        raise UnsupportedError("needs routers started by the benchmark")


Run = Callable[[Bench], Iterator[Mapping[str, float]]]
"""Measures: one mapping of figures for each repetition."""


@dataclass(frozen=True)
class Scenario:
    """What is measured on a router, and the same frames through the relay floor where that makes sense."""

    name: str
    run: Run
    floor: Run | None = None


def _cost_scenario(name: str, arguments: str, *, floor: bool = False, hops: int = 1) -> Scenario:
    words = ["--at-least", "1000", *arguments.split()]
    load = Bench.load if "--unsettled" in words else _load_presettled

    def run(bench: Bench) -> Iterator[Mapping[str, float]]:
        with one_router(bench) if hops == 1 else two_routers(bench) as target:
            for _ in range(bench.repetitions):
                result = load(bench, target, *bench.times(), *words)
                yield {name: result["router_cpu_us_per_message"]}

    def run_floor(bench: Bench) -> Iterator[Mapping[str, float]]:
        for _ in range(bench.repetitions):
            with FloorProcess(bench.tools.floor, bench.launcher.cores) as relay:
                target = Target((relay.pid,), relay.port, relay.port)
                yield {name: bench.load(target, "--relay", *bench.times(), *words)["router_cpu_us_per_message"]}

    return Scenario(name, run, run_floor if floor else None)


def _load_presettled(bench: Bench, target: Target, *arguments: str) -> dict[str, Any]:
    """One run of the load generator. The router drops pre-settled messages and copies for consumers that are too slow
    (decision 0006), and counts them: no others may be lost."""
    before = _dropped(target)
    result = bench.load(target, "--allow-loss", *arguments)
    dropped = _dropped(target) - before
    if result["lost"] > dropped:
        raise BenchError(f"{result['lost']} messages lost, of which the router dropped {dropped}")
    return result


def _run_multicast(bench: Bench) -> Iterator[Mapping[str, float]]:
    words = "--at-least 1000 --address multicast.bench --multicast --receivers 10"
    with one_router(bench) as target:
        for _ in range(bench.repetitions):
            result = _load_presettled(bench, target, *bench.times(), *words.split())
            yield {"multicast-1x10": result["router_cpu_us_per_message"]}


def _dropped(target: Target) -> int:
    with ManagementClient(f"amqp://127.0.0.1:{target.send_port}") as client:
        (row,) = client.query("router", ["droppedPresettledDeliveries"])
    return int(str(row["droppedPresettledDeliveries"]))


def _rtt(bench: Bench, target: Target, *extra: str) -> Mapping[str, float]:
    trips = bench.load(target, "--mode", "rtt", "--count", "3000" if bench.quick else "20000", *extra)["rtt_us"]
    return {"rtt-p50": trips["p50"], "rtt-p99": trips["p99"]}


def _run_rtt(bench: Bench) -> Iterator[Mapping[str, float]]:
    with one_router(bench) as target:
        for _ in range(bench.repetitions):
            yield _rtt(bench, target)


def _run_rtt_floor(bench: Bench) -> Iterator[Mapping[str, float]]:
    for _ in range(bench.repetitions):
        with FloorProcess(bench.tools.floor, bench.launcher.cores) as relay:
            yield _rtt(bench, Target((relay.pid,), relay.port, relay.port), "--relay")


def _run_stream(bench: Bench) -> Iterator[Mapping[str, float]]:
    """One long message, which no router may hold as a whole: a router of its own each time, for its peak of memory."""
    words = f"--unsettled --count 1 --credit 1 --body {bench.stream_mb}000000 --drain-timeout 80 --max-seconds 85"
    for _ in range(bench.repetitions):
        with one_router(bench) as target:
            result = bench.load(target, *words.split())
        (router,) = result["routers"]
        yield {
            "stream-1gb": result["router_cpu_us_per_message"] / bench.stream_mb,
            "stream-1gb-memory": (router["rss_peak_kib"] - router["rss_before_kib"]) / 1024,
        }


def _run_start(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        with running(bench.launcher, RouterSpec("A"), wait=False) as (router,):
            seconds = router.wait_listening()
            time.sleep(0.3)  # a quantity of the measurement: memory after start, not in the middle of it
            yield {"start": seconds, "rss": rss_kib(router.pid) / 1024}


def _run_memory(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    connections = 200 if bench.quick else 500
    for _ in range(bench.repetitions):
        with running(bench.launcher, RouterSpec("A")) as (router,):
            target = Target((router.pid,), router.port, router.port)
            idle = bench.load(target, "--mode", "idle", "--connections", str(connections), "--hold", "0")
        with running(bench.launcher, RouterSpec("A")) as (router,):
            target = Target((router.pid,), router.port, router.port)
            links = bench.load(target, "--mode", "idle", "--connections", "10", "--links", "200", "--hold", "0")
        each: float = idle["kib_per_connection"] * 1.024
        grown: float = links["kib_per_connection"] * 1.024
        yield {"idle-connection": each, "idle-link": (grown - each) / 200}


# A router that takes all ready sockets before it writes gets 100 x 250 messages at once: measure over some such turns.
_PAIRS: Final = _cost_scenario("pairs-100", "--unsettled --pairs 100 --at-least 75000", floor=True)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    _cost_scenario("pre-100", "", floor=True),
    _cost_scenario("uns-100", "--unsettled", floor=True),
    _cost_scenario("pre-10k", "--body 10000", floor=True),
    _cost_scenario("uns-10k", "--unsettled --body 10000", floor=True),
    _cost_scenario("uns-10x10", "--unsettled --senders 10 --receivers 10"),
    _cost_scenario("credit4-50x50", "--unsettled --senders 50 --receivers 50 --credit 4"),
    _PAIRS,
    Scenario("multicast-1x10", _run_multicast),
    _cost_scenario("paced-20k", "--rate 20000", floor=True),
    _cost_scenario("paced-100x50", "--rate 5000 --pairs 100", floor=True),
    _cost_scenario("spaced-20k", "--rate 20000 --tick 0", floor=True),
    _cost_scenario("hops-2", "--unsettled", hops=2),
    Scenario("stream-1gb", _run_stream),
    Scenario("rtt", _run_rtt, _run_rtt_floor),
    Scenario("start", _run_start),
    Scenario("idle", _run_memory),
)
