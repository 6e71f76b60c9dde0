"""`python -m tests.bench`: builds the tools, runs the scenarios, prints and compares. See README.md here."""

from __future__ import annotations

import argparse
import fnmatch
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
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
    turns,
    versus,
)
from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.figures import COMPILED, FIGURES, FLOOR, INTERPRETED, NATS, Results
from tests.bench.routers import Launcher, RouterSpec, running
from tests.bench.scenarios import Bench, Run, Scenario, Target
from tests.bench.tools import build_tools

HERE: Final = Path(__file__).resolve().parent
BASELINE: Final = HERE / "baseline.json"
ALL: Final = (
    *(*scenarios.SCENARIOS, *mesh.SCENARIOS, *containers.SCENARIOS, *telemetry.SCENARIOS),
    *tls.SCENARIOS,
    *(*floods.SCENARIOS, *flood_memory.SCENARIOS, *attacks.SCENARIOS),
    *(*policy.SCENARIOS, *turns.SCENARIOS, *stream_beside.SCENARIOS),
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures routers beside the relay floor.")
    line.add_argument("--quick", action="store_true", help="one short repetition of each scenario (at most 90 s)")
    line.add_argument("--only", metavar="PATTERN", action="append", help="scenarios, e.g. 'uns-*' (may be repeated)")
    line.add_argument("--list", action="store_true", help="names of the scenarios, then end")
    line.add_argument("--engine", choices=[COMPILED, INTERPRETED, "both"], default="both", help="engines to measure")
    line.add_argument("--router-cmd", metavar="COMMAND", help="start another router; {config} {port} {id} filled in")
    line.add_argument("--router-pid", metavar="PID", type=int, help="measure a router that runs already, with --port")
    line.add_argument("--port", type=int, help="its port")
    line.add_argument("--label", default="other", help="name of the other router in the table")
    line.add_argument("--versus", metavar="CHECKOUT", type=Path, help="compare with another checkout, in turns")
    line.add_argument("--json", metavar="FILE", type=Path, help="write all values to this file")
    line.add_argument("--update-baseline", action="store_true", help="write baseline.json anew from this run")
    line.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed, too")
    line.add_argument("--markdown", metavar="FILE", type=Path, help="print the tables of a --json file, then end")
    line.add_argument("--into", metavar="PAGE", type=Path, help="with --markdown: into the marks of this page")
    return line


def chosen(patterns: Sequence[str] | None) -> list[Scenario]:
    """The scenarios that one of the patterns names. Raises BenchError when there is none."""
    found = [s for s in ALL if not patterns or any(fnmatch.fnmatch(s.name, p) for p in patterns)]
    if not found:
        raise BenchError(f"no such scenario: {', '.join(patterns or ())}; there are {', '.join(s.name for s in ALL)}")
    return found


def benches(arguments: argparse.Namespace) -> Iterator[Bench]:
    """One for each engine, or for the one other router."""
    router_cores, own_cores = machine.cores()
    tools = build_tools()

    def bench(engine: str, command: str, external: Target | None = None) -> Bench:
        environment = {"WAYMESH_ENGINE": engine} if engine in (COMPILED, INTERPRETED) else {}
        return Bench(tools, Launcher(command, environment, router_cores), engine, arguments.quick, own_cores, external)

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
    """Runs one scenario and notes its figures, or why there are none."""
    try:
        for values in run(bench):
            unknown = set(values) - set(FIGURES)
            assert not unknown, f"figures without an entry in figures.py: {unknown}"
            results.add(engine, values)
    except UnsupportedError as reason:
        results.notes.append(f"{engine} {name}: not measured, {reason}")
    except BenchError as error:
        results.failures.append(f"{engine} {name}: {error}")


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
    """All chosen scenarios on all engines, the floor first."""
    results = Results(machine.describe(arguments.quick))
    machine.raise_file_limit()
    warning = machine.busy()
    if warning:
        results.notes.append(warning)
    wanted = chosen(arguments.only)
    floor_done = False
    with output.progress(console) as tell:
        for bench in benches(arguments):
            if not starts(results, bench):
                continue
            for scenario in wanted:
                if scenario.name in nats_peer.SCENARIOS and NATS not in results.figures:
                    tell("nats-server")
                    measure(results, NATS, "1 → 1", nats_peer.measure, bench)
                if scenario.floor and not floor_done:
                    tell(f"floor: {scenario.name}")
                    measure(results, FLOOR, scenario.name, scenario.floor, bench)
                tell(f"{bench.engine}: {scenario.name}")
                measure(results, bench.engine, scenario.name, scenario.run, bench)
            floor_done = True
    return results


def run_versus(arguments: argparse.Namespace, console: Console) -> int:
    """Compares with another checkout; the exit code."""
    machine.raise_file_limit()
    failed = False
    for bench in benches(arguments):
        with output.progress(console) as tell:
            found = versus.measure(bench, arguments.versus, chosen(arguments.only), tell)
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
