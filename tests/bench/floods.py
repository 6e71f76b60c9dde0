"""Scenario of fairness: the worst that one client can do, and the delay of others meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from tests.bench.errors import BenchError
from tests.bench.figures import INTERPRETED
from tests.bench.mesh import TableWatch
from tests.bench.rawclient import ATTACH, BEGIN, END, FLOW, TRANSFER, RawClient
from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.bench.secured import port_text
from tests.kit import frames
from tests.kit.ports import free_port
from waymesh_amqp.message import Message, encode_message

IDLE_S: Final = 1.5
PART: Final = 5
"""Of each flood only this part comes when time is short: with --quick, and on the interpreted engine."""
SETTLE_S: Final = 0.2
ATTACHES: Final = 10_000
QUERIES: Final = 10_000
ADDRESSES: Final = 100_000
LINKS: Final = 20_000
BEGINS: Final = 32_767
"""Further ones beside the first session: the default limit is 32,768."""
LINKS_A_CONNECTION: Final = 25_000
ATTACHES_A_WRITE: Final = 2_500
LEAST_TRIPS: Final = 20
PINGER_END_S: Final = 30.0

Trip = tuple[float, float]
Span = tuple[float, float]
"""Monotonic times of begin and end."""


def prefer(pid: int) -> None:
    """Let this process run as soon as it can, if we may: it is to wait for a router and not for a core that another
    process has at the moment."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


