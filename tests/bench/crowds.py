"""Floods by several clients together: many links, links that are refused, clients that hang up, messages that wait.

`python -m tests.bench.crowds [--runs N] [--part N] [--tls] [--opens | --turns] [FLOOD…]` prints the delay of others
meanwhile, as `attacks` does; also beside those of `floods`, `attacks` and `stalls`, if they are named. With --tls, all
clients use TLS. With --opens it prints how long new clients need to open instead, with --turns the CPU of the turns of
the router's event loop.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.attacks import SECURED, attacked, attacks_of, listeners
from tests.bench.clocked_turns import turns_of, within
from tests.bench.errors import BenchError
from tests.bench.floods import ATTACHES_A_WRITE, FLOODS, SETTLE_S, Pinger, Span, receivers
from tests.bench.machine import raise_file_limit
from tests.bench.newcomers import Newcomers
from tests.bench.rawclient import ATTACH, FLOW, RawClient
from tests.bench.routers import Launcher, RouterSpec, running
from tests.bench.secured import TlsPort, connect
from tests.bench.stalls import doors, stall_sections, stalls_of
from tests.kit import frames
from tests.kit.ports import free_port

CLIENTS: Final = 12
REFUSED_CLIENTS: Final = 8
ATTACHES: Final = 20_000
SESSIONS: Final = 150
MESSAGES: Final = 250
"""As many as the router gives credit for on a link."""
MESSAGE_OCTETS: Final = 4_096
TAKEN_S: Final = 3.0
"""A client that hangs up waits no longer until the router has taken what it sends."""


def _hang_up(port: int, part: int) -> Span:
    """Clients that send many attaches, read nothing, and close their sockets."""
    attaches = receivers(ATTACHES // part, "gone.{}".format)
    begun = time.monotonic()
    threads = [threading.Thread(target=_send_and_go, args=(port, n, attaches)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _send_and_go(port: int, number: int, attaches: bytes) -> None:
    opening = frames.AMQP + frames.open_(container_id=f"gone-{number}") + frames.begin()
    with contextlib.suppress(OSError), connect(port, TAKEN_S) as each:
        each.sendall(opening + attaches)


def _links(port: int, part: int) -> Span:
    """Clients that attach many links each, as far as memory allows, and are gone at once."""
    return _attached(port, CLIENTS, ATTACHES // part, lambda client: f"held.{client}.{{}}".format)


def _refused(port: int, part: int) -> Span:
    """Clients whose attaches are all refused, and which do not answer the detaches."""
    return _attached(port, REFUSED_CLIENTS, ATTACHES // part, lambda _: "_topo/0/elsewhere/{}".format)


def _attached(port: int, clients: int, count: int, address: Callable[[int], Callable[[int], str]]) -> Span:
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        connected: list[RawClient] = []
        for number in range(clients):
            with contextlib.suppress(BenchError, OSError):  # the router has ended, or refused, the connection
                client = stack.enter_context(RawClient(port, f"crowd-{number}"))
                for sent in range(0, count, ATTACHES_A_WRITE):
                    some = min(ATTACHES_A_WRITE, count - sent)
                    client.send(receivers(some, address(number), sent, sent))
                    client.wait(ATTACH, sent + some)
                    for other in connected:
                        other.beat()
                connected.append(client)
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


def _waiting(port: int, part: int) -> Span:
    """One client with many sessions, the messages of which wait for a consumer without credit."""
    begun = time.monotonic()
    with _consumer(port), contextlib.suppress(BenchError), RawClient(port, "waiting") as client:
        body = frames.message(bytes(MESSAGE_OCTETS))
        for channel in range(1, SESSIONS // part + 1):
            client.send(frames.begin(channel) + frames.attach_sender("out", 0, channel=channel, address="waits"))
            client.wait(FLOW, channel)
            client.send(b"".join(frames.transfer(n, body, channel=channel, settled=True) for n in range(MESSAGES)))
    time.sleep(SETTLE_S)
    return begun, time.monotonic()


@contextlib.contextmanager
def _consumer(port: int) -> Iterator[None]:
    with RawClient(port, "consumer") as consumer:
        consumer.send(frames.attach_receiver("in", 0, address="waits"))
        consumer.wait(ATTACH, 1)
        yield


Flood = Callable[[int, int], Span]

CROWDS: Final[Mapping[str, Flood]] = {
    "hang-up": _hang_up,
    "links": _links,
    "refused": _refused,
    "waiting": _waiting,
}

RUNS: Final = 7
Columns = Mapping[tuple[str, float], str]
"""Titles, by the name of a figure, in which the attack may stand, and its unit."""
RATIOS: Final[Columns] = {
    ("attack-beside-{}", 1.0): "relative to a client of an idle router",
    ("attack-{}", 1.0): "relative to before",
}
OPENS: Final[Columns] = {
    ("flooded", 1e3): "slowest open, ms",
    ("flooded-cpu", 1e3): "CPU of the router in an open, ms",
    ("idle", 1e3): "of an idle router at the same time, ms",
    ("after", 1e3): "after the flood, ms",
    ("after-cpu", 1e3): "CPU of the router in an open, ms",
    ("after-idle", 1e3): "of an idle router at the same time, ms",
    ("refused", 1.0): "refused",
}
TURNS: Final[Columns] = {
    ("most", 1e3): "99 % of its CPU is in turns of at most, ms",
    ("longest", 1e3): "longest, ms",
}
AFTER_S: Final = 2.0
"""For so long new clients open after a flood, one after the other."""
MAX_MEMORY: Final = 120 << 20


class Ground:
    """A router's configuration in which all floods can take place, over TCP or over TLS, and these floods."""

    def __init__(self, folder: Path, over_tls: bool) -> None:
        tls, passwords, at = free_port(), free_port(), doors(over_tls)
        if over_tls:
            passwords = TlsPort(passwords)
        self.floods: Mapping[str, Flood] = {**FLOODS, **attacks_of(tls, passwords), **CROWDS, **stalls_of(at)}
        self._over_tls = over_tls
        self._sections = [*listeners(folder, tls, passwords), *stall_sections(at)]

    def flooded(self) -> RouterSpec:
        """The router that is to be flooded."""
        return self._spec("A", self._sections)

    def quiet(self) -> RouterSpec:
        """An idle one, which differs by nothing else that matters."""
        return self._spec("Q", self._sections[:1])

    def _spec(self, name: str, sections: Sequence[tuple[str, Mapping[str, object]]]) -> RouterSpec:
        port = TlsPort(free_port()) if self._over_tls else free_port()
        listener = SECURED if self._over_tls else {}
        return RouterSpec(name, port, extra=sections, settings={"maxMemory": MAX_MEMORY}, listener=listener)


