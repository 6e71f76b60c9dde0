"""`waymesh stat`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from .options import Output, as_json, flatten
from .router_options import RouterOptions, run_on_router

_VIEWS = "What to show"


@dataclass(frozen=True, slots=True)
class Views:
    """At most one of them is chosen; the names are qdstat's."""

    general: Annotated[
        bool,
        typer.Option("-g", "--general", help="Counters of the router (the default).", rich_help_panel=_VIEWS),
    ] = False
    connections: Annotated[bool, typer.Option("-c", "--connections", help="Connections.", rich_help_panel=_VIEWS)] = (
        False
    )
    links: Annotated[bool, typer.Option("-l", "--links", help="AMQP links.", rich_help_panel=_VIEWS)] = False
    nodes: Annotated[bool, typer.Option("-n", "--nodes", help="Routers of the network.", rich_help_panel=_VIEWS)] = (
        False
    )
    address: Annotated[bool, typer.Option("-a", "--address", help="Addresses.", rich_help_panel=_VIEWS)] = False
    memory: Annotated[bool, typer.Option("-m", "--memory", help="Memory.", rich_help_panel=_VIEWS)] = False
    autolinks: Annotated[bool, typer.Option("--autolinks", help="AutoLinks.", rich_help_panel=_VIEWS)] = False
    linkroutes: Annotated[bool, typer.Option("--linkroutes", help="Link routes.", rich_help_panel=_VIEWS)] = False
    vhosts: Annotated[bool, typer.Option("--vhosts", help="Virtual hosts of the policy.", rich_help_panel=_VIEWS)] = (
        False
    )
    log: Annotated[bool, typer.Option("--log", help="Recent log lines.", rich_help_panel=_VIEWS)] = False

    def chosen(self) -> str:
        """Name of the view. Raises BadParameter."""
        names = [view.name for view in fields(self) if getattr(self, view.name)]
        if len(names) > 1:
            raise typer.BadParameter(f"use only one of {', '.join('--' + name for name in names)}")
        return names[0] if names else "general"


@flatten
def stat(
    views: Views,
    options: RouterOptions,
    all_routers: Annotated[bool, typer.Option("--all-routers", help="Ask every router of the network.")] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="More columns.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show at most N rows.", show_default="all")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, quoted.")] = False,
    output: Output = "table",
) -> None:
    """Show what a router is doing: connections, links, addresses, other routers. The options are those of qdstat.

    Exit code 0, 1 for an error, 2 for wrong usage.
    """
    view, json = views.chosen(), as_json(output)
    if options.router and all_routers:
        raise typer.BadParameter("use only one of --router, --all-routers")
    if csv and json:
        raise typer.BadParameter("use only one of --csv, --output json")
    from waymesh_client.cli.stat import StatRequest, show

    request = StatRequest(view, all_routers, bool(verbose), limit, csv, json)
    raise typer.Exit(run_on_router("stat", options, lambda client: show(client, request)))
