"""Scenarios of a container (broker) behind a router: ten thousand autolinks, a thousand link routes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tests.bench.errors import BenchError
from tests.bench.routers import RouterProcess, RouterSpec, rss_kib, running
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.kit.ports import free_port
from waymesh_client.management import ManagementClient
from waymesh_router.core.addresses.patterns import PatternTree, prefix_pattern

AUTOLINKS: Final = 10_000
LINK_ROUTES: Final = 1_000
LOOKUPS: Final = 2_000
ACTIVE_TIMEOUT_S: Final = 120.0
SETTLE_S: Final = 0.3

Section = tuple[str, Mapping[str, object]]


def _connector(port: int) -> Section:
    attributes = {"name": "broker", "host": "127.0.0.1", "port": port, "role": "route-container"}
    return "connector", {**attributes, "saslMechanisms": "ANONYMOUS"}


def _autolinks() -> list[Section]:
    directions = ("in", "out")
    return [
        ("autoLink", {"address": f"queue.{n}", "direction": directions[n % 2], "connection": "broker"})
        for n in range(AUTOLINKS)
    ]


def _patterns() -> list[str]:
    """Half of them prefixes, half with a wildcard."""
    return [f"orders.{n}" if n % 2 else f"*/news/{n}/#" for n in range(LINK_ROUTES)]


def _link_routes() -> list[Section]:
    kinds = ("pattern", "prefix")
    return [
        ("linkRoute", {kinds[n % 2]: text, "direction": "in", "connection": "broker"})
        for n, text in enumerate(_patterns())
    ]


def _until_active(router: RouterProcess, kind: str, count: int) -> float:
    """Monotonic time at which so many entities of a type were active. Raises BenchError."""
    deadline = time.monotonic() + ACTIVE_TIMEOUT_S
    client = ManagementClient(f"amqp://127.0.0.1:{router.port}", timeout_s=30.0)
    try:
        while True:
            rows = client.query(kind, ["operStatus"])
            now = time.monotonic()
            if sum(row["operStatus"] == "active" for row in rows) == count:
                return now
            if now > deadline:
                raise BenchError(f"{kind}: not all of {count} active within {ACTIVE_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
    finally:
        client.close()


def _run(bench: Bench, sections: Sequence[Section], kind: str, names: tuple[str, str, str]) -> Mapping[str, float]:
    """Start a container, then a router with the entities: start to listening, then to active, and memory of one.

    `names`: of the three figures, "" for one that is not wanted.
    """
    port = free_port()
    with running(bench.launcher, RouterSpec("B", port=port), RouterSpec("plain", extra=[_connector(port)])) as started:
        plain = started[1]
        time.sleep(SETTLE_S)
        before = rss_kib(plain.pid)
        with running(bench.launcher, RouterSpec("A", extra=[_connector(port), *sections]), wait=False) as (router,):
            listening_s = router.wait_listening()
            active_at = _until_active(router, kind, len(sections))
            time.sleep(SETTLE_S)
            memory = (rss_kib(router.pid) - before) / len(sections)
    values = (listening_s, active_at - router.started_s - listening_s, memory)
    return {name: value for name, value in zip(names, values, strict=True) if name}


def _run_autolinks(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        names = ("autolinks-start", "autolinks-active", "autolink-memory")
        yield _run(bench, _autolinks(), "router.config.autoLink", names)


def _run_link_routes(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    for _ in range(bench.repetitions):
        names = ("", "link-routes-active", "link-route-memory")
        yield _run(bench, _link_routes(), "router.config.linkRoute", names)
        yield {"link-route-lookup": lookup_s(_find_all()) * 1e6}


def _find_all() -> Callable[[str], object]:
    tree: PatternTree[int] = PatternTree()
    for n, text in enumerate(_patterns()):
        tree.add(prefix_pattern(text) if n % 2 else text, n)
    return tree.match


def lookup_s(match: Callable[[str], object]) -> float:
    """Seconds to find the link route of an address; each second address is one of a pattern."""
    numbers = [n % LINK_ROUTES for n in range(LOOKUPS)]
    addresses = [f"orders.{n}.eu" if n % 2 else f"eu/news/{n}/x" for n in numbers]
    started = time.perf_counter()
    for address in addresses:
        if match(address) is None:
            raise BenchError(f"no link route for {address}")
    return (time.perf_counter() - started) / LOOKUPS


SCENARIOS: Final = (Scenario("autolinks", _run_autolinks), Scenario("link-routes", _run_link_routes))