def delays(name: str, part: int, launcher: Launcher, ground: Ground) -> Mapping[str, float]:
    """The 99th percentile of others during one flood, see `attacked`; the routers are new ones."""
    with running(launcher, ground.flooded(), ground.quiet()) as (router, quiet):
        return attacked(name, ground.floods[name], part, router.port, quiet.port)


def opens(name: str, part: int, launcher: Launcher, ground: Ground) -> Mapping[str, float]:
    """Of the new clients during one flood, and of those in AFTER_S after it, seconds: the slowest open, the most CPU of
    the router in one, and the slowest open of a client of an idle router at the same time. And how many were
    refused."""
    seen: dict[str, float] = {}
    with running(launcher, ground.flooded(), ground.quiet()) as (router, quiet):
        with Newcomers(quiet.port) as others, Newcomers(router.port, router.pid) as newcomers:
            ground.floods[name](router.port, part)
        seen |= {"flooded": newcomers.slowest_s, "flooded-cpu": newcomers.most_cpu_s, "idle": others.slowest_s}
        refused = newcomers.refused
        with Newcomers(quiet.port) as others, Newcomers(router.port, router.pid) as newcomers:
            time.sleep(AFTER_S)
        seen |= {"after": newcomers.slowest_s, "after-cpu": newcomers.most_cpu_s, "after-idle": others.slowest_s}
    if not newcomers.slowest_s:
        raise BenchError(f"no new client was served in {AFTER_S:.0f} s after the flood")
    return seen | {"refused": refused + newcomers.refused}


def turns(file: Path, name: str, part: int, launcher: Launcher, ground: Ground) -> Mapping[str, float]:
    """The CPU of the router's turns, seconds, which `clocked_turns` writes to `file`, beside a flood and a ping-pong
    client."""
    with running(launcher, ground.flooded()) as (router,), Pinger(router.port):
        ground.floods[name](router.port, part)
    found = turns_of(file)
    return {"most": within(found, 0.99), "longest": found[-1]}


def flood_parser(module: str, description: str, repeated: str, usually: int) -> argparse.ArgumentParser:
    """The command line: which floods, how often (the option `repeated`), and which part of each."""
    line = argparse.ArgumentParser(prog=f"python -m tests.bench.{module}", description=description)
    line.add_argument(repeated, type=int, default=usually, help="of each flood")
    line.add_argument("--part", type=int, default=1, help="by what the floods are divided")
    line.add_argument("--tls", action="store_true", help="all clients use TLS")
    line.add_argument("floods", nargs="*", help="their names")
    return line


def main() -> None:
    """Print a row for each flood: median and range of both ratios, or of opens or turns."""
    parser = flood_parser("crowds", "The delay of others in floods.", "--runs", RUNS)
    parser.add_argument("--opens", action="store_true", help="how long new clients need to open")
    parser.add_argument("--turns", action="store_true", help="how much CPU the turns of the router's event loop take")
    arguments = parser.parse_args()
    raise_file_limit()
    command = shlex.quote(str(Path(sys.executable).with_name("waymesh-router")))
    columns = OPENS if arguments.opens else TURNS if arguments.turns else RATIOS
    print("| attack | " + " | ".join(columns.values()) + " |\n|---" + "|--:" * len(columns) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), arguments.tls)
        file = Path(folder, "turns")
        if arguments.turns:
            command = f"{shlex.quote(sys.executable)} -m tests.bench.clocked_turns {file}"
        launcher = Launcher(f"{command} -c {{config}}", {})
        seen = opens if arguments.opens else partial(turns, file) if arguments.turns else delays
        for name in arguments.floods or CROWDS:
            runs = [seen(name, arguments.part, launcher, ground) for _ in range(arguments.runs)]
            cells = [_median([column[1] * run[column[0].format(name)] for run in runs]) for column in columns]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} … {max(values):.1f})"


if __name__ == "__main__":
    main()
