"""`waymesh stat`: what a router is doing, in tables. Options and columns are qdstat's (Dispatch book 3.2.1)."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from waymesh_client.cli import views
from waymesh_client.cli.options import add_connection_options, run_tool
from waymesh_client.cli.table import format_csv, format_table
from waymesh_client.management import ManagementClient

_VIEWS: dict[str, views.View] = {
    "connections": views.CONNECTIONS,
    "links": views.LINKS,
    "nodes": views.NODES,
    "address": views.ADDRESSES,
    "memory": views.MEMORY,
    "autolinks": views.AUTOLINKS,
    "linkroutes": views.LINK_ROUTES,
    "vhosts": views.VHOSTS,
}
_SWITCHES = (
    ("-g", "--general", "counts and figures of the router (default)"),
    ("-c", "--connections", "connections"),
    ("-l", "--links", "AMQP links attached to the router"),
    ("-n", "--nodes", "routers known in the network"),
    ("-a", "--address", "addresses known to the router"),
    ("-m", "--memory", "memory of the router process"),
    (None, "--autolinks", "configured auto-links"),
    (None, "--linkroutes", "configured link routes"),
    (None, "--vhosts", "virtual hosts of the policy"),
    (None, "--log", "recent log lines"),
)


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns the exit status: 0, 1 for an error, 2 for wrong usage."""
    parser = _parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    return run_tool(parser, options, lambda client: _show(client, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="waymesh stat", description="Show what a router is doing.")
    display = parser.add_argument_group("what to show").add_mutually_exclusive_group()
    for short, long, text in _SWITCHES:
        names = (long,) if short is None else (short, long)
        display.add_argument(*names, action="store_const", dest="show", const=long[2:], default="general", help=text)
    target = parser.add_argument_group("which router").add_mutually_exclusive_group()
    target.add_argument("-r", "--router", metavar="ID", help="a router of the network, by its id")
    target.add_argument("--all-routers", action="store_true", help="every router of the network")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="more columns")
    parser.add_argument("--limit", type=_positive, metavar="N", help="show no more than N rows")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="comma-separated, quoted")
    form.add_argument("-o", "--output", choices=("table", "json"), default="table")
    add_connection_options(parser)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _show(client: ManagementClient, options: argparse.Namespace) -> None:
    routers = _router_ids(client) if options.all_routers else []
    if options.output == "json":
        data: Any = {router: _data(client.at(router), options) for router in routers} or _data(client, options)
        print(json.dumps(data, indent=2))
        return
    for router in routers:
        print(f"Router {router}\n")
        print(_text(client.at(router), options) + "\n")
    if not routers:
        print(_text(client, options))


def _router_ids(client: ManagementClient) -> list[str]:
    """Ids out of management addresses, `amqp:/_topo/0/<id>/$management`."""
    return [node.split("/")[3] for node in client.nodes() if node.count("/") >= 4]


def _data(client: ManagementClient, options: argparse.Namespace) -> Any:
    """The entities or log lines themselves, for machines."""
    if options.show == "log":
        return _log(client, options.limit)
    if options.show == "general":
        return _router(client)
    view = _VIEWS[options.show]
    return client.query(view.entity_type, limit=options.limit)


def _text(client: ManagementClient, options: argparse.Namespace) -> str:
    if options.show == "log":
        return "\n".join(_log_line(line) for line in _log(client, options.limit))
    if options.show == "general":
        table = views.general_table(_router(client))
    else:
        view = _VIEWS[options.show]
        verbose = bool(options.verbose)
        rows = client.query(view.entity_type, view.attributes(verbose), limit=options.limit)
        if not rows and view.empty is not None:
            return view.empty
        table = view.table(rows, verbose)
    return format_csv(*table) if options.csv else format_table(*table)


def _router(client: ManagementClient) -> dict[str, Any]:
    routers = client.query("router")
    return routers[0] if routers else {}


def _log(client: ManagementClient, limit: int | None) -> list[Any]:
    lines = client.node_operation("GET-LOG", limit=limit)
    return lines if isinstance(lines, list) else []


def _log_line(line: Sequence[Any]) -> str:
    module, level, text, _file, _line, when = line
    return f"{time.ctime(when)} {module} ({level}) {text}"
