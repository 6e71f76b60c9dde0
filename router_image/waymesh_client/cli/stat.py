"""Tables of `waymesh stat`: the state of a router. The columns are those of qdstat (Dispatch book 3.2.1)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from waymesh_client.cli import views
from waymesh_client.cli.sheets import SHEETS, EntityView
from waymesh_client.cli.table import format_csv, format_table
from waymesh_client.management import ManagementClient

_VIEWS: dict[str, views.View] = {
    "connections": views.CONNECTIONS,
    "links": views.LINKS,
    "nodes": views.NODES,
    "edge": views.EDGES,
    "address": views.ADDRESSES,
    "autolinks": views.AUTOLINKS,
    "linkroutes": views.LINK_ROUTES,
    "vhosts": views.VHOSTS,
    "vhostgroups": views.VHOST_GROUPS,
    "vhoststats": views.VHOST_STATS,
}
ALL = "all_entities"
"""The view that shows all others, one after the other."""
_EACH = (
    "general", "connections", "links", "nodes", "edge", "address", "memory", "autolinks", "linkroutes", "policy",
    "vhosts", "vhostgroups", "vhoststats", "log",
)  # fmt: skip
FORMATS = ("table", "csv", "json", "yaml")
_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class StatRequest:
    """What to show and how: `view` is the name of a table or sheet, "log", or ALL; `limit` is a number of rows.

    `format` is one of FORMATS, `wide` a table with all columns. `where` and `order_by` are a condition and an order of
    the rows (docs/management.md).
    """

    view: str = "general"
    all_routers: bool = False
    wide: bool = False
    limit: int | None = None
    format: str = "table"
    where: str | None = None
    order_by: str | None = None


def is_table(view: str) -> bool:
    """Whether the view has rows that can be filtered and sorted."""
    return view in _VIEWS


def is_sheet(view: str) -> bool:
    """Whether the view shows one entity."""
    return view in SHEETS


def watch(client: ManagementClient, request: StatRequest, seconds: float) -> None:
    """Show the requested view every `seconds`, until Ctrl-C. Raises ClientError."""
    try:
        while True:
            text = _shown(client, request)
            print(f"{_CLEAR if sys.stdout.isatty() else ''}{text}", flush=True)
            time.sleep(seconds)
    except KeyboardInterrupt:
        return


def show(client: ManagementClient, request: StatRequest) -> None:
    """Print the requested view. Raises ClientError."""
    print(_shown(client, request))


def _shown(client: ManagementClient, request: StatRequest) -> str:
    routers = _router_ids(client) if request.all_routers else []
    if request.format in ("json", "yaml"):
        return _encoded({r: _data(client.at(r), request) for r in routers} or _data(client, request), request.format)
    if not routers:
        return _text(client, request)
    return "\n".join(f"Router {router}\n\n{_text(client.at(router), request)}\n" for router in routers)


def _encoded(data: Any, encoding: str) -> str:
    if encoding == "json":
        return json.dumps(data, indent=2)
    import yaml

    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True)).rstrip("\n")


def _router_ids(client: ManagementClient) -> list[str]:
    """The ids in management addresses, `amqp:/_topo/0/<id>/$management`."""
    return [node.split("/")[3] for node in client.nodes() if node.count("/") >= 4]


def _data(client: ManagementClient, request: StatRequest) -> Any:
    """Unformatted entities or log lines; for the view ALL, a map of them by view."""
    if request.view == ALL:
        return {view: _data(client, replace(request, view=view)) for view in _EACH}
    if request.view == "log":
        return _log(client, request.limit)
    if request.view in SHEETS:
        return _sheet_data(client, SHEETS[request.view])
    return _rows(client, request, ())


def _sheet_data(client: ManagementClient, sheet: EntityView) -> dict[str, Any]:
    """The entity. If rows are shown below it, a map from type to the entity and to the rows."""
    entity = _entity(client, sheet)
    if sheet.below is None:
        return entity
    return {sheet.entity_type: entity, sheet.below.entity_type: client.query(sheet.below.entity_type)}


def _text(client: ManagementClient, request: StatRequest) -> str:
    if request.view == ALL:
        return "\n\n".join(_text(client, replace(request, view=view)) for view in _EACH)
    if request.view == "log":
        return "\n".join(_log_line(line) for line in _log(client, request.limit))
    if request.view in SHEETS:
        sheet = SHEETS[request.view]
        tables = [sheet.table(_entity(client, sheet))]
        if sheet.below is not None:
            rows = client.query(sheet.below.entity_type, sheet.below.attributes(request.wide))
            tables.append(sheet.below.table(rows, request.wide))
    else:
        view = _VIEWS[request.view]
        rows = _rows(client, request, view.attributes(request.wide))
        if not rows and view.empty is not None:
            return view.empty
        tables = [view.table(rows, request.wide, in_order=bool(request.order_by)), *view.further(rows)]
    formatted = format_csv if request.format == "csv" else format_table
    return "\n\n".join(formatted(*table) for table in tables)


def _rows(client: ManagementClient, request: StatRequest, attributes: Sequence[str]) -> list[dict[str, Any]]:
    view = _VIEWS[request.view]
    found = client.query(
        view.entity_type, attributes, limit=request.limit, where=request.where, order_by=request.order_by
    )
    return list(filter(view.belongs, found))


def _entity(client: ManagementClient, sheet: EntityView) -> dict[str, Any]:
    found = client.query(sheet.entity_type)
    return found[0] if found else {}


def _log(client: ManagementClient, limit: int | None) -> list[Any]:
    lines = client.node_operation("GET-LOG", limit=limit)
    return lines if isinstance(lines, list) else []


def _log_line(line: Sequence[Any]) -> str:
    module, level, text, _file, _line, when = line
    return f"{time.ctime(when)} {module} ({level}) {text}"
