"""Local meshes as tables for a terminal, and the steps of a plan as a table and as JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waymesh_operator.places.local.mesh import LocalMesh
from waymesh_operator.places.local.processes import LocalRouter
from waymesh_operator.places.local.status import BAD, GOOD, NOTE, WARN, Event, ResourceView
from waymesh_operator.planning.actions import Action, ApplyObject, CreateRouter
from waymesh_operator.resources.dependents import AutoLink, Broker, LinkRoute
from waymesh_operator.resources.exchange import Exchange
from waymesh_operator.resources.router import Ref
from waymesh_operator.resources.router_link import RouterLink
from waymesh_operator.resources.vhost_policy import VhostPolicy
from waymesh_operator.router_entities.actions import describe_entity
from waymesh_operator.router_entities.names import LOG, Entity
from waymesh_operator.routers.management import AddressView
from waymesh_operator.routers.observed import RouterState
from waymesh_schema.text import one_line

from .terminal import WIDE, add_row, titled_table

STYLES = {GOOD: "green", NOTE: "", WARN: "yellow", BAD: "red"}
STATES = {
    RouterState.STARTING: "yellow",
    RouterState.RUNNING: "green",
    RouterState.SILENT: "yellow",
    RouterState.EXITED: "red",
    RouterState.WAITING: "red",
    RouterState.DRAINING: "cyan",
}
ROUTER_COLUMNS: Mapping[str, Literal["left", "right"]] = {
    "Router": "left",
    "State": "left",
    "Pid": "right",
    "Clients connect to": "left",
    "Neighbours": "left",
    "Sees": "left",
    "Conns": "right",
    "Links": "right",
    "Unsettled": "right",
    "CPU": "right",
    "Memory": "right",
}
ONLY_WIDE = ("Pid", "Conns", "Links", "Unsettled", "CPU")
SIGNS = {"+": "green", "-": "red", "~": "yellow"}


def event_text(event: Event, clock: str) -> Text:
    """An event as one line."""
    return Text.assemble((f"{clock} ", "dim"), (one_line(event.text), STYLES[event.level]))


def router_table(mesh: LocalMesh, width: int = WIDE) -> Table:
    """The routers of a mesh: state, process, URLs for clients, neighbours; and the address of the console. A narrow one
    has fewer columns."""
    table = titled_table(f"Routers of {mesh.ref}")
    chosen = [column for column in ROUTER_COLUMNS if width >= WIDE or column not in ONLY_WIDE]
    for heading in chosen:
        table.add_column(heading, justify=ROUTER_COLUMNS[heading])
    urls = mesh.urls
    for router in sorted(mesh.routers.values(), key=lambda r: r.ordinal):
        cells = _router_cells(router, urls.get(router.id, {}), mesh.routers)
        add_row(table, *(cell for heading, cell in zip(ROUTER_COLUMNS, cells) if heading in chosen))
    if mesh.console_url:
        table.caption, table.caption_justify = f"Console: {mesh.console_url}", "left"
    return table


def _router_cells(router: LocalRouter, urls: Mapping[str, str], mesh: Collection[str]) -> list[str | Text]:
    """One cell for each of ROUTER_COLUMNS. `mesh`: the ids of all its routers."""
    view = router.view
    seen = sum(name in mesh for name in view.known)
    state = RouterState.DRAINING if router.draining else router.state
    return [
        router.id,
        Text(state.value, STATES[state]),
        "" if router.state in (RouterState.WAITING, RouterState.EXITED) else str(router.process.pid),
        " ".join(urls.values()),
        " ".join(view.neighbours),
        f"{seen} of {len(mesh) - 1}",
        str(view.connections),
        str(view.links),
        str(view.unsettled),
        "" if router.cpu is None else f"{router.cpu:.0%}",
        "" if router.rss_bytes is None else f"{router.rss_bytes / 2**20:.0f} MiB",
    ]


def address_table(ref: Ref, addresses: Iterable[AddressView]) -> Table:
    """The addresses that clients use on a mesh."""
    table = titled_table(f"Addresses of {ref}")
    table.add_column("Address", overflow="fold")
    table.add_column("Distribution")
    for heading in ("Consumers", "Producers", "In", "Out"):
        table.add_column(heading, justify="right")
    for row in addresses:
        counts = (row.consumers, row.producers, row.ingress, row.egress)
        add_row(table, row.address, row.distribution, *(f"{count:,}" for count in counts))
    return table


def resource_table(ref: Ref, views: Iterable[ResourceView]) -> Table:
    """Brokers, links, exchanges and VhostPolicies of a mesh: on how many routers each is active, and the error on the
    others."""
    table = titled_table(f"Brokers, links, exchanges and policies of {ref}")
    for heading in ("Kind", "Name", "What", "Dir", "Active", "State", "Last error"):
        table.add_column(heading, overflow="fold")
    for view in views:
        what, direction = _what(view)
        style = "green" if view.ready else "yellow"
        name = view.resource.ref.name
        add_row(table, view.kind, name, what, direction, view.share, Text(view.state, style), view.error)
    return table


def _what(view: ResourceView) -> tuple[str, str]:
    """The subject of a resource, and its direction."""
    resource = view.resource
    if isinstance(resource, AutoLink):
        return resource.address, resource.direction
    if isinstance(resource, LinkRoute):
        return resource.match, resource.direction
    if isinstance(resource, Broker):
        places = " ".join(f"{host}:{port}" for host, port in resource.endpoints)
        return (resource.incoming_id, "in") if resource.incoming_id else (places, "")
    if isinstance(resource, RouterLink):
        places = " ".join(f"{host}:{port}" for host, port in resource.endpoints)
        return places or f"token {resource.token}", "out"
    if isinstance(resource, Exchange):
        return resource.address, ""
    if isinstance(resource, VhostPolicy):
        return " ".join(resource.names), ""
    return resource.match, ""


def link_table(links: Mapping[str, Iterable[Mapping[str, object]]]) -> Table:
    """Links of clients, by router, from the routers' `router.link` entities. Excludes those of management."""
    table = titled_table("Links of clients")
    for heading in ("Router", "Dir", "Address"):
        table.add_column(heading)
    for heading in ("Capacity", "Credit", "Deliveries", "Accepted", "Unsettled"):
        table.add_column(heading, justify="right")
    names = ("capacity", "creditAvailable", "deliveryCount", "acceptedCount", "unsettledCount")
    for router, rows in links.items():
        for row in rows:
            key = str(row.get("owningAddr"))
            address = key[2:]
            if (
                row.get("linkType", "endpoint") != "endpoint"
                or not key.startswith("M")
                or address.endswith("$management")
            ):
                continue
            add_row(table, router, str(row.get("linkDir")), address, *(f"{row.get(name) or 0:,}" for name in names))
    return table


