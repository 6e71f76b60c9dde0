"""Memory and new clients after floods: each several times at one router, its attackers gone in between.

`python -m tests.bench.flood_memory [--times N] [--part N] [--cgroup] [--tls] [FLOOD…]` prints the table of
docs/security.md. With --cgroup, each router runs in a control group of its own, of the memory that a container has for
this `maxMemory`; with --tls, all clients use TLS.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.bench.crowds import MAX_MEMORY, Flood, Ground, flood_parser
from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.floods import portion
from tests.bench.machine import raise_file_limit
from tests.bench.newcomers import Newcomers
from tests.bench.rawclient import DETACH, FLOW, RawClient
from tests.bench.routers import Launcher, RouterProcess, RouterSpec, running
from tests.bench.scenarios import Bench, Scenario, need_start
from tests.kit import frames
from tests.kit.control_group import ControlGroup

TIMES: Final = 10
REST_S: Final = 3.0
"""After a flood: the router ends its connections, and gives memory back at most once a second."""
GONE_S: Final = 60.0
"""By then, all links of clients that are gone have ended."""
LESS_BYTES: Final = 1 << 18
STEP_S: Final = 0.2
SERVED_S: Final = 20.0
CONTAINER: Final = int(MAX_MEMORY / 0.85)
"""Bytes of the container for which `maxMemory` is the default."""
MIB: Final = 1 << 20
COMMAND: Final = "{python} -m tests.bench.watched_router {folder}/memory -c {{config}}"
HEAD: Final = (
    "| flood | in use at the start, MiB | after the first | most after one | × start "
    "| RSS after the second | after the last | × "
    "| largest RSS | open, ms | open in the flood, ms | refused in the flood | served, s |\n|---|" + "--:|" * 12
)

HEAD_OF_GROUP: Final = (" most in the group | at its limit | killed |", "--:|" * 3)


@dataclass
class Seen:
    """What was seen of one flood: bytes in use and resident after each, the largest resident, and new clients."""

    start: int
    used: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    most: int = 0
    open_s: float = 0.0
    open_within_s: float = 0.0
    """The longest open of a new client while a flood went on, and how many of them were refused."""
    refused: int = 0
    served_s: float = 0.0
    group: tuple[int, int, int] | None = None
    """Of its control group: the most bytes in it, how often the limit was reached, how many processes were killed."""

    @property
    def kept(self) -> float:
        """The most in use after a flood, relative to the start."""
        return max(self.used) / self.start

    @property
    def grows(self) -> float:
        """Resident memory after the last flood, relative to that after the second one."""
        return self.resident[-1] / self.resident[min(1, len(self.resident) - 1)]

    def row(self, name: str) -> str:
        """A row of the table."""
        mib = [f"{size / MIB:.1f}" for size in (self.start, self.used[0], max(self.used))]
        resident = [f"{self.resident[n] / MIB:.1f}" for n in (min(1, len(self.resident) - 1), -1)]
        over = " (missed)" if self.most > CONTAINER else ""
        cells = [*mib, f"{self.kept:.2f}", *resident, f"{self.grows:.2f}", f"{self.most / MIB:.0f}{over}"]
        cells += [f"{self.open_s * 1e3:.0f}", f"{self.open_within_s * 1e3:.0f}", str(self.refused)]
        cells.append(f"{self.served_s:.1f}")
        if self.group is not None:
            most, at_limit, killed = self.group
            cells += [f"{most / MIB:.0f}", str(at_limit), f"{killed} (missed)" if killed else "0"]
        return " | ".join(["| " + name, *cells]) + " |"


class Memory:
    """What a watched router writes about its memory."""

    def __init__(self, folder: Path, router: RouterProcess) -> None:
        self._file = folder / "memory"
        self._status = Path(f"/proc/{router.pid}/status")

    def now(self) -> tuple[int, int, int]:
        """Bytes of the process, those in use, and the number of links."""
        until = time.monotonic() + REST_S
        while not self._file.exists():
            if time.monotonic() > until:
                raise BenchError("the router does not tell its memory")
            time.sleep(STEP_S)
        resident, used, links = self._file.read_text(encoding="ascii").split()
        return int(resident), int(used), int(links)

    def without_links(self) -> tuple[int, int, int]:
        """As `now`, when all links of clients that are gone have ended."""
        until = time.monotonic() + GONE_S
        while True:
            now = self.now()
            if not now[2]:
                return now
            if time.monotonic() > until:
                raise BenchError(f"{now[2]} links of clients that are gone have not ended in {GONE_S:.0f} s")
            time.sleep(STEP_S)

    def rested(self) -> tuple[int, int]:
        """The least of both after a flood, when no link is left and the router has rested: neither becomes less."""
        *least, _ = self.without_links()
        until = time.monotonic() + REST_S
        while time.monotonic() < until:
            time.sleep(STEP_S)
            resident, used, _ = self.now()
            if min(resident - least[0], used - least[1]) <= -LESS_BYTES:
                until = time.monotonic() + REST_S
            least = [min(least[0], resident), min(least[1], used)]
        return least[0], least[1]

    def most(self) -> int:
        """The largest resident memory since the start of the process (VmHWM)."""
        for line in self._status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        raise BenchError("no VmHWM")


def newcomer(port: int) -> tuple[float, float]:
    """Seconds in which a new client's connection opens, and until one has a link with credit."""
    begun = time.monotonic()
    while True:
        tried = time.monotonic()
        try:
            with RawClient(port, "newcomer") as client:
                opened = time.monotonic() - tried
                client.send(frames.attach_sender("out", 0))
                client.send(frames.attach_receiver("in", 1))
                while not client.seen[FLOW]:
                    if not client.read() or client.seen[DETACH]:
                        raise BenchError("a link was refused")
                return opened, time.monotonic() - begun
        except (BenchError, OSError):
            if time.monotonic() - begun > SERVED_S:
                raise BenchError(f"a new client was refused for {SERVED_S:.0f} s") from None
            time.sleep(STEP_S)


