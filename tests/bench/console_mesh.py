"""What an open page of the console costs the routers of a live mesh: `python -m tests.bench.console_mesh`.

The routers run as processes on this machine, each with a few clients that exchange messages. CPU time of each is
measured for as long without a page as with one, in turns. Then one router is killed, and the time is taken until the
page, in Chromium, names it as gone. Needs `make console`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from proton import Message

from tests.kit.browser import Page, opened
from tests.kit.clients import Client
from tests.kit.mesh import Edges, Mesh, wait_address
from tests.kit.ports import free_port
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

DEADLINE_S: Final = 120.0
PAGES: Final = ("overview", "topology", "flow", "links")
PAUSE_S: Final = 0.5
"""Between two messages of each producer."""
GONE: Final = "document.querySelector('[role=status]')?.innerText ?? ''"


def edges(routers: int) -> Edges:
    """A ring with a chord from each fourth router to the other side: three paths to most routers."""
    ring = [(number, number - 1) for number in range(1, routers)] + [(routers - 1, 0)]
    far = [(number, (number + routers // 2) % routers) for number in range(0, routers // 2, 4)]
    return list(dict.fromkeys([*ring, *((max(pair), min(pair)) for pair in far)]))


def serve(mesh: Mesh) -> str:
    """The console at the first router; its address."""
    port = free_port()
    with ManagementClient(mesh[0].url) as client:
        given = {"host": "127.0.0.1", "port": str(port), "http": True, "console": True}
        client.create("listener", given, name="web")
    return f"http://127.0.0.1:{port}/console/"


def traffic(stack: ExitStack, mesh: Mesh, clients: int) -> Iterator[None]:
    """Connect producers and consumers to each router; each step sends a message for each producer."""
    size, pairs = len(mesh.routers), []
    for number in range(size):
        for which in range(clients):
            address = f"orders-{number}-{which}"
            there = mesh[(number + 1 + which) % size]
            taking = stack.enter_context(Client(there.url)).receiver(address, credit=1)
            wait_address(mesh[number], address, remote=1)
            pairs.append((stack.enter_context(Client(mesh[number].url)).sender(address), taking))
    for turn in count():
        for sending, taking in pairs:
            sending.send(Message(body=f"{turn}"))
            taking.take(1)
            taking.flow(1)
        yield


def used(mesh: Mesh) -> list[float]:
    """CPU seconds of each router so far."""
    return [router.cpu_s() for router in mesh.routers if router.alive()]


def shares(mesh: Mesh, steps: Iterator[None], seconds: float) -> list[float]:
    """Shares of a core of each router during so many seconds."""
    before, began = used(mesh), time.monotonic()
    while time.monotonic() - began < seconds:
        next(steps)
        time.sleep(PAUSE_S)
    whole = time.monotonic() - began
    return [100 * (now - then) / whole for now, then in zip(used(mesh), before, strict=True)]


def line(what: str, found: list[float], base: list[float]) -> str:
    """One line of the table: in percent of a core, and what it is more than without a page."""
    more = [now - then for now, then in zip(found, base, strict=True)]
    first, others = more[0], sorted(more[1:])
    own = f"{what:>10}  {median(found):6.2f} {max(found):6.2f}"
    return f"{own}   {first:+6.2f}  {median(others):+6.2f} {others[-1]:+6.2f}"


@contextmanager
def shown(folder: Path, address: str, place: str, routers: int) -> Iterator[Page]:
    """A browser with its files in `folder` that shows a page, with all routers known."""
    folder.mkdir()
    with opened(folder) as page:
        page.look(1400, "light")
        page.visit(f"{address}#/{place}")
        known = "document.querySelector('.tools select')?.options.length"
        wait_until(lambda: page.run(known) == routers + 1, DEADLINE_S, lambda: str(page.run(known)))
        yield page


def lost_after(mesh: Mesh, page: Page) -> float:
    """Seconds from SIGKILL of the last router until the page names it."""
    name = mesh.routers[-1].name
    began = time.monotonic()
    mesh.routers[-1].kill()
    wait_until(lambda: name in page.run(GONE), DEADLINE_S, lambda: str(page.run(GONE)))
    return time.monotonic() - began


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=20)
    parser.add_argument("--clients", type=int, default=2, help="pairs of each router")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--pages", nargs="*", default=PAGES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        mesh = Mesh(folder, options.routers, edges(options.routers))
        stack.callback(mesh.stop)
        mesh.start()
        address = serve(mesh)
        steps = traffic(stack, mesh, options.clients)
        next(steps)
        print("percent of a core; more: than without a page, of the router that serves it and of the others")
        print(f"{'page':>10}  {'median':>6} {'most':>6}   {'serves':>6}  {'median':>6} {'most':>6}", flush=True)
        for place in options.pages:
            base = shares(mesh, steps, options.seconds)
            print(line("none", base, base), flush=True)
            with shown(folder / place, address, place, options.routers) as page:
                print(line(place, shares(mesh, steps, options.seconds), base), flush=True)
                assert page.errors == [], page.errors
        with shown(folder / "lost", address, "topology", options.routers) as page:
            print(f"a killed router is shown after {lost_after(mesh, page):.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
