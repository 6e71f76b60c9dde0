"""Locates the management listener of a local mesh: its client listeners refuse management requests."""

from __future__ import annotations

from pathlib import Path

from waymesh_operator.errors import WaymeshError
from waymesh_operator.local.processes import SystemLauncher
from waymesh_operator.local.state import StateFolder, default_root
from waymesh_operator.resources.router import Ref
from waymesh_operator.router_entities.names import OPERATORS


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
