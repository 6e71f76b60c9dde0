"""Two versions of the router measured in turns, A B A B …: ratios that hold when the machine's speed drifts."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.errors import BenchError, UnsupportedError
from tests.bench.figures import FIGURES
from tests.bench.scenarios import Bench, Scenario

ROUNDS: Final = 5
QUICK_ROUNDS: Final = 2


@dataclass
class Turns:
    """Pairs of (ours, the other's) by figure, and what could not be measured."""

    engine: str
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def router_of(checkout: Path) -> str:
    """The command of the router in another checkout. Raises BenchError when it has none."""
    program = checkout.resolve() / ".venv" / "bin" / "waymesh-router"
    if not program.exists():
        raise BenchError(f"{checkout} has no .venv/bin/waymesh-router: run `make setup` there")
    return f"{shlex.quote(str(program))} -c {{config}}"


def measure(bench: Bench, checkout: Path, wanted: Sequence[Scenario], tell: Callable[[str], None]) -> Turns:
    """Each scenario with our router and with the one of the other checkout, in turns."""
    turns = Turns(bench.engine)
    ours = replace(bench, once=True)
    other = replace(ours, launcher=replace(bench.launcher, command=router_of(checkout)))
    rounds = QUICK_ROUNDS if bench.quick else ROUNDS
    for scenario in wanted:
        for number in range(rounds):
            tell(f"{bench.engine}: {scenario.name}, turn {number + 1} of {rounds}")
            try:
                for own, others in zip(scenario.run(ours), scenario.run(other), strict=True):
                    for name, value in own.items():
                        if name in others:
                            turns.pairs.setdefault(name, []).append((value, others[name]))
            except UnsupportedError as reason:
                turns.notes.append(f"{bench.engine} {scenario.name}: not measured, {reason}")
                break
            except BenchError as error:
                turns.failures.append(f"{bench.engine} {scenario.name}: {error}")
                break
    return turns


def ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Ours by the other's, pair by pair, in order of size; without pairs in which the other's is 0."""
    return sorted(own / other for own, other in pairs if other)


def show(turns: Turns, checkout: Path, console: Console) -> None:
    """Prints the table of ratios, then what failed."""
    table = Table(title=f"engine {turns.engine}: this checkout by {checkout}", title_justify="left")
    for head in ("scenario", "", "ratio", "min … max", "ours", "other", "unit"):
        table.add_column(head, justify="left" if head in ("scenario", "", "unit") else "right", no_wrap=head != "")
    for name, pairs in turns.pairs.items():
        figure, found = FIGURES[name], ratios(pairs)
        own, others = (statistics.median(side) for side in zip(*pairs, strict=True))
        table.add_row(
            name,
            figure.title,
            f"{statistics.median(found):.2f}" if found else "",
            f"{found[0]:.2f} … {found[-1]:.2f}" if found else "",
            f"{own:.{figure.digits}f}",
            f"{others:.{figure.digits}f}",
            figure.unit,
        )
    console.print(table)
    for failure in turns.failures:
        console.print(f"failed: {failure}", style="bold red", markup=False)
    for note in turns.notes:
        console.print(note, style="yellow", markup=False)
