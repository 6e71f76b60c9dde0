"""Tables of `waymesh stat`: what a router is doing. The columns are qdstat's (Dispatch book 3.2.1)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from waymesh_client.cli import views
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


@dataclass(frozen=True, slots=True)
class StatRequest:
    """What to show and how: `view` is the name of a table, "general" or "log"; `limit` is a number of rows."""

    view: str = "general"
    all_routers: bool = False
    verbose: bool = False
    limit: int | None = None
    csv: bool = False
    json: bool = False


def show(client: ManagementClient, request: StatRequest) -> None:
    """Print what was asked for. Raises ClientError."""
    routers = _router_ids(client) if request.all_routers else []
    if request.json:
        data: Any = {router: _data(client.at(router), request) for router in routers} or _data(client, request)
        print(json.dumps(data, indent=2))
        return
    for router in routers:
        print(f"Router {router}\n")
        print(_text(client.at(router), request) + "\n")
    if not routers:
        print(_text(client, request))


def _router_ids(client: ManagementClient) -> list[str]:
    """The ids in management addresses, `amqp:/_topo/0/<id>/$management`."""
    return [node.split("/")[3] for node in client.nodes() if node.count("/") >= 4]


def _data(client: ManagementClient, request: StatRequest) -> Any:
    """Unformatted entities or log lines, for JSON."""
    if request.view == "log":
        return _log(client, request.limit)
    if request.view == "general":
        return _router(client)
    view = _VIEWS[request.view]
    return client.query(view.entity_type, limit=request.limit)


def _text(client: ManagementClient, request: StatRequest) -> str:
    if request.view == "log":
        return "\n".join(_log_line(line) for line in _log(client, request.limit))
    if request.view == "general":
        table = views.general_table(_router(client))
    else:
        view = _VIEWS[request.view]
        verbose = request.verbose
        rows = client.query(view.entity_type, view.attributes(verbose), limit=request.limit)
        if not rows and view.empty is not None:
            return view.empty
        table = view.table(rows, verbose)
    return format_csv(*table) if request.csv else format_table(*table)


def _router(client: ManagementClient) -> dict[str, Any]:
    routers = client.query("router")
    return routers[0] if routers else {}


def _log(client: ManagementClient, limit: int | None) -> list[Any]:
    lines = client.node_operation("GET-LOG", limit=limit)
    return lines if isinstance(lines, list) else []


def _log_line(line: Sequence[Any]) -> str:
    module, level, text, _file, _line, when = line
    return f"{time.ctime(when)} {module} ({level}) {text}"
