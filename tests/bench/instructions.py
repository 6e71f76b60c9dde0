"""Instructions that a router executes for a message: a measure that other load of the machine does not change.

`python -m tests.bench.instructions [SCENARIO ...] [--versus CHECKOUT] [--functions N]`. Callgrind (of valgrind) counts
the instructions in user space of a router process while the load generator sends messages through it: first few, then
many, both with the same clients. The difference by the difference of the numbers is what a message costs, without
start, handshakes and attaches. System calls are not in it, nor is what a cache miss costs.
"""

from __future__ import annotations

import argparse
import collections
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench import loadgen
from tests.bench.errors import BenchError
from tests.bench.routers import Launcher, RouterProcess, RouterSpec, running
from tests.bench.tools import build_tools
from tests.bench.versus import router_of

SCENARIOS: Final[Mapping[str, str]] = {
    "pre-100": "",
    "uns-100": "--unsettled",
    "uns-10k": "--unsettled --body 10000",
    "uns-10x10": "--unsettled --senders 10 --receivers 10",
    "credit4-50x50": "--unsettled --senders 50 --receivers 50 --credit 4",
    "pairs-100": "--unsettled --pairs 100",
    "multicast-1x10": "--multicast --receivers 10 --address multicast.bench --allow-loss",
}
"""Arguments of the load generator, as of the scenarios of the same names of `python -m tests.bench`."""
FEW: Final = 5_000
MANY: Final = 55_000
START_TIMEOUT_S: Final = 240.0
"""A process runs about fifty times as long while its instructions are counted."""
ENGINE: Final = "__pyx_"
"""Begin of the names of functions that Cython makes, of the compiled modules. What the interpreter does depends on the
time: there are more ticks of the router for a message than in a router that nobody counts."""
LOAD_SECONDS: Final = 400.0
LIMITS: Final = "--max-seconds 400 --ready-timeout 100 --connect-timeout 100 --drain-timeout 100"

_NAME: Final = re.compile(r"\((\d+)\)(?: (.*))?")


def self_costs(lines: Sequence[str]) -> Counter[str]:
    """Instructions of each function itself, from a file of callgrind. Source: callgrind format, valgrind manual."""
    names: dict[str, str] = {}
    found: Counter[str] = collections.Counter()
    function = ""
    called = False
    for line in lines:
        if line.startswith("fn="):
            match = _NAME.fullmatch(line[3:].rstrip())
            assert match is not None, line
            if match[2] is not None:
                names[match[1]] = match[2]
            function = names[match[1]]
        elif line.startswith(("cfn=", "cfni=")):
            match = _NAME.fullmatch(line.split("=", 1)[1].rstrip())
            assert match is not None, line
            if match[2] is not None:
                names[match[1]] = match[2]
        elif line.startswith("calls="):
            called = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            if called:
                called = False  # the cost of the called function
            else:
                found[function] += sum(map(int, line.split()[1:2]))  # costs that are 0 are left out
    return found


def program() -> str:
    """The command of callgrind. Raises BenchError without valgrind."""
    if shutil.which("valgrind") is None or shutil.which("callgrind_control") is None:
        raise BenchError("no valgrind; install it (Debian: apt-get install valgrind)")
    return "valgrind --tool=callgrind --callgrind-out-file={config}.callgrind"


def counted(command: str) -> str:
    """A router's command that callgrind runs: its interpreter by name, as valgrind follows no script."""
    script, *rest = shlex.split(command)
    interpreter = Path(script).with_name("python")
    return f"{program()} {shlex.quote(str(interpreter))} {shlex.quote(script)} {shlex.join(rest)}"


def dump(router: RouterProcess, folder: Path, kept: Path | None) -> Counter[str]:
    """What was counted since the last dump, by function. `kept`: a folder that gets a copy of callgrind's file."""
    before = set(folder.glob("*.callgrind.*"))
    subprocess.run(["callgrind_control", "--dump", str(router.pid)], check=True, capture_output=True, timeout=120)
    (file,) = set(folder.glob("*.callgrind.*")) - before
    if kept is not None:
        shutil.copy(file, kept)
    return self_costs(file.read_text(encoding="utf-8", errors="replace").splitlines())