def plan_table(ref: Ref, actions: Iterable[Action], everything: bool = False) -> Table:
    """The steps of a plan. Entities that leave a new router at its defaults are only counted, unless `everything` is
    set."""
    table = titled_table(f"Plan for {ref}")
    table.add_column("")
    table.add_column("Step", overflow="fold")
    for action in actions:
        add_row(table, Text(action.sign, SIGNS[action.sign]), action.describe())
        if isinstance(action, CreateRouter):
            shown = [one for one in action.router.entities if everything or not _is_default(one)]
            for entity in shown:
                add_row(table, "", f"  {describe_entity(entity)}")
            if hidden := len(action.router.entities) - len(shown):
                add_row(table, "", f"  and {hidden} log modules at their default (--all shows them)")
    return table


def _is_default(entity: Entity) -> bool:
    """Return whether the entity changes nothing on a router that starts."""
    return entity.type == LOG and entity.attributes.get("enable") == "default"


def action_row(action: Action) -> dict[str, Any]:
    """Return a step as a JSON object."""
    row: dict[str, Any] = {
        "action": type(action).__name__,
        "router": action.router_id,
        "description": action.describe(),
    }
    entity = getattr(action, "entity", None)
    if entity is not None:
        row["entity"] = _entity_row(entity)
    if isinstance(action, ApplyObject) and action.restarts:
        row["restarts"] = action.restarts
    if isinstance(action, CreateRouter):
        row["entities"] = [_entity_row(entity) for entity in action.router.entities]
    return row


def _entity_row(entity: Entity) -> dict[str, Any]:
    return {"type": entity.type, "name": entity.name, "attributes": dict(entity.attributes)}


@dataclass(frozen=True, slots=True)
class TableData:
    """The data to show besides the routers, by mesh."""

    addresses: Mapping[Ref, tuple[AddressView, ...]] = field(default_factory=dict)
    resources: Mapping[Ref, tuple[ResourceView, ...]] = field(default_factory=dict)


def all_tables(meshes: Iterable[LocalMesh], shown: TableData, events: deque[Text], width: int) -> RenderableType:
    """The tables of all meshes and the latest events, for a terminal of this width."""
    parts: list[RenderableType] = []
    addresses = shown.addresses
    for mesh in meshes:
        parts.append(router_table(mesh, width))
        if shown.resources.get(mesh.ref):
            parts.append(resource_table(mesh.ref, shown.resources[mesh.ref]))
        if addresses.get(mesh.ref):
            parts.append(address_table(mesh.ref, addresses[mesh.ref]))
    return Group(*parts, *events)
