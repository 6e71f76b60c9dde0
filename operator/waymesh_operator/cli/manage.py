"""`waymesh manage`."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Version, flatten
from .router_options import RouterOptions, run_on_router

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
