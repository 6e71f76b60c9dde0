"""What TLS costs: messages and handshakes, beside a relay in C on OpenSSL in the same run.

A ratio compares the router with what it needs without TLS and what OpenSSL adds to the relay; the four are measured one
after the other, so the load of the machine matters little.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.errors import BenchError
from tests.bench.floor import FloorProcess
from tests.bench.routers import RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, Target, need_start, two_routers
from tests.kit.certificates import Authority, KeyPair
from tests.kit.ports import free_port
from tests.kit.process import accepts
from tests.kit.waiting import wait_until

_WAIT_S: Final = 5.0
_TICKET_S: Final = 0.05
"""How long a client waits for the tickets that follow a handshake; nothing else arrives."""


@dataclass(frozen=True)
class World:
    """A router with a plain listener and one with TLS, and the same of relays."""

    plain: Target
    tls: Target
    pair: KeyPair


def _listener(port: int) -> tuple[str, Mapping[str, object]]:
    """For clients over TLS, without certificates of their own."""
    return "listener", {
        "host": "127.0.0.1", "port": port, "saslMechanisms": "ANONYMOUS", "authenticatePeer": "no",
        "sslProfile": "bench", "requireSsl": "yes",
    }  # fmt: skip


@contextmanager
def tls_world(bench: Bench, settings: Mapping[str, object] | None = None) -> Iterator[World]:
    """A router, with `settings` in its section `router`."""
    need_start(bench)
    with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as folder:
        pair = Authority(Path(folder)).issue("server", {"CN": "localhost"}, hosts=("localhost", "127.0.0.1"))
        port = free_port()
        profile = {"name": "bench", "certFile": pair.cert, "privateKeyFile": pair.key}
        spec = RouterSpec("A", extra=[("sslProfile", profile), _listener(port)], settings=settings or {})
        with running(bench.launcher, spec) as (a,):
            wait_until(lambda: accepts("127.0.0.1", port), what="the listener with TLS")  # it opens after the other one
            yield World(Target((a.pid,), a.port, a.port), Target((a.pid,), port, port), pair)


def _relayed(bench: Bench, pair: KeyPair | None, words: list[str]) -> float:
    with FloorProcess(bench.tools.floor, bench.launcher.cores, pair) as relay:
        return _cost(bench, Target((relay.pid,), relay.port, relay.port), "--relay", *words)


def _cost(bench: Bench, target: Target, *words: str) -> float:
    result: Mapping[str, Any] = bench.load(target, *bench.times(), *words)
    return float(result["router_cpu_us_per_message"])


def _messages(name: str, arguments: str) -> Scenario:
    words = ["--at-least", "1000", "--unsettled", *arguments.split()]

    def run(bench: Bench) -> Iterator[Mapping[str, float]]:
        with tls_world(bench) as world:
            for _ in range(bench.repetitions):
                plain, relay = _cost(bench, world.plain, *words), _relayed(bench, None, words)
                own, over_tls = _cost(bench, world.tls, "--tls", *words), _relayed(bench, world.pair, ["--tls", *words])
                yield {
                    name: own,
                    f"{name}-by-plain": own / plain,
                    f"{name}-by-relay": own / (plain + max(over_tls - relay, 0.0)),
                }

    return Scenario(name, run)


@contextmanager
def _two_over_tls(bench: Bench) -> Iterator[Target]:
    """A and B, connected over TLS, where both show certificates; clients speak TLS with both."""
    with tempfile.TemporaryDirectory(prefix="waymesh-bench-") as folder:
        authority = Authority(Path(folder))
        pair = authority.issue("router", {"CN": "localhost"}, hosts=("localhost", "127.0.0.1"))
        files = {"caCertFile": authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
        profile = ("sslProfile", {"name": "bench", **files})
        a, b, mesh = free_port(), free_port(), free_port()
        between = {
            "host": "127.0.0.1", "port": mesh, "role": "inter-router", "sslProfile": "bench",
            "saslMechanisms": "EXTERNAL",
        }  # fmt: skip
        accepts = ("listener", {**between, "authenticatePeer": "yes", "requireSsl": "yes"})
        specs = (
            RouterSpec("A", extra=[profile, _listener(a), accepts]),
            RouterSpec("B", extra=[profile, _listener(b), ("connector", between)]),
        )
        with running(bench.launcher, *specs) as routers:
            yield Target(tuple(router.pid for router in routers), a, b)


def _run_hops(bench: Bench) -> Iterator[Mapping[str, float]]:
    words = ["--at-least", "1000", "--unsettled"]
    with two_routers(bench) as plain, _two_over_tls(bench) as over_tls:
        for _ in range(bench.repetitions):
            without, own = _cost(bench, plain, *words), _cost(bench, over_tls, "--tls", *words)
            yield {"hops-2-tls": own, "hops-2-tls-by-plain": own / without}


def _cpu_s(pid: int) -> float:
    """CPU of all threads of a process, exact: /proc/PID/stat counts in hundredths of a second."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) * 1e-9


def _connect(context: ssl.SSLContext, port: int, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port), _WAIT_S)
    return context.wrap_socket(sock, session=session)


def _session(context: ssl.SSLContext, port: int) -> ssl.SSLSession:
    """A session with a ticket. Raises BenchError if the server sends none."""
    with _connect(context, port) as sock:
        sock.settimeout(_TICKET_S)
        with suppress(TimeoutError):
            sock.recv(1)
        if sock.session is None or not sock.session.has_ticket:
            raise BenchError("the server sent no ticket")
        return sock.session


def _handshake_us(bench: Bench, pid: int, port: int, *, resumed: bool) -> float:
    """CPU of a process for a connection that is closed after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session = _session(context, port) if resumed else None
    count = 100 if bench.quick else 500
    before = _cpu_s(pid)
    for _ in range(count):
        with _connect(context, port, session) as sock:
            if sock.session_reused != resumed:
                raise BenchError(f"session reused: {sock.session_reused}")
    return (_cpu_s(pid) - before) / count * 1e6


def _handshakes(name: str, *, resumed: bool) -> Scenario:
    def run(bench: Bench) -> Iterator[Mapping[str, float]]:
        with tls_world(bench) as world:
            for _ in range(bench.repetitions):
                own = _handshake_us(bench, world.tls.pids[0], world.tls.send_port, resumed=resumed)
                with FloorProcess(bench.tools.floor, bench.launcher.cores, world.pair) as relay:
                    other = _handshake_us(bench, relay.pid, relay.port, resumed=resumed)
                yield {name: own, f"{name}-by-relay": own / other}

    return Scenario(name, run)


def _run_idle(bench: Bench) -> Iterator[Mapping[str, float]]:
    connections = 200 if bench.quick else 500
    for _ in range(bench.repetitions):
        with tls_world(bench) as world:
            words = ["--mode", "idle", "--connections", str(connections), "--hold", "0"]
            yield {"tls-idle-connection": bench.load(world.tls, "--tls", *words)["kib_per_connection"] * 1.024}


SCENARIOS: Final[tuple[Scenario, ...]] = (
    _messages("tls-100", ""),
    _messages("tls-10k", "--body 10000"),
    Scenario("hops-2-tls", _run_hops),
    _handshakes("tls-handshake", resumed=False),
    _handshakes("tls-resumed", resumed=True),
    Scenario("tls-idle", _run_idle),
)
