"""The report as one self-contained HTML page: it needs no server and no network."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from . import headline, topology
from .plots import plots
from .report import NO_RECORDS, Report
from .tables.table import Cell, Column, ColumnType

SHOWN_ROWS = 100
"""Rows of a table on the page; the files contain all of them."""
CONTAINER = "container"
LONGEST_NAME = 28
NAME_BEGIN, NAME_END = 18, 6
"""A longer name of a container is shown by so many characters of its beginning and its end."""
MICROSECONDS = "_us"
NUMERIC = (ColumnType.COUNT, ColumnType.NUMBER, ColumnType.SHARE)


def page(report: Report) -> str:
    """The text of the page."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"heading": heading, "shown": shown}
    environment.tests["numeric"] = lambda column: column.type in NUMERIC
    environment.tests["shortened"] = shortened
    text: str = environment.get_template("page.html").render(
        report=report,
        headline=headline,
        no_records=NO_RECORDS,
        tables=[table for table in report.tables.values() if table.rows or table.empty],
        # matplotlib and topology escape the texts of their pictures.
        plots={name: Markup(svg) for name, svg in plots(report).items()},
        # A text alternative of the picture of the mesh.
        mesh=topology.caption(report.tables["mesh_links"].rows, report.tables["routers"].rows),
        shown_rows=SHOWN_ROWS,
        zip=zip,
        style=_asset("page.css"),
        script=_asset("page.js"),
    )
    return text


def _asset(name: str) -> Markup:
    return Markup(files(__package__).joinpath(name).read_text("utf-8"))


def heading(column: Column) -> str:
    """The heading of a column; microseconds are shown as milliseconds."""
    name = column.name
    if name.endswith(MICROSECONDS):
        name = f"{name.removesuffix(MICROSECONDS)}_ms"
    return name.replace("p999", "p99.9").replace("_", " ")


def shortened(value: Cell, column: Column) -> bool:
    """Whether the cell shows the beginning and the end only: containers are often named by a UUID."""
    return column.name == CONTAINER and isinstance(value, str) and len(value) > LONGEST_NAME


def shown(value: Cell, column: Column) -> str:
    """The text of a cell."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, str):
        return f"{value[:NAME_BEGIN]}…{value[-NAME_END:]}" if shortened(value, column) else value
    return _number(value, column)


def _number(value: float, column: Column) -> str:
    if column.name == "boot":
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    if column.name.endswith(MICROSECONDS):
        value = value / 1000
    if column.type is ColumnType.SHARE:
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
