"""The output of benchmarks: the table on the terminal, the tables of docs/performance.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.bench.errors import BenchError
from tests.bench.figures import FIGURES, FLOOR, NATS, PEER, Figure, Results, Spread

BEGIN: Final = "<!-- bench: begin -->"
END: Final = "<!-- bench: end -->"


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Gives a function that tells what runs now: one line that changes, or on a file lines with the time, at once."""
    if console.is_terminal:
        with console.status("building the tools") as status:
            yield status.update
        return
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {what}", file=sys.stderr, flush=True)

    yield tell


def show(results: Results, baseline: Results, console: Console) -> None:
    """Prints one table for each engine, then what failed."""
    for engine in results.engines():
        table = Table(title=f"engine: {engine}", title_justify="left")
        peer = _peer(results)
        ratios = ("× nats", "× floor", *(f"× {name}" for name in peer), "× baseline")
        figures = ("target", "min", "median", "max", "unit", *peer, "C router")
        for n, head in enumerate(("scenario", "", *ratios, *figures)):
            table.add_column(head, justify="left" if n < 2 or head == "unit" else "right", no_wrap=head != "")
        for figure, spread in _measured(results, engine):
            table.add_row(*_cells(results, baseline, engine, figure, spread))
        console.print(table)
    for failure in results.failures:
        console.print(Text(f"failed: {failure}", style="bold red"))
    for note in results.notes:
        console.print(Text(note, style="yellow"))


def _peer(results: Results) -> tuple[str, ...]:
    """The peer router, if this run has measured one: two columns more."""
    return (PEER,) if PEER in results.figures else ()


def _medians(results: Results, figure: Figure) -> Iterator[str]:
    """The absolute figure of the peer router, if there is a peer."""
    for name in _peer(results):
        spread = results.spread(name, figure.name)
        yield _number(figure, spread.median) if spread else ""


def _ratios(results: Results, engine: str, figure: Figure) -> Iterator[str]:
    """By each of the references of this run."""
    for reference in (NATS, FLOOR, *_peer(results)):
        yield _ratio(results.ratio(engine, figure.name, reference))


def _measured(results: Results, engine: str) -> Iterator[tuple[Figure, Spread]]:
    for figure in FIGURES.values():
        spread = results.spread(engine, figure.name)
        if spread:
            yield figure, spread


def _cells(results: Results, baseline: Results, engine: str, figure: Figure, spread: Spread) -> list[str | Text]:
    target = figure.targets.get(engine)
    style = {True: "green", False: "red", None: ""}[results.holds(engine, figure)]
    before = baseline.spread(engine, figure.name)
    return [
        figure.name,
        figure.title,
        *_ratios(results, engine, figure),
        _ratio(spread.median / before.median if before and before.median > 0 else None),
        Text("" if target is None else str(target), style=style),
        _number(figure, spread.low),
        Text(_number(figure, spread.median), style=style),
        _number(figure, spread.high),
        figure.unit,
        *_medians(results, figure),
        "" if figure.c_router is None else f"{figure.c_router:g}",
    ]


def _number(figure: Figure, value: float) -> str:
    return f"{value:.{figure.digits}f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def markdown(results: Results) -> str:
    """The tables of docs/performance.md."""
    meta = results.meta
    lines = [
        f"Measured on {meta.get('date', '?')}: {meta.get('cpu', '?')}, {meta.get('cores', '?')} cores, "
        f"Linux {meta.get('kernel', '?')}, Python {meta.get('python', '?')}, load average at the start "
        f"{meta.get('load_average', '?')}, commit {meta.get('commit', '?')}"
        + (", one short repetition (`--quick`)." if meta.get("quick") else ", 3 repetitions."),
        "",
    ]
    for engine in results.engines():
        peer = _peer(results)
        heads = ["× nats-server", "× floor", *(f"× {name}" for name in peer), "target", "min / median / max"]
        lines += [f"### {engine}", "", "| | " + " | ".join([*heads, "unit", *peer, "C router"]) + " |"]
        lines += ["|---" + "|--:" * len(heads) + "|---" + "|--:" * len(peer) + "|--:|"]
        for figure, spread in _measured(results, engine):
            target = figure.targets.get(engine)
            values = " / ".join(_number(figure, v) for v in (spread.low, spread.median, spread.high))
            missed = " (missed)" if results.holds(engine, figure) is False else ""
            cells = [
                f"{figure.title} (`{figure.name}`)",
                *_ratios(results, engine, figure),
                "" if target is None else str(target),
                values + missed,
                figure.unit,
                *_medians(results, figure),
                "" if figure.c_router is None else f"{figure.c_router:g}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines += [f"Failed: {failure}" for failure in results.failures]
    return "\n".join(lines).rstrip() + "\n"


def replace_between_marks(page: Path, text: str) -> None:
    """Puts the text between the marks of a page. Raises BenchError when they are not there."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchError(f"{page}: no {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
