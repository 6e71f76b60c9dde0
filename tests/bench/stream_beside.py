"""Scenario of short messages beside long ones: one of 10 MB for a consumer that takes 64 kB/s, and a half-sent one.

Short messages go to and fro, one each millisecond, between the same routers, over one and two hops and over an edge
router. Then what 10 MB cost: CPU of the routers a MB, over three routers by that over two.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from proton import Message, ProtonException
from proton.utils import BlockingConnection

from tests.bench.errors import BenchError
from tests.bench.floods import Pinger, p99, span_of
from tests.bench.rawclient import ATTACH, FLOW, TRANSFER, RawClient
from tests.bench.routers import RouterProcess, RouterSpec, rss_kib, running
from tests.bench.scenarios import Bench, Scenario, Target, need_start
from tests.kit import frames
from tests.kit.ports import free_port
from waymesh_amqp.message import Message as Encoded
from waymesh_amqp.message import encode_message

LONG_BYTES: Final = 10_000_000
HALF_BYTES: Final = 20_000
FRAME_BYTES: Final = 10_000
BEAT_S: Final = 1.0
"""The slow consumer takes a frame of 64 kB each time."""
IDLE_S: Final = 3.0
STREAMS_S: Final = 6.0
LONG_MESSAGES: Final = 20


def _line(names: str) -> list[RouterSpec]:
    """Interior routers in a row."""
    specs: list[RouterSpec] = []
    port = None
    for name in names:
        following = free_port()
        specs.append(RouterSpec(name, mesh_port=following, connect_to=[(port, 1)] if port else []))
        port = following
    return specs


def _edge() -> list[RouterSpec]:
    """An edge router, and two interior routers."""
    port = free_port()
    local = {"host": "127.0.0.1", "port": port, "role": "edge", "saslMechanisms": "ANONYMOUS"}
    first, last = _line("AB")
    door = RouterSpec("A", mesh_port=first.mesh_port, extra=[("listener", {**local, "authenticatePeer": "no"})])
    return [RouterSpec("E", mode="edge", extra=[("connector", local)]), door, last]


PLACES: Final = {"one": lambda: _line("AB"), "two": lambda: _line("ABC"), "edge": _edge}


class SlowConsumer(threading.Thread):
    """Takes a frame of 64 kB a second of `big`, until it is stopped."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = RawClient(port, "slow", window=1)
        self._client.send(frames.attach_receiver("in", 0, address="big") + frames.credit(10, 0, incoming_window=1))
        self._client.wait(ATTACH, 1)
        self._ended = threading.Event()
        self.taken = 0

    def run(self) -> None:
        with contextlib.suppress(BenchError):  # at the end of the router
            while not self._ended.wait(BEAT_S):
                self._client.wait(TRANSFER, self.taken + 1)
                self.taken = self._client.seen[TRANSFER]
                self._client.send(frames.flow(next_incoming_id=self.taken, incoming_window=1))

    def stop(self) -> None:
        self._ended.set()


def _send_long(port: int) -> None:
    """Send 10 MB to `big`; the routers end before it is delivered."""
    with contextlib.suppress(ProtonException):
        connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=300, allowed_mechs="ANONYMOUS")
        connection.create_sender("big").send(Message(body=bytes(LONG_BYTES)))


def _begin_half(port: int) -> RawClient:
    """A client that sends 20 kB of a message to `half`, and no more."""
    client = RawClient(port, "half")
    client.send(frames.attach_sender("out", 0, address="half"))
    client.wait(FLOW, 1)
    half = encode_message(Encoded(body=bytes(2 * HALF_BYTES)))[:HALF_BYTES]
    for at in range(0, HALF_BYTES, FRAME_BYTES):
        client.send(frames.transfer(0, half[at : at + FRAME_BYTES], more=True))
    return client


@contextmanager
def _streams(here: int, there: int) -> Iterator[None]:
    """Both long messages are under way."""
    consumer = RawClient(there, "half-consumer")
    consumer.send(frames.attach_receiver("in", 0, address="half") + frames.credit(10, 0))
    slow = SlowConsumer(there)
    slow.start()
    threading.Thread(target=_send_long, args=(here,), daemon=True).start()
    half = _begin_half(here)
    consumer.wait(TRANSFER, 1)
    try:
        yield
    finally:
        slow.stop()
        del half, consumer
    if not slow.taken:
        raise BenchError("the slow consumer got nothing")


def _delays(bench: Bench, name: str) -> Mapping[str, float]:
    """How much longer short messages take beside long ones, and the most memory of a router meanwhile."""
    part = 2 if bench.quick else 1
    with running(bench.mesh_launcher, *PLACES[name]()) as routers:
        here, there = routers[0].port, routers[-1].port
        with Pinger(here, there) as pinger:
            idle = span_of(IDLE_S / part)
            with _streams(here, there):
                beside = span_of(STREAMS_S / part)
                memory = max(rss_kib(router.pid) for router in routers)
            trips = pinger.trips()
    return {
        f"beside-{name}": p99(trips, beside) / p99(trips, idle),
        f"beside-{name}-idle": p99(trips, idle) * 1e6,
        f"beside-{name}-memory": memory / 1024,
    }


def _cost(bench: Bench, names: str) -> float:
    """CPU of all routers for a message of 10 MB, in µs."""
    with running(bench.launcher, *_line(names)) as routers:
        target = Target(tuple(router.pid for router in routers), routers[0].port, routers[-1].port)
        _reach(routers)
        arguments = f"--unsettled --body {LONG_BYTES} --credit 4 --count {LONG_MESSAGES} --max-seconds 300"
        cost: float = bench.load(target, *arguments.split())["router_cpu_us_per_message"]
    return cost


def _reach(routers: list[RouterProcess]) -> None:
    """Wait until a message crosses."""
    with Pinger(routers[0].port, routers[-1].port) as pinger:
        pinger.trips()


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        for name in PLACES:
            yield _delays(bench, name)
        two, three = _cost(bench, "AB"), _cost(bench, "ABC")
        yield {"stream-cost": two / (LONG_BYTES / 1e6), "stream-cost-three": three / two}


SCENARIOS: Final = (Scenario("stream-beside", _run),)
