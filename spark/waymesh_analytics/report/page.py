"""The report as one page of HTML that needs nothing else: no server, no network."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib.resources import files

from waymesh_analytics.report.tables.table import COUNT, NUMBER, SHARE, TEXT, Cell, Column, Table

from .plots import plots
from .report import Report

MOST_ROWS = 100
"""Of a table on the page; the files have all of them."""
MICROSECONDS = "_us"


def page(report: Report) -> str:
    """The whole page."""
    pictures = plots(report)
    tables = [table for table in report.tables.values() if table.rows]
    covered = f"{report.hours[0]}:00 to {report.hours[-1]}:59 UTC" if report.hours else "no records"
    links = "".join(f'<a href="#{table.name}">{escape(table.title)}</a>' for table in tables)
    style, script = _part("page.css"), _part("page.js")
    sections = "".join(_section(table, pictures.get(table.name, "")) for table in tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Waymesh report</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style></head><body>\n'
        f"<h1>Waymesh report</h1><p>{covered}</p>\n{_findings(report)}<nav>{links}</nav>\n"
        f"{sections}<script>{script}</script></body></html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _findings(report: Report) -> str:
    if not report.findings:
        return "<p>Nothing stands out.</p>\n"
    items = [
        f'<li class="{finding.severity}"><a href="#{finding.table}">{escape(finding.text)}</a></li>'
        for finding in report.findings
    ]
    return f'<ul class="findings">{"".join(items)}</ul>\n'


def _section(table: Table, picture: str) -> str:
    shown = table.rows[:MOST_ROWS]
    rest = f" The first {MOST_ROWS} of {len(table.rows):,} rows." if len(table.rows) > MOST_ROWS else ""
    head = "".join(f"<th{_class(column)}><button>{escape(_title(column))}</button></th>" for column in table.columns)
    said = escape(f"{table.title} as a picture; the table has its numbers")
    figure = f'<figure role="img" aria-label="{said}">{picture}</figure>' if picture else ""
    body = "".join(
        f"<tr>{''.join(_cell(column, value) for column, value in zip(table.columns, row))}</tr>\n" for row in shown
    )
    return (
        f'<section><h2 id="{table.name}">{escape(table.title)}</h2><p>{escape(table.note + rest)}</p>\n{figure}\n'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div></section>\n'
    )


def _title(column: Column) -> str:
    """Microseconds are shown as milliseconds."""
    name = f"{column.name[: -len(MICROSECONDS)]}_ms" if column.name.endswith(MICROSECONDS) else column.name
    return name.replace("p999", "p99.9").replace("_", " ")


def _class(column: Column) -> str:
    return ' class="n"' if column.type in (COUNT, NUMBER, SHARE) else ""


def _cell(column: Column, value: Cell) -> str:
    if value is None:
        return f"<td{_class(column)}></td>"
    if isinstance(value, datetime):
        return f"<td>{value:%Y-%m-%d %H:%M:%S}</td>"
    if column.type == TEXT:
        return f"<td>{escape(str(value))}</td>"
    return f'<td class="n" data-v="{value}">{_number(column, value)}</td>'


def _number(column: Column, value: str | int | float) -> str:
    if column.name == "boot":
        return f"{datetime.fromtimestamp(float(value) / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    if column.name.endswith(MICROSECONDS):
        value = float(value) / 1000
    if column.type == SHARE:
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(float(value)) < 1000 else f"{value:,.0f}"
