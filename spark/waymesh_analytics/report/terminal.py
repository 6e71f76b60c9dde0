"""The report in a terminal: the first rows of the most important tables, and the findings."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from waymesh_schema.findings import Severity
from waymesh_schema.text import one_line

from . import headline
from .report import NO_RECORDS, Report
from .tables.table import ColumnType, Table

SHOWN_ROWS = 8
_SHOWN = {
    "traffic": ("address", "ingress", "egress", "deliveries", "bytes", "mean_hops"),
    "latency": ("address", "deliveries", "p50_us", "p99_us", "p999_us", "max_us"),
    "outcomes": ("address", "deliveries", "accepted", "rejected", "released", "modified", "presettled"),
}
_COLOURS = {Severity.BAD: "bold red", Severity.WARNING: "yellow"}


def show(report: Report, console: Console) -> None:
    """Print the report."""
    if report.hours:
        times = f"{headline.period(report)}, {headline.made(report.made)}"
        console.print(f"[bold]{_line(headline.title(report))}[/], {times}")
        console.print(_line(headline.totals(report)))
    else:
        console.print(f"[bold]{NO_RECORDS}[/]")
    for name, columns in _SHOWN.items():
        table = report.tables[name]
        if table.rows:
            console.print(_grid(table, columns))
    for finding in report.findings:
        severity = finding.kind.severity
        console.print(f"[{_COLOURS.get(severity, 'cyan')}]{severity:>8}[/] {escape(finding.text)}")
        console.print(f"{'':8} [dim]{escape(finding.kind.action)}[/]")
    if not report.findings:
        console.print("No findings.")


def _line(text: str) -> str:
    """Names come from clients."""
    return escape(one_line(text))


def _grid(table: Table[Any], names: tuple[str, ...]) -> Grid:
    more = f" ({SHOWN_ROWS} of {len(table.rows):,})" if len(table.rows) > SHOWN_ROWS else ""
    grid = Grid(title=f"{table.title}{more}", title_justify="left", box=None, header_style="dim")
    types = {column.name: column.type for column in table.columns}
    for name in names:
        grid.add_column(name, justify="left" if types[name] == ColumnType.TEXT else "right")
    for row in table.dicts()[:SHOWN_ROWS]:
        grid.add_row(*[_text(row[name], types[name]) for name in names])
    return grid


def _text(value: object, kind: ColumnType) -> str:
    if value is None:
        return ""
    if kind == ColumnType.TEXT:
        return _line(str(value))
    return f"{value:,}" if kind == ColumnType.COUNT else f"{value:,.1f}"
