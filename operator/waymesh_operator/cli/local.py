"""Meshes of `waymesh up` on this machine, seen from another process: how to reach their routers, and the commands
`waymesh status` and `topology`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from waymesh_operator.errors import WaymeshError
from waymesh_operator.places.local.mesh import Environment, LocalMesh
from waymesh_operator.places.local.processes import SystemLauncher
from waymesh_operator.places.local.state import StateFolder, default_root
from waymesh_operator.planning.mesh import neighbours_by_router
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.names import OPERATORS
from waymesh_operator.routers.management import connect
from waymesh_operator.routers.observed import RouterState

from .tables import router_table
from .terminal import RouterNeighbours, add_row, by_ordinal, make_console, titled_table, topology_table

_TYPES = {
    "connector": ("host", "port", "role", "connectionStatus", "connectionMsg"),
    "router.config.autoLink": ("address", "direction", "operStatus", "lastError"),
    "router.config.linkRoute": ("prefix", "pattern", "direction", "operStatus"),
}


@dataclass(frozen=True, slots=True)
class Link:
    """A connector to a broker or another mesh, an autolink or a link route of one router."""

    router: str
    type: str
    name: str
    what: str
    state: str
    error: str

    @property
    def active(self) -> bool:
        """Whether it works."""
        return self.state in ("active", "SUCCESS")


def running_meshes(root: Path | None, now: float) -> list[LocalMesh]:
    """The current state of all meshes with a running router. `root`: folder with the state of local meshes."""
    world = Environment(SystemLauncher(), connect, lambda event: None)
    found = []
    for path in sorted((root or default_root()).glob("*/state.json")):
        namespace, dot, name = path.parent.name.rpartition(".")
        ref = Ref(namespace if dot else "default", name)
        folder = StateFolder(path.parent.parent, ref)
        folder.load()
        mesh = LocalMesh(ref, folder, world)
        mesh.adopt(now)
        if mesh.routers:
            mesh.observe(now)
            found.append(mesh)
    return found


@contextmanager
def local_router(meshes: Iterable[LocalMesh], name: str) -> Iterator[tuple[str, str]]:
    """Return (router, AMQP URL of its management) of a running router. Raises WaymeshError."""
    running = {router: mesh for mesh in meshes for router in mesh.routers}
    if name not in running:
        raise WaymeshError(f"no router {name} runs on this machine; these do: {', '.join(sorted(running))}")
    yield name, running[name].folder.management(name)


def local_bus(root: Path | None = None) -> str | None:
    """Return the AMQP URL for management of the local mesh's first running router; None if no mesh runs.

    `root`: folder with the state of local meshes. Raises WaymeshError if several meshes run.
    """
    meshes = {}
    for path in sorted((root or default_root()).glob("*/state.json")):
        urls = _running(path.parent)
        if urls:
            meshes[path.parent.name] = urls[min(urls)]
    if len(meshes) > 1:
        places = ", ".join(f"{url} ({name})" for name, url in meshes.items())
        raise WaymeshError(f"several local meshes run: choose one with --bus: {places}")
    return next(iter(meshes.values()), None)


def _running(path: Path) -> dict[int, str]:
    """Return the management URL of each running router of a mesh, by the router's ordinal."""
    folder = StateFolder(path.parent, Ref("default", path.name))
    folder.load()
    return {
        int(name.rpartition("-")[2]): folder.management(name)
        for name, pid in folder.pids.items()
        if OPERATORS in folder.ports.get(name, {}) and SystemLauncher().find(pid, folder.config(name)) is not None
    }


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
        "console": mesh.console_url,
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
        add_row(table, link.router, link.type, link.name, link.what, Text(link.state, style), link.error)
    return table


def links(mesh: LocalMesh) -> Iterator[Link]:
    """The links of a mesh to brokers and other meshes. Raises LiveError."""
    for router in sorted(mesh.routers.values(), key=lambda r: r.ordinal):
        for kind, names in _TYPES.items():
            for row in router.client.query(kind, ["name", *names]):
                if row.get("role") != "inter-router" or "/RouterLink/" in str(row.get("name")):
                    yield _link(router.id, kind, row)


def _link(router: str, kind: str, row: Mapping[str, Any]) -> Link:
    what = row.get("address") or row.get("prefix") or row.get("pattern") or f"{row.get('host')}:{row.get('port')}"
    state = str(row.get("operStatus") or row.get("connectionStatus") or "")
    error = str(row.get("lastError") or (row.get("connectionMsg") if state == "FAILED" else "") or "")
    name = str(row.get("name") or "").rpartition("/")[2] if kind != "connector" else str(row.get("name") or "")
    return Link(router, kind.rpartition(".")[2], name, str(what), state, error)


def wanted_neighbours(mesh: LocalMesh) -> dict[str, set[str]]:
    """The required neighbours of each router, from the configurations with which the routers were started."""
    ports = {purposes["mesh"][1]: name for name, purposes in mesh.folder.ports.items() if "mesh" in purposes}
    return neighbours_by_router({name: _peers(mesh.folder.seed(name), ports) for name in mesh.folder.ports})


def _peers(seed: str, ports: Mapping[int, str]) -> Iterator[str]:
    for kind, attributes in json.loads(seed or "[]"):
        inside = "/RouterLink/" not in str(attributes.get("name"))
        if kind == "connector" and attributes.get("role") == "inter-router" and inside:
            peer = ports.get(int(attributes["port"]))
            if peer is not None:
                yield peer
