"""The latest of every object that is watched, by the mesh that it belongs to.

It is fed by watches, by audits (full lists, which find what a watch has missed), and by the answers to our own writes:
what we have just done is never mistaken for something still to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waymesh_operator.kube.kinds import RESOURCES, SELECTOR
from waymesh_operator.resources.model import Ref

DELETED = "DELETED"
_OURS = frozenset(kind.kind for kind in RESOURCES)
Key = tuple[str, str, str]
"""Kind, namespace, name."""
Object = Mapping[str, Any]


def key_of(body: Object) -> Key:
    """Kind, namespace and name of an object."""
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]


def mesh_of(body: Object) -> Ref | None:
    """The mesh that an object belongs to: by name, by reference, or by label."""
    kind, namespace, name = key_of(body)
    if kind == "Router":
        return Ref(namespace, name)
    if kind in _OURS:
        router = ((body.get("spec") or {}).get("routerRef") or {}).get("name")
    else:
        router = (body["metadata"].get("labels") or {}).get(SELECTOR)
    return Ref(namespace, router) if router else None


@dataclass(slots=True)
class _Entry:
    body: Object
    mesh: Ref | None
    version: int
    at: float


@dataclass(slots=True)
class Inventory:
    """All objects. `changed` is told which mesh an accepted change concerns."""

    changed: Callable[[Ref], object] = lambda mesh: None
    clock: Callable[[], float] = time.monotonic
    _objects: dict[Key, _Entry] = field(default_factory=dict)
    _meshes: dict[Ref, dict[Key, Object]] = field(default_factory=dict)
    _gone: dict[Key, tuple[int, float]] = field(default_factory=dict)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """One object."""
        entry = self._objects.get((kind, namespace, name))
        return entry.body if entry else None

    def of(self, mesh: Ref) -> Mapping[Key, Object]:
        """All objects of a mesh. The mapping changes with the next event: take what you need at once."""
        return self._meshes.get(mesh, {})

    def meshes(self) -> tuple[Ref, ...]:
        """All meshes that anything belongs to."""
        return tuple(self._meshes)

    def see(self, event: str | None, body: Object) -> bool:
        """Take what a watch or an answer tells. False when it is no news: it is old, or what we have already."""
        key, version = key_of(body), version_of(body)
        known = self._objects.get(key)
        if version < self._gone.get(key, (0, 0.0))[0] or (known and version < known.version):
            return False
        if event == DELETED:
            self._gone[key] = (version, self.clock())
            self._drop(key)
            return known is not None
        if known and version == known.version:
            known.at = self.clock()
            return False
        self._put(key, _slim(body), version)
        return True

    def audit(
        self, kind: str, namespace: str | None, listed: Iterable[Object], began: float
    ) -> tuple[list[Object], int]:
        """Compare with a full list asked for at `began`; returns changes, and how many removals, that are news."""
        bodies = {key_of(body): body for body in listed}
        news = [body for body in bodies.values() if self.see(None, body)]
        lost = [
            key
            for key, entry in self._objects.items()
            if key[0] == kind and namespace in (None, key[1]) and key not in bodies and entry.at < began
        ]
        for key in lost:
            self._drop(key)
        self._gone = {key: mark for key, mark in self._gone.items() if mark[1] >= began}
        return news, len(lost)

    def _put(self, key: Key, body: Object, version: int) -> None:
        mesh = mesh_of(body)
        former = self._objects.get(key)
        if former is not None and former.mesh != mesh:
            self._drop(key)
        self._objects[key] = _Entry(body, mesh, version, self.clock())
        if mesh is not None:
            self._meshes.setdefault(mesh, {})[key] = body
            self.changed(mesh)

    def _drop(self, key: Key) -> None:
        entry = self._objects.pop(key, None)
        if entry is None or entry.mesh is None:
            return
        rest = self._meshes[entry.mesh]
        rest.pop(key, None)
        if not rest:
            del self._meshes[entry.mesh]
        self.changed(entry.mesh)


def version_of(body: Object) -> int:
    """The resourceVersion as a number: the API server promises that a later one is greater."""
    text = body["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0


def _slim(body: Object) -> Object:
    """Without the record of who set which field: it is often larger than the rest."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {**body, "metadata": metadata}