def a_message(launcher: Launcher, arguments: str, few: int, many: int, kept: Path | None = None) -> dict[str, float]:
    """Instructions a message, by function."""
    tools = build_tools()
    with running(launcher, RouterSpec("A", listener={"initialHandshakeTimeoutSeconds": 0}), wait=False) as (router,):
        router.wait_listening(START_TIMEOUT_S)

        def load(count: int) -> Counter[str]:
            words = ["--port", str(router.port), "--count", str(count), *arguments.split()]
            with loadgen.LoadGenerator(tools.loadgen, [*words, *LIMITS.split()]) as generator:
                generator.result(LOAD_SECONDS)
            return dump(router, router.folder, kept)

        load(few)  # what is done once, and the start
        less, more = load(few), load(many)
    spans = many - few
    return {name: (more[name] - less[name]) / spans for name in more | less}


def sum_of(functions: Mapping[str, float], begin: str) -> float:
    """Instructions of the functions whose names begin so."""
    return sum(cost for name, cost in functions.items() if name.startswith(begin))


def rows(ours: Mapping[str, float], other: Mapping[str, float] | None, count: int) -> Iterator[str]:
    """The functions that cost most, or where both differ most."""
    if other is None:
        for name in sorted(ours, key=lambda name: -abs(ours[name]))[:count]:
            yield f"{ours[name]:10.1f}  {name}"
        return

    def change(name: str) -> float:
        return ours.get(name, 0.0) - other.get(name, 0.0)

    for name in sorted({*ours, *other}, key=lambda name: -abs(change(name)))[:count]:
        yield f"{change(name):+10.1f} {ours.get(name, 0.0):10.1f} {other.get(name, 0.0):10.1f}  {name}"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(prog="python -m tests.bench.instructions", description=__doc__)
    line.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; default: all")
    line.add_argument("--versus", metavar="CHECKOUT", type=Path, help="count in another checkout, too")
    line.add_argument("--functions", metavar="N", type=int, default=0, help="show so many functions")
    line.add_argument("--keep", metavar="FOLDER", type=Path, help="copy callgrind's files of this checkout there")
    line.add_argument("--engine", choices=["compiled", "interpreted"], default="compiled")
    line.add_argument("--few", type=int, default=FEW, help=f"messages of the short run ({FEW})")
    line.add_argument("--many", type=int, default=MANY, help=f"messages of the long run ({MANY})")
    return line


def main(argv: Sequence[str] | None = None) -> int:
    """Prints instructions a message."""
    arguments = parser().parse_args(argv)
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            raise BenchError(f"no such scenario: {name}; there are {', '.join(SCENARIOS)}")
    environment = {"WAYMESH_ENGINE": arguments.engine, "PYTHONHASHSEED": "0"}
    own = f"{shlex.quote(str(Path(sys.executable).with_name('waymesh-router')))} -c {{config}}"
    for name in arguments.scenarios or SCENARIOS:

        def count(command: str, kept: Path | None = None, words: str = SCENARIOS[name]) -> dict[str, float]:
            launcher = Launcher(counted(command), environment)
            return a_message(launcher, words, arguments.few, arguments.many, kept)

        ours = count(own, arguments.keep)
        other = count(router_of(arguments.versus)) if arguments.versus else None
        for title, functions in (("all", ""), ("of the engine", ENGINE)):
            total, text = sum_of(ours, functions), ""
            if other is not None:
                text = f", the other {sum_of(other, functions):.0f}, ratio {total / sum_of(other, functions):.3f}"
            print(f"{name}: {total:.0f} instructions a message, {title}{text}", flush=True)
        for row in rows(ours, other, arguments.functions):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"bench: {error}")