class Pinger:
    """A ping-pong client in a process of its own, of one router, or from one to another."""

    def __init__(self, *ports: int) -> None:
        command = [sys.executable, "-m", "tests.bench.pinger", *map(port_text, ports)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        prefer(self._process.pid)

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BenchError("the ping-pong client did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def trips(self) -> list[Trip]:
        """End it; when each round trip was due, and how long it took."""
        try:
            out, _ = self._process.communicate(timeout=PINGER_END_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"the ping-pong client did not end within {PINGER_END_S:.0f} s") from None
        if self._process.returncode != 0:
            raise BenchError("the ping-pong client failed")
        return [(due, took) for due, took in json.loads(out)]


def p99(trips: Sequence[Trip], span: Span) -> float:
    """The 99th percentile of the trips that were due in this time. Raises BenchError where that says nothing."""
    found = [took for due, took in trips if span[0] <= due <= span[1]]
    if len(found) < LEAST_TRIPS:
        raise BenchError(f"only {len(found)} round trips during a flood of {span[1] - span[0]:.3f} s")
    return statistics.quantiles(found, n=100, method="inclusive")[98]


def receivers(count: int, address: Callable[[int], str], first: int = 0, handle: int = 0) -> bytes:
    """Attaches of receivers numbered from `first` on, with handles from `handle` on."""
    return b"".join(
        frames.attach_receiver(f"r{first + n}", handle + n, address=address(first + n)) for n in range(count)
    )


def _attaches(port: int, part: int) -> Span:
    """10,000 receivers with addresses of their own, in one write."""
    count = ATTACHES // part
    flood = receivers(count, "flood.{}".format)
    with RawClient(port, "attaches") as client:
        begun = time.monotonic()
        client.send(flood)
        client.wait(ATTACH, count)
        ended = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
    return begun, ended


def _attach_detach(port: int, part: int) -> Span:
    """10,000 receivers that attach and detach at once, all on one handle."""
    one = frames.attach_receiver("r", 0, address="flood") + frames.detach(0)
    with RawClient(port, "attach-detach") as client:
        begun = time.monotonic()
        client.send(one * (ATTACHES // part) + frames.close())
        return begun, client.wait_closed()


def _queries(port: int, part: int) -> Span:
    """10,000 requests for all attributes of all connections."""
    reply_to = "flood.replies"
    request = encode_message(
        Message(
            to="$management",
            reply_to=reply_to,
            correlation_id="1",
            application_properties={
                "operation": "QUERY",
                "name": "self",
                "type": "org.amqp.management",
                "entityType": "org.apache.qpid.dispatch.connection",
            },
            body={"attributeNames": []},
            body_kind="value",
        )
    )
    asked, count = 0, QUERIES // part
    with RawClient(port, "queries") as client:
        client.send(frames.attach_receiver("in", 0, address=reply_to))
        client.send(frames.credit(2**31 - 1, 0, incoming_window=2**31 - 1))
        client.wait(ATTACH, 1)
        client.send(frames.attach_sender("out", 1, address="$management"))
        client.wait(FLOW, 1)
        begun = time.monotonic()
        while asked < count:  # as much as the router's credit of 250 allows
            some = min(200, count - asked)
            numbers = range(asked, asked + some)
            client.send(b"".join(frames.transfer(n, request, handle=1, settled=True) for n in numbers))
            asked += some
            client.wait(TRANSFER, max(0, asked - 40))
        client.wait(TRANSFER, count)
        ended = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
    return begun, ended


def _close(port: int, part: int) -> Span:
    """20,000 receivers of one address whose connection closes."""
    with RawClient(port, "close") as client:
        client.send(receivers(LINKS // part, lambda _: "flood"))
        client.wait(ATTACH, LINKS // part)
        time.sleep(SETTLE_S)
        begun = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
        # a router that is quick with it leaves few round trips within that time: what follows is counted, too
        time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _session(port: int, part: int) -> Span:
    """20,000 receivers of one address whose session ends, and whose connection stays."""
    with RawClient(port, "session") as client:
        client.send(receivers(LINKS // part, lambda _: "flood"))
        client.wait(ATTACH, LINKS // part)
        time.sleep(SETTLE_S)
        begun = time.monotonic()
        client.send(frames.end())
        client.wait(END, 1)
        time.sleep(SETTLE_S)
        ended = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
    return begun, ended


def _begins(port: int, part: int) -> Span:
    """Sessions on all channels that are allowed."""
    count = BEGINS // part
    flood = b"".join(frames.begin(channel) for channel in range(1, count + 1))
    with RawClient(port, "begins") as client:
        begun = time.monotonic()
        client.send(flood)
        client.wait(BEGIN, count + 1)
        ended = time.monotonic()
        client.send(frames.close())
        client.wait_closed()
    return begun, ended


FLOODS: Final[Mapping[str, Callable[[int, int], Span]]] = {
    "attaches": _attaches,
    "attach-detach": _attach_detach,
    "queries": _queries,
    "close": _close,
    "session": _session,
    "begins": _begins,
}


def _addresses(port: int, neighbour: int, part: int) -> Span:
    """100,000 addresses that get consumers at a neighbour: until a sender at our router has credit for the last."""
    clients: list[RawClient] = []
    count = ADDRESSES // part
    each = min(LINKS_A_CONNECTION, count)
    try:
        begun = time.monotonic()
        for first in range(0, count, each):
            clients.append(RawClient(neighbour, f"many-{first}"))
            for n in range(0, each, ATTACHES_A_WRITE):
                clients[-1].send(receivers(ATTACHES_A_WRITE, "many.{}".format, first + n, n))
                clients[-1].wait(ATTACH, n + ATTACHES_A_WRITE)
                for client in clients:
                    client.beat()
        with RawClient(port, "last") as watcher:
            watcher.send(frames.attach_sender("out", 0, address=f"many.{count - 1}"))
            watcher.wait(FLOW, 1)
            return begun, time.monotonic()
    finally:
        for client in clients:
            client.__exit__(None, None, None)


def ratios(trips: Sequence[Trip], idle: Span, spans: Mapping[str, Span], kind: str = "flood") -> Mapping[str, float]:
    """Figures `KIND-NAME`: the 99th percentile during each flood by that before all of them."""
    base = p99(trips, idle)
    return {f"{kind}-{name}": p99(trips, span) / base for name, span in spans.items()}


def idle_span() -> Span:
    """Wait for a while in which nothing floods the router."""
    time.sleep(SETTLE_S)
    return span_of(IDLE_S)


def span_of(seconds: float) -> Span:
    """The next seconds, when they are over: in them, round trips are counted."""
    begun = time.monotonic()
    time.sleep(seconds)
    return begun, time.monotonic()


def flooded(
    floods: Mapping[str, Callable[[int, int], Span]], port: int, quiet: int, part: int
) -> tuple[Sequence[Trip], Span, Mapping[str, Span]]:
    """Round trips at the router with the port `quiet` while that with the port `port` gets all floods."""
    with Pinger(quiet) as pinger:
        idle = idle_span()
        spans = {}
        for name, flood in floods.items():
            spans[name] = flood(port, part)
            time.sleep(SETTLE_S)
        return pinger.trips(), idle, spans


def portion(bench: Bench) -> int:
    """By what a flood is divided."""
    return PART if bench.quick or bench.engine == INTERPRETED else 1


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    part = portion(bench)
    with running(bench.mesh_launcher, RouterSpec("A")) as (router,):
        trips, idle, spans = flooded(FLOODS, router.port, router.port, part)
    idle_trips = [took for due, took in trips if idle[0] <= due <= idle[1]]
    yield {"flood-idle-p50": statistics.median(idle_trips) * 1e6, "flood-idle-p99": p99(trips, idle) * 1e6}
    yield ratios(trips, idle, spans)
    yield _run_addresses(bench, part)


def _run_machine(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    part = portion(bench)
    with running(bench.mesh_launcher, RouterSpec("A"), RouterSpec("Q")) as (router, quiet):
        yield ratios(*flooded(FLOODS, router.port, quiet.port, part), kind="flood-machine")


def _run_addresses(bench: Bench, part: int) -> Mapping[str, float]:
    port = free_port()
    specs = RouterSpec("A", mesh_port=port), RouterSpec("B", connect_to=[(port, 1)])
    with running(bench.mesh_launcher, *specs) as routers:
        watch = TableWatch(routers)
        try:
            watch.wait()
        finally:
            watch.close()
        prefer(routers[0].pid)  # the neighbour and the flooding client want both cores
        with Pinger(routers[0].port) as pinger:
            idle = idle_span()
            span = _addresses(routers[0].port, routers[1].port, part)
            return ratios(pinger.trips(), idle, {"addresses": span})


SCENARIOS: Final = (Scenario("floods", _run), Scenario("floods-machine", _run_machine))
