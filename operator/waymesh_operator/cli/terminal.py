"""What the tables of all commands share: the console, the style, and the order of routers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waymesh_schema.text import one_line

WIDE = 110
"""A terminal with at least this many columns has room for all columns of a table."""


def make_console(no_color: bool) -> Console:
    """The console for tables. Without a terminal, it has room for all columns."""
    width = None if Console().is_terminal else WIDE + 10
    return Console(color_system=None if no_color else "auto", highlight=False, markup=False, emoji=False, width=width)


def titled_table(title: str) -> Table:
    """An empty table in the style of all commands."""
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)


def add_row(table: Table, *cells: str | Text) -> None:
    """Add a row to a table. Cells are escaped, because names and errors of clients and brokers may contain terminal
    control sequences, line ends and the markup of rich, which could end the command."""
    table.add_row(*(Text(one_line(str(cell)), cell.style if isinstance(cell, Text) else "") for cell in cells))


def by_ordinal(router: str) -> tuple[str, int, str]:
    """The key by which ids of routers are sorted; those outside of the mesh may have no ordinal."""
    name, _, ordinal = router.rpartition("-")
    return (name, int(ordinal), "") if ordinal.isdecimal() else (router, -1, router)


def joined_ids(routers: Iterable[str]) -> str:
    """The ids of routers in one cell of a table, by ordinal."""
    return " ".join(sorted(routers, key=by_ordinal))


@dataclass(frozen=True, slots=True)
class RouterNeighbours:
    """A row of `topology_table`: a router, and the ids of the routers that it is connected to, or should be."""

    router: str
    state: str
    present: set[str]
    missing: set[str]


def topology_table(title: str, rows: Iterable[RouterNeighbours]) -> Table:
    """The table of `waymesh topology`."""
    table = titled_table(title)
    for heading in ("Router", "State", "Neighbours", "Missing"):
        table.add_column(heading)
    for row in rows:
        add_row(table, row.router, row.state, joined_ids(row.present), Text(joined_ids(row.missing), "red"))
    return table
