"""`waymesh status` and `topology`, and the router to drain, for meshes that `waymesh up` runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.table import Table
from rich.text import Text

from waymesh_operator.errors import WaymeshError
from waymesh_operator.local.mesh import LocalMesh
from waymesh_operator.local.running import Link, links, wanted_neighbours
from waymesh_operator.local.tables import router_table
from waymesh_operator.local.terminal import RouterNeighbours, by_ordinal, make_console, titled_table, topology_table
from waymesh_operator.routers.observed import RouterState


def run_local_status(meshes: Sequence[LocalMesh], name: str, as_json: bool, no_color: bool) -> int:
    """Print the routers and their links to brokers and meshes. Returns 0 if all work, else 1. Raises WaymeshError."""
    chosen = _chosen(meshes, name)
    found = {mesh: list(links(mesh)) for mesh in chosen}
    if as_json:
        print(json.dumps([_row(mesh, found[mesh]) for mesh in chosen], indent=2))
    else:
        console = make_console(no_color)
        for mesh in chosen:
            console.print(router_table(mesh))
            if found[mesh]:
                console.print(_link_table(mesh, found[mesh]))
    return 0 if all(_ready(mesh) and all(link.active for link in found[mesh]) for mesh in chosen) else 1


def run_local_topology(meshes: Sequence[LocalMesh], name: str, no_color: bool) -> int:
    """Print which routers are connected. Returns 0 if no connection is missing, else 1. Raises WaymeshError."""
    console = make_console(no_color)
    whole = True
    for mesh in _chosen(meshes, name):
        wanted = wanted_neighbours(mesh)
        rows = []
        for router_id in sorted(wanted, key=by_ordinal):
            router = mesh.routers.get(router_id)
            neighbours = set(router.view.neighbours) if router else set()
            missing = wanted[router_id] - neighbours
            whole = whole and not missing and router is not None
            state = router.state.value if router else "ended"
            rows.append(RouterNeighbours(router_id, state, neighbours, missing))
        title = f"{mesh.ref}: {sum(map(len, wanted.values())) // 2} connections"
        console.print(topology_table(title, rows))
    return 0 if whole else 1


@contextmanager
def local_router(meshes: Iterable[LocalMesh], name: str) -> Iterator[tuple[str, str]]:
    """Return (router, AMQP URL of its management) of a running router. Raises WaymeshError."""
    running = {router: mesh for mesh in meshes for router in mesh.routers}
    if name not in running:
        raise WaymeshError(f"no router {name} runs on this machine; these do: {', '.join(sorted(running))}")
    yield name, running[name].folder.management(name)


def _chosen(meshes: Sequence[LocalMesh], name: str) -> list[LocalMesh]:
    chosen = [mesh for mesh in meshes if name in ("", str(mesh.ref))]
    if not chosen:
        names = ", ".join(str(mesh.ref) for mesh in meshes)
        raise WaymeshError(f"there is no local Router {name}; there are: {names}")
    return chosen


def _ready(mesh: LocalMesh) -> bool:
    """Return whether all routers run and reach each other."""
    wanted = wanted_neighbours(mesh)
    return mesh.routers.keys() == wanted.keys() and all(
        router.state is RouterState.RUNNING
        and (not wanted[router.id] or wanted.keys() <= {router.id, *router.view.known})
        for router in mesh.routers.values()
    )


def _row(mesh: LocalMesh, found: Iterable[Link]) -> dict[str, Any]:
    routers = sorted(mesh.routers.values(), key=lambda router: router.ordinal)
    return {
        "mesh": str(mesh.ref),
        "ready": _ready(mesh),
        "routers": [
            {
                "id": router.id,
                "state": router.state.value,
                "pid": router.process.pid,
                "listeners": dict(mesh.urls.get(router.id, {})),
                "neighbours": list(router.view.neighbours),
                "unsettled": router.view.unsettled,
            }
            for router in routers
        ],
        "links": [
            {"router": one.router, "type": one.type, "name": one.name, "state": one.state, "error": one.error}
            for one in found
        ],
    }


def _link_table(mesh: LocalMesh, found: Iterable[Link]) -> Table:
    table = titled_table(f"Brokers, links and other meshes of {mesh.ref}")
    for heading in ("Router", "Type", "Name", "What", "State", "Last error"):
        table.add_column(heading, overflow="fold")
    for link in found:
        style = "green" if link.active else "yellow"
        table.add_row(link.router, link.type, link.name, link.what, Text(link.state, style), link.error)
    return table
