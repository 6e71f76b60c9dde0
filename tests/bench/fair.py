"""How work of a balanced address is spread over workers of several routers: shares and seconds.

    .venv/bin/python -m tests.bench.fair [--router-cmd 'qdrouterd -c {config}'] [--broker]

`--broker`: instead, work in a queue of a Broker-J, from which two routers that do not know each other take it by
autolinks.

Not a scenario of the bench: what workers that wait do is not CPU, and a run takes half a minute. Workers are
python-proton clients of their own threads that sleep for each message; the time by that of workers who always have
one is the figure. Decision 0065.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.bench.routers import Launcher, RouterSpec, running
from tests.brokers.broker_j import BrokerJ
from tests.brokers.process import PASSWORD, USER
from tests.kit.ports import free_port

ADDRESS = "work"
LIMIT_S = 600.0


@dataclass(frozen=True)
class Case:
    """Routers A, B, … joined as `joined` says; the sender is at A. `workers`: router and milliseconds of a job."""

    title: str
    joined: tuple[tuple[str, str], ...]
    workers: tuple[tuple[str, float], ...]
    prefetch: int
    count: int

    def ideal_s(self) -> float:
        """Seconds if every worker always has work."""
        return self.count / sum(1000 / job for _, job in self.workers)


CASES = (
    Case("two fast here, two slow there", (("A", "B"),), (("A", 5), ("A", 5), ("B", 50), ("B", 50)), 10, 2000),
    Case("one here, one there", (("A", "B"),), (("A", 5), ("B", 5)), 1, 200),
    Case("triangle", (("A", "B"), ("B", "C"), ("A", "C")), (("A", 5), ("B", 5), ("C", 5)), 1, 1000),
    Case("line, the farthest slowest", (("A", "B"), ("B", "C")), (("A", 5), ("B", 8), ("C", 14)), 20, 600),
)


QUEUE = Case("queue, two routers apart", (("A", "A"), ("B", "B")), (("A", 1000),) * 2 + (("B", 1000),) * 10, 1, 300)


class Worker(MessagingHandler):
    """Works on one message after the other."""

    def __init__(self, port: int, job_s: float, prefetch: int) -> None:
        super().__init__(prefetch=0)  # with 1, proton would not renew the credit
        self.url, self.job_s, self.prefetch, self.done = f"amqp://127.0.0.1:{port}", job_s, prefetch, 0
        self.ready = threading.Event()

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url, sasl_enabled=False, reconnect=False)
        event.container.create_receiver(connection, ADDRESS)

    def on_link_opened(self, event: Any) -> None:
        event.receiver.flow(self.prefetch)
        self.ready.set()

    def on_message(self, event: Any) -> None:
        time.sleep(self.job_s)
        self.done += 1
        event.receiver.flow(1)


class Sender(MessagingHandler):
    """Sends all messages as fast as credit allows; ends when all are accepted."""

    def __init__(self, port: int, count: int, **login: str) -> None:
        super().__init__()
        self.url, self.left, self.open = f"amqp://127.0.0.1:{port}", count, count
        self.login: dict[str, Any] = login or {"sasl_enabled": False}

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url, **self.login)
        event.container.create_sender(connection, ADDRESS)

    def on_sendable(self, event: Any) -> None:
        while self.left and event.sender.credit:
            event.sender.send(Message(body="x"))
            self.left -= 1

    def on_accepted(self, event: Any) -> None:
        self.open -= 1
        if self.open == 0:
            event.connection.close()


def run(case: Case, launcher: Launcher) -> tuple[list[int], float]:
    """Messages of each worker, and seconds."""
    names = sorted({name for pair in case.joined for name in pair})
    mesh = {name: free_port() for name in names}
    specs = [
        RouterSpec(name, mesh_port=mesh[name], connect_to=[(mesh[a], 1) for a, b in case.joined if b == name])
        for name in names
    ]
    with running(launcher, *specs) as routers:
        ports = {name: router.port for name, router in zip(names, routers, strict=True)}
        workers = hire(case, ports)
        start = time.monotonic()
        Container(Sender(ports["A"], case.count)).run()
        return [worker.done for worker in workers], time.monotonic() - start


def hire(case: Case, ports: dict[str, int]) -> list[Worker]:
    """Workers that all routers know. `ports`: of the routers."""
    workers = [Worker(ports[name], job / 1000, case.prefetch) for name, job in case.workers]
    for worker in workers:
        threading.Thread(target=Container(worker).run, daemon=True).start()
    for worker in workers:
        worker.ready.wait(10)
    time.sleep(3)  # until all routers know of all consumers
    return workers


def run_queue(case: Case, launcher: Launcher, broker: BrokerJ) -> tuple[list[int], float]:
    """The same with the work in a queue."""
    broker.create_queue(ADDRESS)
    login = {"saslMechanisms": "PLAIN", "saslUsername": USER, "saslPassword": PASSWORD}
    place = {"name": "broker", "role": "route-container", "host": "127.0.0.1", "port": broker.port, **login}
    link = {"address": ADDRESS, "direction": "in", "phase": 0, "connection": "broker"}
    names = sorted({name for name, _ in case.workers})
    specs = [RouterSpec(name, extra=[("connector", place), ("autoLink", link)]) for name in names]
    with running(launcher, *specs) as routers:
        workers = hire(case, {name: router.port for name, router in zip(names, routers, strict=True)})
        start = time.monotonic()
        Container(Sender(broker.port, case.count, user=USER, password=PASSWORD, allowed_mechs="PLAIN")).run()
        while sum(worker.done for worker in workers) < case.count and time.monotonic() - start < LIMIT_S:
            time.sleep(0.01)
        return [worker.done for worker in workers], time.monotonic() - start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fair", description="How work is spread over a mesh.")
    parser.add_argument("--router-cmd", default="", help="another router, as for the bench")
    parser.add_argument("--broker", action="store_true", help="work in the queue of a Broker-J; needs Java")
    options = parser.parse_args()
    own = f"{shlex.quote(str(Path(sys.executable).with_name('waymesh-router')))} -c {{config}}"
    launcher = Launcher(options.router_cmd or own, {})
    if options.broker:
        with tempfile.TemporaryDirectory() as folder, BrokerJ(Path(folder)) as broker:
            report(QUEUE, *run_queue(QUEUE, launcher, broker))
        return 0
    for case in CASES:
        report(case, *run(case, launcher))
    return 0


def report(case: Case, shares: list[int], seconds: float) -> None:
    print(f"{case.title:32} {shares} {seconds:6.1f} s {seconds / case.ideal_s():5.1f} × ideal", flush=True)


if __name__ == "__main__":
    sys.exit(main())
