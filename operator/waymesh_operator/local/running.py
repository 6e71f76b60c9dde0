"""Meshes of `waymesh up` on this machine, seen from another process: their state, and how to manage them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waymesh_operator.cluster.mesh import neighbours_by_router
from waymesh_operator.errors import WaymeshError
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.names import OPERATORS
from waymesh_operator.routers.management import connect

from .mesh import Environment, LocalMesh
from .processes import SystemLauncher
from .state import StateFolder, default_root

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