@contextlib.contextmanager
def _control_group(wanted: bool) -> Iterator[ControlGroup | None]:
    if not wanted:
        yield None
        return
    group = ControlGroup(CONTAINER)
    try:
        if group.folder is None:
            raise BenchError("this user may not make a control group with a limit of memory")
        yield group
    finally:
        group.remove()


def seen_of(
    launcher: Launcher,
    flood: Flood,
    times: int,
    part: int,
    spec: RouterSpec,
    folder: Path,
    group: ControlGroup | None = None,
) -> Seen:
    """Flood a router of its own several times, in a control group if there is one."""
    if group is not None:
        launcher = replace(launcher, command=f"{shlex.join(group.within)} {launcher.command}")
    with running(launcher, spec) as (router,):
        memory = Memory(folder, router)
        seen = Seen(memory.rested()[1])
        for _ in range(times):
            with Newcomers(router.port) as newcomers:
                flood(router.port, part)
            seen.open_within_s = max(seen.open_within_s, newcomers.slowest_s)
            seen.refused += newcomers.refused
            opened, served = newcomer(router.port)
            seen.open_s, seen.served_s = max(seen.open_s, opened), max(seen.served_s, served)
            resident, used = memory.rested()
            seen.used.append(used)
            seen.resident.append(resident)
        seen.most = memory.most()
        if group is not None:
            seen.group = group.most(), group.at_limit(), group.killed()
    (folder / "memory").unlink()
    return seen


def all_seen(
    environment: Mapping[str, str],
    names: list[str],
    times: int,
    part: int,
    *,
    grouped: bool = False,
    over_tls: bool = False,
) -> Iterator[tuple[str, Seen]]:
    """Each flood, or those with these names. `grouped`: each router in a control group of its own."""
    raise_file_limit()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        launcher = Launcher(COMMAND.format(python=sys.executable, folder=folder), environment)
        ground = Ground(folder, over_tls)
        for name in names or ground.floods:
            with _control_group(grouped) as group:
                seen = seen_of(launcher, ground.floods[name], times, part, ground.flooded(), folder, group)
            yield name, seen


def _run(bench: Bench) -> Iterator[Mapping[str, float]]:
    need_start(bench)
    if bench.quick:
        raise UnsupportedError("ten floods of each kind take ten minutes")
    for name, seen in all_seen(bench.launcher.environment, [], TIMES, portion(bench)):
        print(seen.row(name), flush=True)
        yield {f"kept-{name}": seen.kept, f"grows-{name}": seen.grows}


def main() -> None:
    """Print the table."""
    parser = flood_parser("flood_memory", "Memory after floods.", "--times", TIMES)
    parser.add_argument("--cgroup", action="store_true", help="in a control group with the memory of a container")
    arguments = parser.parse_args()
    columns, line = HEAD_OF_GROUP if arguments.cgroup else ("", "")
    print(HEAD.replace("|\n", "|" + columns + "\n") + line, flush=True)
    over = {"grouped": arguments.cgroup, "over_tls": arguments.tls}
    for name, seen in all_seen({}, arguments.floods, arguments.times, arguments.part, **over):
        print(seen.row(name), flush=True)


SCENARIOS: Final = (Scenario("flood-memory", _run),)

if __name__ == "__main__":
    main()
