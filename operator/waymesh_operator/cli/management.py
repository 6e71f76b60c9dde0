"""`waymesh stat` and `waymesh manage`: qdstat and qdmanage of a running router."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from .options import RouterOptions, Version, flatten, run_on_router

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
    edge: Annotated[
        bool, typer.Option("-e", "--edge", help="Connections of edge routers.", rich_help_panel=_VIEWS)
    ] = False
    address: Annotated[bool, typer.Option("-a", "--address", help="Addresses.", rich_help_panel=_VIEWS)] = False
    memory: Annotated[bool, typer.Option("-m", "--memory", help="Memory.", rich_help_panel=_VIEWS)] = False
    autolinks: Annotated[bool, typer.Option("--autolinks", help="AutoLinks.", rich_help_panel=_VIEWS)] = False
    linkroutes: Annotated[bool, typer.Option("--linkroutes", help="Link routes.", rich_help_panel=_VIEWS)] = False
    policy: Annotated[
        bool, typer.Option("-p", "--policy", help="Settings and counters of the policy.", rich_help_panel=_VIEWS)
    ] = False
    vhosts: Annotated[bool, typer.Option("--vhosts", help="Virtual hosts of the policy.", rich_help_panel=_VIEWS)] = (
        False
    )
    vhostgroups: Annotated[
        bool, typer.Option("--vhostgroups", help="User groups of virtual hosts.", rich_help_panel=_VIEWS)
    ] = False
    vhoststats: Annotated[
        bool, typer.Option("--vhoststats", help="Counters of virtual hosts.", rich_help_panel=_VIEWS)
    ] = False
    log: Annotated[bool, typer.Option("--log", help="Recent log lines.", rich_help_panel=_VIEWS)] = False
    all_entities: Annotated[
        bool, typer.Option("--all-entities", help="All of these, one after the other.", rich_help_panel=_VIEWS)
    ] = False

    def chosen(self) -> str:
        """Name of the view. Raises BadParameter."""
        names = [view.name for view in fields(self) if getattr(self, view.name)]
        if len(names) > 1:
            raise typer.BadParameter(f"use only one of {', '.join('--' + name.replace('_', '-') for name in names)}")
        return names[0] if names else "general"


@flatten
def stat(
    views: Views,
    options: RouterOptions,
    all_routers: Annotated[bool, typer.Option("--all-routers", help="Ask every router of the network.")] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="More columns, as -o wide.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show at most N rows.", show_default="all")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Only matching rows: \"linkDir = 'in' AND unsettledCount > 0\"."),
    ] = None,
    order_by: Annotated[
        str | None, typer.Option(metavar="ATTR,…", help="Sort by attributes: \"deliveryCount DESC, identity\".")
    ] = None,
    watch: Annotated[
        float | None, typer.Option("-w", "--watch", min=0.1, metavar="SECS", help="Repeat at this interval.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values, quoted, as -o csv.")] = False,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="table|wide|csv|json|yaml", help="Output format.")
    ] = "table",
    version: Version = False,
) -> None:
    """Show what a router is doing: connections, links, addresses, other routers. The options include those of qdstat.

    Exit code 0, 1 for an error, 2 for wrong usage.
    """
    from waymesh_client.cli import stat as tables

    view = views.chosen()
    if output not in (*tables.FORMATS, "wide"):
        raise typer.BadParameter(f"must be one of {', '.join(tables.FORMATS)}, wide", param_hint="--output")
    if (options.router or options.edge_router) and all_routers:
        raise typer.BadParameter("use only one of --router, --edge-router, --all-routers")
    if csv and output not in ("table", "wide", "csv"):
        raise typer.BadParameter(f"use only one of --csv, --output {output}")
    if limit is not None and tables.is_sheet(view):
        raise typer.BadParameter(f"--{view} has no rows to limit")
    if (where or order_by) and not tables.is_table(view):
        raise typer.BadParameter(f"--{view.replace('_', '-')} has no rows to filter or sort")
    form = "csv" if csv else "table" if output == "wide" else output
    wide = bool(verbose) or output == "wide"
    request = tables.StatRequest(view, all_routers, wide, limit, form, where, order_by)
    if watch is None:
        raise typer.Exit(run_on_router("stat", options, lambda client: tables.show(client, request)))
    raise typer.Exit(run_on_router("stat", options, lambda client: tables.watch(client, request, watch)))


OPERATIONS = (
    "query",
    "create",
    "read",
    "update",
    "delete",
    "get-types",
    "get-attributes",
    "get-operations",
    "get-annotations",
    "get-mgmt-nodes",
    "get-schema",
    "get-log",
)


def _operations(incomplete: str) -> list[str]:
    return [name for name in OPERATIONS if name.startswith(incomplete.lower())]


def _types(incomplete: str) -> list[str]:
    from waymesh_schema.entities import ENTITY_TYPES

    return [name for name in sorted(ENTITY_TYPES) if name.startswith(incomplete)]


@flatten
def manage(
    options: RouterOptions,
    operation: Annotated[
        str,
        typer.Argument(
            metavar="OPERATION",
            help=f"{', '.join(OPERATIONS)}; other operations are sent unchanged, with ATTR=VALUE as properties.",
            autocompletion=_operations,
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARG", help="ATTR=VALUE, attribute names (query), or TYPE/NAME of one entity."),
    ] = None,
    type_: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="Entity type, short or long.", autocompletion=_types),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the entity.")] = None,
    identity: Annotated[str | None, typer.Option("--identity", metavar="ID", help="Identity of the entity.")] = None,
    indent: Annotated[int, typer.Option(metavar="N", help="Indentation of JSON; -1: one line.")] = 2,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read attributes from standard input: a JSON map or a list of maps.")
    ] = False,
    body: Annotated[str | None, typer.Option(metavar="JSON", help="Body of another operation.")] = None,
    properties: Annotated[str | None, typer.Option(metavar="JSON", help="Properties of another operation.")] = None,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="Ignored; for scripts for qdmanage.")] = 0,
    version: Version = False,
) -> None:
    """Read and change the entities of a running router, with the operations and options of qdmanage.

    Exit code 0, 1 for an error, 2 for wrong usage.
    """
    from waymesh_client.cli.manage import ManageRequest, UsageError, json_map, json_value, parse, run

    try:
        request = ManageRequest(
            operation,
            type=type_,
            name=name,
            identity=identity,
            body=None if body is None else json_value(body, "--body"),
            properties={} if properties is None else json_map(properties, "--properties"),
            indent=indent,
        )
        request = parse(request, arguments or [], stdin)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(run_on_router("manage", options, lambda client: run(client, request)))
