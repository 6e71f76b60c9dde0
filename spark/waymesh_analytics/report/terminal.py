"""The report in a terminal: findings, and the heads of the tables that tell most."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from waymesh_analytics.report.tables.table import COUNT, TEXT, Table

from .findings import BAD, WARNING
from .report import Report

MOST_ROWS = 8
_SHOWN = {
    "traffic": ("address", "ingress", "egress", "deliveries", "bytes", "mean_hops"),
    "latency": ("address", "deliveries", "p50_us", "p99_us", "p999_us", "max_us"),
    "outcomes": ("address", "deliveries", "accepted", "rejected", "released", "modified", "presettled"),
}
_COLOURS = {BAD: "bold red", WARNING: "yellow"}


def show(report: Report, console: Console) -> None:
    """Print it."""
    covered = f"{report.hours[0]} to {report.hours[-1]} (UTC)" if report.hours else "no records"
    console.print(f"[bold]{covered}[/]")
    for name, columns in _SHOWN.items():
        table = report.tables[name]
        if table.rows:
            console.print(_grid(table, columns))
    for finding in report.findings:
        colour = _COLOURS.get(finding.severity, "cyan")
        console.print(f"[{colour}]{finding.severity:>8}[/] {escape(finding.text)}")
    if not report.findings:
        console.print("Nothing stands out.")


def _grid(table: Table, names: tuple[str, ...]) -> Grid:
    more = f" ({MOST_ROWS} of {len(table.rows):,})" if len(table.rows) > MOST_ROWS else ""
    grid = Grid(title=f"{table.title}{more}", title_justify="left", box=None, header_style="dim")
    types = {column.name: column.type for column in table.columns}
    for name in names:
        grid.add_column(name, justify="left" if types[name] == TEXT else "right")
    for row in table.dicts()[:MOST_ROWS]:
        grid.add_row(*[_text(row[name], types[name]) for name in names])
    return grid


def _text(value: object, kind: str) -> str:
    if value is None:
        return ""
    if kind == TEXT:
        return escape(str(value))
    return f"{value:,}" if kind == COUNT else f"{value:,.1f}"
