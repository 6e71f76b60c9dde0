"""Scenarios of a mesh: time to converge, to announce a consumer, to route around a dead router."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.bench.errors import BenchError
from tests.bench.loadgen import LoadGenerator
from tests.bench.routers import RouterProcess, RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.kit.ports import free_port
from waymesh_client.errors import ClientError
from waymesh_client.management import ManagementClient

TABLES_TIMEOUT_S = 20.0


class TableWatch:
    """Asks routers for their tables of routers until each knows all."""

    def __init__(self, routers: Sequence[RouterProcess]) -> None:
        self._routers = routers
        self._clients: dict[str, ManagementClient] = {}
        self.all_listen_s = 0.0
        self.complete_s = 0.0

    def close(self) -> None:
        """Ends the connections."""
        for client in self._clients.values():
            client.close()

    def next_hops(self, router: RouterProcess) -> dict[str, str]:
        """The routers it knows, with the next hop to each; empty as long as it does not answer."""
        client = self._clients.setdefault(
            router.spec.id, ManagementClient(f"amqp://127.0.0.1:{router.port}", timeout_s=2.0)
        )
        try:
            rows = client.query("router.node", ["id", "nextHop"])
        except ClientError:
            return {}
        return {str(row["id"]): str(row["nextHop"]) for row in rows}

    def wait(self) -> None:
        """Until all listen and know each other; the times are then in `all_listen_s` and `complete_s` (monotonic)."""
        deadline = time.monotonic() + TABLES_TIMEOUT_S
        for router in self._routers:
            router.wait_listening()
        self.all_listen_s = time.monotonic()
        waiting = list(self._routers)
        while waiting:
            if len(self.next_hops(waiting[0])) == len(self._routers):
                waiting.pop(0)
            elif time.monotonic() > deadline:
                raise BenchError(f"router {waiting[0].spec.id} knows {sorted(self.next_hops(waiting[0]))} only")
            else:
                time.sleep(0.005)
        self.complete_s = time.monotonic()


def _ports(routers: Sequence[RouterProcess]) -> list[str]:
    return ["--send-port", str(routers[0].port), "--recv-port", str(routers[-1].port)]


def _line() -> list[RouterSpec]:
    ab, bc = free_port(), free_port()
    return [
        RouterSpec("A", mesh_port=ab),
        RouterSpec("B", mesh_port=bc, connect_to=[(ab, 1)]),
        RouterSpec("C", connect_to=[(bc, 1)]),
    ]


def _run_line(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        yield {**_line_tables(bench), **_line_message(bench)}


def _line_tables(bench: Bench) -> Mapping[str, float]:
    with running(bench.mesh_launcher, *_line(), wait=False) as routers:
        watch = TableWatch(routers)
        try:
            watch.wait()
        finally:
            watch.close()
        return {
            "line-tables": watch.complete_s - watch.all_listen_s,
            "line-tables-from-start": watch.complete_s - routers[0].started_s,
        }


def _line_message(bench: Bench) -> Mapping[str, float]:
    waits = ["--connect-timeout", "20", "--ready-timeout", "20"]
    with running(bench.mesh_launcher, *_line(), wait=False) as routers:
        with LoadGenerator(bench.tools.loadgen, [*_ports(routers), "--count", "1", *waits]) as generator:
            for router in routers:
                router.wait_listening()
            listening = time.monotonic()
            first: float = generator.result()["first_receipt_monotonic_s"]
        return {"line-message": first - listening, "line-message-from-start": first - routers[0].started_s}


def _run_reach(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    ab = free_port()
    samples = "5" if bench.quick else "20"
    with running(bench.mesh_launcher, RouterSpec("A", mesh_port=ab), RouterSpec("B", connect_to=[(ab, 1)])) as routers:
        watch = TableWatch(routers)
        try:
            watch.wait()
        finally:
            watch.close()
        for n in range(bench.repetitions):
            arguments = ["--mode", "reach", "--samples", samples, "--address", f"reach.{n}", *_ports(routers)]
            with LoadGenerator(bench.tools.loadgen, arguments) as generator:
                result = generator.result()
            if result["early_credit"]:
                raise BenchError("senders had credit before there was a consumer")
            yield {
                "reach-credit": result["credit_ms"]["p50"] / 1000,
                "reach-gone": result["withdrawn_ms"]["p50"] / 1000,
            }


def _triangle() -> list[RouterSpec]:
    """A – B – C at cost 1 each and A – C at cost 10: all goes by B as long as B is there."""
    at_a, at_b = free_port(), free_port()
    return [
        RouterSpec("A", mesh_port=at_a),
        RouterSpec("B", mesh_port=at_b, connect_to=[(at_a, 1)]),
        RouterSpec("C", connect_to=[(at_b, 1), (at_a, 10)]),
    ]


def _run_kill(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        with running(bench.mesh_launcher, *_triangle()) as routers:
            watch = TableWatch(routers)
            try:
                watch.wait()
                _wait_next_hop(watch, routers[0], "C", "B")
            finally:
                watch.close()
            yield _kill_middle(bench, routers)


def _wait_next_hop(watch: TableWatch, router: RouterProcess, to: str, by: str) -> None:
    deadline = time.monotonic() + TABLES_TIMEOUT_S
    while watch.next_hops(router).get(to) != by:
        if time.monotonic() > deadline:
            raise BenchError(f"from {router.spec.id} to {to}: not by {by}, but {watch.next_hops(router)}")
        time.sleep(0.01)


def _kill_middle(bench: Bench, routers: Sequence[RouterProcess]) -> Mapping[str, float]:
    load = ["--rate", "200", "--tick", "0", "--warmup", "0.3", "--seconds", "2.5" if bench.quick else "5"]
    arguments = [*_ports(routers), *load, "--allow-loss", "--drain-timeout", "1", "--progress"]
    with LoadGenerator(bench.tools.loadgen, arguments, bench.cores) as generator:
        generator.next_event("measuring")
        time.sleep(0.5)  # some load before the loss, so that the gap lies between deliveries
        routers[1].kill()
        result = generator.result()
    if result["received"] < result["sent"] / 2:
        raise BenchError(f"after the loss of B no message came: {result['received']} of {result['sent']}")
    return {"kill-gap": result["longest_gap_s"], "kill-lost": result["lost"]}


SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario("line", _run_line),
    Scenario("reach", _run_reach),
    Scenario("kill", _run_kill),
)
