"""`python -m tests.bench`: builds the tools, runs the scenarios, prints and compares. See README.md here."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.bench import (
    attacks,
    containers,
    flood_memory,
    floods,
    machine,
    mesh,
    nats_peer,
    output,
    policy,
    scenarios,
    stream_beside,
    telemetry,
    tls,
    tls_threads,
    turns,
    versus,
    web_socket,
)
from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.figures import COMPILED, FIGURES, FLOOR, INTERPRETED, NATS, PEER, Results
from tests.bench.routers import Launcher, RouterSpec, running
from tests.bench.scenarios import Bench, Run, Scenario, Target
from tests.bench.tools import build_tools

HERE: Final = Path(__file__).resolve().parent
BASELINE: Final = HERE / "baseline.json"
HOT: Final = (
    *(*scenarios.SCENARIOS, *mesh.SCENARIOS, *tls.SCENARIOS, *web_socket.SCENARIOS),
    policy.MESSAGES,
)
"""What messages pass: all of the quick form, and what is measured on the peer router too."""
ALL: Final = (
    *HOT,
    *(*containers.SCENARIOS, *telemetry.SCENARIOS),
    *(*floods.SCENARIOS, *flood_memory.SCENARIOS, *attacks.SCENARIOS),
    *(scenario for scenario in policy.SCENARIOS if scenario is not policy.MESSAGES),
    *(*turns.SCENARIOS, *stream_beside.SCENARIOS, *tls_threads.SCENARIOS),
)
QUICK_STREAM_MB: Final = 50


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures routers beside the relay floor.")
    line.add_argument("--quick", action="store_true", help="one short repetition of what messages pass (4 minutes)")
    line.add_argument("--only", metavar="PATTERN", action="append", help="scenarios, e.g. 'uns-*' (may be repeated)")
    line.add_argument("--list", action="store_true", help="names of the scenarios, then end")
    line.add_argument("--engine", choices=[COMPILED, INTERPRETED, "both"], default="both", help="engines to measure")
    line.add_argument("--router-cmd", metavar="COMMAND", help="start another router; {config} {port} {id} filled in")
    line.add_argument("--router-pid", metavar="PID", type=int, help="measure a router that runs already, with --port")
    line.add_argument("--port", type=int, help="its port")
    line.add_argument("--label", default="other", help="name of the other router in the table")
    peer = os.environ.get("PEER_ROUTER") or None
    line.add_argument("--peer-router", metavar="PATH", default=peer, help="also measure this router (PEER_ROUTER)")
    line.add_argument("--stream-mb", metavar="MB", type=int, help="length of the message of stream-1gb (1 to 1000)")
    line.add_argument("--versus", metavar="CHECKOUT", type=Path, help="compare with another checkout, in turns")
    line.add_argument("--json", metavar="FILE", type=Path, help="write all values to this file")
    line.add_argument("--update-baseline", action="store_true", help="write baseline.json anew from this run")
    line.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed, too")
    line.add_argument("--markdown", metavar="FILE", type=Path, help="print the tables of a --json file, then end")
    line.add_argument("--into", metavar="PAGE", type=Path, help="with --markdown: into the marks of this page")
    return line


def chosen(patterns: Sequence[str] | None, *, quick: bool = False) -> list[Scenario]:
    """The scenarios that one of the patterns names, without patterns all, or those of the quick form.

    Raises BenchError when there is none.
    """
    if not patterns:
        return list(HOT if quick else ALL)
    found = [s for s in ALL if any(fnmatch.fnmatch(s.name, p) for p in patterns)]
    if not found:
        raise BenchError(f"no such scenario: {', '.join(patterns)}; there are {', '.join(s.name for s in ALL)}")
    return found


def benches(arguments: argparse.Namespace) -> Iterator[Bench]:
    """One for each engine, or for the one other router."""
    stream_mb = arguments.stream_mb
    if stream_mb is None:
        stream_mb = QUICK_STREAM_MB if arguments.quick else Bench.stream_mb
    if not 1 <= stream_mb <= Bench.stream_mb:
        raise BenchError(f"--stream-mb: {stream_mb} is outside 1 ... {Bench.stream_mb}")
    router_cores, own_cores = machine.cores()
    tools = build_tools()

    def bench(engine: str, command: str, external: Target | None = None) -> Bench:
        environment = {"WAYMESH_ENGINE": engine} if engine in (COMPILED, INTERPRETED) else {}
        launcher = Launcher(command, environment, router_cores)
        return Bench(tools, launcher, engine, arguments.quick, own_cores, external, stream_mb=stream_mb)

    if arguments.router_pid or arguments.port:
        if not (arguments.router_pid and arguments.port):
            raise BenchError("--router-pid and --port go together")
        target = Target((arguments.router_pid,), arguments.port, arguments.port)
        yield bench(arguments.label, "", target)
    elif arguments.router_cmd:
        yield bench(arguments.label, arguments.router_cmd)
    else:
        own = f"{shlex.quote(str(Path(sys.executable).with_name('waymesh-router')))} -c {{config}}"
        for engine in (COMPILED, INTERPRETED) if arguments.engine == "both" else (arguments.engine,):
            yield bench(engine, own)


def measure(results: Results, engine: str, name: str, run: Run, bench: Bench) -> None:
    """Runs one scenario and notes its figures, or why there are none: what the peer cannot do is no failure."""
    try:
        for values in run(bench):
            unknown = set(values) - set(FIGURES)
            if unknown:
                raise BenchError(f"figures without an entry in figures.py: {unknown}")
            results.add(engine, values)
    except UnsupportedError as reason:
        results.notes.append(f"{engine} {name}: not measured, {reason}")
    except BenchError as error:
        (results.notes if engine == PEER else results.failures).append(f"{engine} {name}: {error}")


def measure_references(
    results: Results, scenario: Scenario, bench: Bench, peer: Bench | None, tell: Callable[[str], None]
) -> None:
    """What a scenario is compared with in the same run: nats-server, the relay floor, the peer router."""
    tls = nats_peer.SCENARIOS.get(scenario.name)
    if tls is not None and results.spread(NATS, scenario.name) is None:
        tell("nats-server with TLS" if tls else "nats-server")
        measure(results, NATS, scenario.name, partial(nats_peer.measure, tls=tls), bench)
    if scenario.floor:
        tell(f"floor: {scenario.name}")
        measure(results, FLOOR, scenario.name, scenario.floor, bench)
    if peer and scenario in HOT:
        tell(f"peer: {scenario.name}")
        measure(results, PEER, scenario.name, scenario.run, peer)


def peer_of(bench: Bench, program: str | None) -> Bench | None:
    """The same with the peer router, None without one."""
    if not program:
        return None
    launcher = replace(bench.launcher, command=f"{shlex.quote(program)} -c {{config}}", environment={})
    return replace(bench, launcher=launcher, engine=PEER, external=None)


def starts(results: Results, bench: Bench) -> bool:
    """Whether a router of this kind starts at all; if not, that is one failure and not one for each scenario."""
    if bench.external:
        return True
    try:
        with running(bench.launcher, RouterSpec("probe")):
            return True
    except BenchError as error:
        results.failures.append(f"{bench.engine}: {error}")
        return False


def run_all(arguments: argparse.Namespace, console: Console) -> Results:
    """All chosen scenarios on all engines, what they are compared with first."""
    results = Results(machine.describe(arguments.quick))
    machine.raise_file_limit()
    warning = machine.busy()
    if warning:
        results.notes.append(warning)
    wanted = chosen(arguments.only, quick=arguments.quick)
    compared = False
    with output.progress(console) as tell:
        for bench in benches(arguments):
            if not starts(results, bench):
                continue
            peer = None if compared else peer_of(bench, arguments.peer_router)
            if peer and not starts(results, peer):
                peer = None
            for scenario in wanted:
                if not compared:
                    measure_references(results, scenario, bench, peer, tell)
                tell(f"{bench.engine}: {scenario.name}")
                measure(results, bench.engine, scenario.name, scenario.run, bench)
            compared = True
    return results


def run_versus(arguments: argparse.Namespace, console: Console) -> int:
    """Compares with another checkout; the exit code."""
    machine.raise_file_limit()
    failed = False
    for bench in benches(arguments):
        with output.progress(console) as tell:
            found = versus.measure(bench, arguments.versus, chosen(arguments.only, quick=arguments.quick), tell)
        versus.show(found, arguments.versus, console)
        failed = failed or bool(found.failures)
    if (warning := machine.busy()) is not None:
        console.print(warning, style="yellow")
    return 1 if failed else 0


def read_results(file: Path) -> Results:
    """What --json or --update-baseline wrote. Raises BenchError when the file is not readable."""
    try:
        return Results.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BenchError(f"{file}: {error}") from None


def write_results(file: Path, results: Results) -> None:
    """All of a run as JSON."""
    file.write_text(json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 unless a scenario failed or messages went wrong (--strict: or a target was missed)."""
    arguments = parser().parse_args(argv)
    console = Console(width=None if sys.stdout.isatty() else 150)
    try:
        return _main(arguments, console)
    except BenchError as error:
        Console(stderr=True).print(f"bench: {error}", style="red", markup=False)
        return 2


def _main(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.list:
        console.print("\n".join(s.name for s in ALL))
        return 0
    if arguments.markdown:
        text = output.markdown(read_results(arguments.markdown))
        if arguments.into:
            output.replace_between_marks(arguments.into, text)
        else:
            sys.stdout.write(text)
        return 0
    if arguments.versus:
        return run_versus(arguments, console)
    results = run_all(arguments, console)
    output.show(results, read_results(BASELINE), console)
    if arguments.json:
        write_results(arguments.json, results)
    if arguments.update_baseline:
        write_results(BASELINE, results)
    missed = results.missed()
    if arguments.strict:
        for line in missed:
            console.print(f"missed: {line}", style="red")
    return 1 if results.failures or (arguments.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
