"""Many edge routers over real sockets: what they cost their interior router, and what its loss costs them.

    python -m tests.bench.edge_fleet memory --edges 1000
    python -m tests.bench.edge_fleet loss --edges 100
    python -m tests.bench.edge_fleet start

The interior routers A and B are processes of their own. The edge routers are whole routers with sockets, all in one
more process on one loop: as processes of their own they would need most of the memory and time for Python modules.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.edge_load import Load
from tests.kit.edges import EdgeMesh
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, accepts, section
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient
from waymesh_router.router import Router
from waymesh_router.runtime.daemon import prepare_descriptors
from waymesh_router.runtime.host import SocketHost
from waymesh_router.runtime.log.log import Log
from waymesh_router.runtime.log.writer import open_output
from waymesh_router.runtime.loop import Loop
from waymesh_schema.config import parse_conf

STARTED_S = 120.0
LOAD_S = 5.0
"""Load before and after the loss."""


def edge_config(name: str, port: int, doors: Sequence[int]) -> str:
    """An edge router with a listener for clients, and connectors to these ports."""
    text = section("router", id=name, mode="edge")
    text += section("listener", name="clients", host="127.0.0.1", port=port, saslMechanisms="ANONYMOUS")
    for number, door in enumerate(doors):
        text += section(
            "connector", name=f"up{number}", host="127.0.0.1", port=door, role="edge", saslMechanisms="ANONYMOUS"
        )
    return text


def serve(ports: Sequence[int], doors: Sequence[int]) -> None:
    """Be edge routers E0, E1 …, each with a port for clients; does not return."""
    prepare_descriptors()
    loop = Loop()
    log = Log(lambda: datetime.now(UTC), open_output)
    members = []
    for number, port in enumerate(ports):
        host = SocketHost(loop, log, random.random)
        config = parse_conf(edge_config(f"E{number}", port, doors), f"E{number}.conf")
        router = Router(config, host, loop.now(), random.SystemRandom(), "fleet", int(loop.now()))
        host.attach(router)
        router.start()
        members.append(Member(host, router))
    loop.run(lambda now: min(member.turn(now) for member in members))


class Member:
    """An edge router of a fleet. A turn costs nothing while it has nothing to do, as in a process of its own."""

    def __init__(self, host: SocketHost, router: Router) -> None:
        self._host = host
        self._router = router
        self._deadline = 0.0

    def turn(self, now: float) -> float:
        if self._deadline <= now or self._router.dirty or self._host._buffer.ready:
            self._deadline = self._host.turn(now)
        return self._deadline


class Fleet:
    """The process of the edge routers."""

    def __init__(self, edges: int, doors: Sequence[int]) -> None:
        self.ports = [free_port() for _ in range(edges)]
        arguments = [",".join(map(str, numbers)) for numbers in (self.ports, doors)]
        command = [sys.executable, "-m", "tests.bench.edge_fleet", "serve", *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # their logs

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def edges_known(router: RouterProcess, reserve: bool = False) -> int:
    """How many edge routers have their active uplink at an interior router, or one in reserve."""
    with ManagementClient(router.url) as client:
        rows = client.query("connection", ["role", "active"])
    return sum(row["role"] == "edge" and bool(row["active"]) != reserve for row in rows)


def measure_memory(folder: Path, edges: int) -> None:
    """Resident memory of an interior router before and after so many edge routers have joined, and with clients."""
    mesh = EdgeMesh(folder, 1, [])
    (interior,) = mesh.interiors
    interior.within = ()
    with mesh:
        edges_known(interior)
        before = interior.resident_bytes()
        fleet = Fleet(edges, mesh.doors)
        try:
            wait_until(lambda: edges_known(interior) == edges, STARTED_S)
            after = interior.resident_bytes()
            with Load(fleet.ports, interior.port) as load:
                wait_until(load.all_flow, STARTED_S)
                in_use = interior.resident_bytes()
        finally:
            fleet.end()
    print(f"{edges} edge routers: {(after - before) / edges / 1000:.1f} kB each at the interior router", flush=True)
    more = (in_use - after) / edges / 1000
    print(f"a producer and a consumer at each, and a producer at the interior for the latter: {more:.1f} kB more")


def measure_loss(folder: Path, edges: int) -> None:
    """Kill the interior router that all edge routers use, while each sends and receives."""
    with EdgeMesh(folder, 2, []) as mesh:
        lost, left = mesh.interiors
        left.kill()  # so that all use the other one
        fleet = Fleet(edges, mesh.doors)
        try:
            wait_until(lambda: edges_known(lost) == edges, STARTED_S)
            left.start()
            mesh.wait_ready()
            wait_until(lambda: edges_known(left, reserve=True) == edges, STARTED_S)
            with Load(fleet.ports, left.port) as load:
                wait_until(load.all_flow, STARTED_S)
                load.run(LOAD_S)
                killed = time.monotonic()
                lost.kill()
                load.run(LOAD_S)
                load.end()
                print(f"{edges} edge routers lost their uplink", flush=True)
                print(load.summary(killed))
        finally:
            fleet.end()


def measure_start(folder: Path, times: int) -> None:
    """An edge router as a process: until it has passed its first message up, and what of that are imports."""
    empty, imports, first = [], [], []
    with EdgeMesh(folder, 1, []) as mesh:
        for number in range(times):
            empty.append(_seconds("pass"))
            imports.append(_seconds("import waymesh_router.runtime.running"))
            port = free_port()
            edge = RouterProcess(folder, f"S{number}", edge_config(f"S{number}", port, mesh.doors), [port], within=())
            with Load([], mesh.interiors[0].port) as load:
                load.run(0.5)
                before = time.monotonic()
                edge.launch()
                while not accepts("127.0.0.1", port):
                    time.sleep(0.001)
                load.add_edge(port)
                wait_until(lambda load=load: load.all_accepted(), STARTED_S)  # type: ignore[misc]
                first.append(load.first_accepted() - before)
            edge.kill()
    print(f"first message passed after {statistics.median(first):.2f} s ({min(first):.2f} to {max(first):.2f})")
    print(f"Python alone: {statistics.median(empty):.2f} s, Python and imports: {statistics.median(imports):.2f} s")


def _seconds(code: str) -> float:
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.monotonic() - before


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(*([int(port) for port in numbers.split(",")] for numbers in sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(prog="python -m tests.bench.edge_fleet", description=__doc__)
    parser.add_argument("what", choices=["memory", "loss", "start"])
    parser.add_argument("--edges", type=int, default=100)
    parser.add_argument("--times", type=int, default=9, help="starts (9)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "memory":
            measure_memory(Path(folder), options.edges)
        elif options.what == "loss":
            measure_loss(Path(folder), options.edges)
        else:
            measure_start(Path(folder), options.times)


if __name__ == "__main__":
    main()
