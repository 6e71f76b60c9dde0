"""The latest version of every watched object, by the mesh that it belongs to.

Its sources are watches, audits (full lists, which find what a watch missed), and the responses to our writes, so that
completed writes are never planned again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import RESOURCES, SELECTOR, Kind, KubeClient, slim
from waymesh_operator.resources.dependents import (
    Address,
    AutoLink,
    Broker,
    LinkRoute,
    Resources,
    parse_address,
    parse_autolink,
    parse_broker,
    parse_linkroute,
)
from waymesh_operator.resources.exchange import Exchange, parse_exchange
from waymesh_operator.resources.router import Ref, Router, parse_router
from waymesh_operator.resources.router_link import RouterLink, parse_router_link
from waymesh_operator.resources.vhost_policy import VhostPolicy, parse_vhost_policy

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
    """All objects. `changed` is called with the mesh of each accepted change."""

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
        """Return all objects of a mesh. The mapping changes with the next event: copy what you need."""
        return self._meshes.get(mesh, {})

    def meshes(self) -> tuple[Ref, ...]:
        """All meshes that anything belongs to."""
        return tuple(self._meshes)

    def see(self, event: str | None, body: Object) -> bool:
        """Store an object from a watch or a response. Returns False if it is not newer than the stored one."""
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
        self._put(key, slim(body) if "managedFields" in body["metadata"] else body, version)  # lists are slim
        return True

    def kept(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what is kept of an object in a list: the stored one if its version is the same."""
        known = self._objects.get(key_of(body))
        return cast("dict[str, Any]", known.body) if known and known.version == version_of(body) else slim(body)

    def audit(
        self, kind: str, namespace: str | None, listed: Iterable[Object], began: float
    ) -> tuple[list[Object], int]:
        """Compare with a full list requested at `began`; returns the changes and the number of deletions missed.

        An object that was stored before the request, and is older in the list, means that the API server's data was
        restored from a backup: what was stored does not count any more.
        """
        bodies = {key_of(body): body for body in listed}
        if restored := [key for key, body in bodies.items() if self._is_newer(key, version_of(body), began)]:
            log.warning("%d objects (%s) are older in the API server than known: it was restored", len(restored), kind)
        for key in restored:
            self._gone.pop(key, None)
            if key in self._objects:
                self._objects[key].version = 0
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

    def _is_newer(self, key: Key, version: int, began: float) -> bool:
        """Return whether a later version was stored, or deleted, before a time."""
        known, gone = self._objects.get(key), self._gone.get(key, (0, began))
        return bool(known and known.version > version and known.at < began) or (gone[0] > version and gone[1] < began)

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
    """Return the resourceVersion as a number: the API server guarantees that later ones are greater."""
    text = body["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0


log = logging.getLogger(__name__)
_PARSERS: Mapping[str, Callable[[Object], Any]] = {
    "Router": parse_router,
    "Address": parse_address,
    "Broker": parse_broker,
    "AutoLink": parse_autolink,
    "LinkRoute": parse_linkroute,
    "VhostPolicy": parse_vhost_policy,
    "RouterLink": parse_router_link,
    "Exchange": parse_exchange,
}


class Parser:
    """Parses the resources of one mesh."""

    def __init__(self) -> None:
        self._parsed: dict[Key, _Parsed] = {}

    @property
    def errors(self) -> dict[Key, str]:
        """Why resources of the mesh cannot be parsed."""
        return {key: str(one.found) for key, one in self._parsed.items() if isinstance(one.found, Unparsed)}

    def resources(self, mesh: Ref, objects: Mapping[Key, Object]) -> Resources:
        """The resources that can be parsed. The Router's `uid` is empty if there is none or it is being deleted."""
        found: dict[str, list[Any]] = {kind: [] for kind in _PARSERS}
        former, self._parsed = self._parsed, {}
        for key, body in objects.items():
            known = former.get(key)
            # Nothing is looked up in an object that is the same: of thousands, this took most of the time.
            same = known is not None and known.body is body
            if same or (key[0] in _PARSERS and not body["metadata"].get("deletionTimestamp")):
                parsed = self._parsed[key] = _parsed(body, known)
                if not isinstance(parsed.found, Unparsed):
                    found[key[0]].append(parsed.found)
        router: Router = next(iter(found["Router"]), Router(mesh))
        addresses: list[Address] = found["Address"]
        brokers: list[Broker] = found["Broker"]
        autolinks: list[AutoLink] = found["AutoLink"]
        linkroutes: list[LinkRoute] = found["LinkRoute"]
        policies: list[VhostPolicy] = found["VhostPolicy"]
        links: list[RouterLink] = found["RouterLink"]
        exchanges: list[Exchange] = found["Exchange"]
        return Resources(
            router,
            tuple(addresses),
            tuple(brokers),
            tuple(autolinks),
            tuple(linkroutes),
            tuple(policies),
            tuple(links),
            tuple(exchanges),
        )


@dataclass(frozen=True, slots=True)
class Unparsed:
    """The reason why a resource cannot be parsed: an older schema accepted it, and this one does not."""

    error: str

    def __str__(self) -> str:
        return f"this version of the operator cannot read the resource: {self.error}"


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An object and what was found in it: a resource, or Unparsed."""

    body: Object
    found: Any


def _parsed(body: Object, former: _Parsed | None) -> _Parsed:
    """Return the parsed object. If only the status has changed since `former`, the resource remains the same object, so
    that nothing is computed again for it."""
    if former is None:
        return _Parsed(body, _parse(body))
    if former.body is body:
        return former
    same = body.get("spec") == former.body.get("spec") and _given(body) == _given(former.body)
    return _Parsed(body, former.found if same else _parse(body))


def _given(body: Object) -> Object:
    """Return the metadata without what changes with each write."""
    return {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}


def _parse(body: Object) -> Any:
    """Return the parsed resource, or Unparsed."""
    try:
        return _PARSERS[body["kind"]](body)
    except (KeyError, TypeError, ValueError) as error:
        log.error("cannot parse %s %s: %r", body["kind"], body["metadata"]["name"], error)
        return Unparsed(repr(error))


AT_ONCE = 16
"""Maximum number of requests in a round for what is missing, and as many for what exists; the next rounds continue."""
ROUNDS_APART = 5
"""What exists is looked up in every fifth round: it seldom changes."""
Name = tuple[Kind, str]


@dataclass(slots=True)
class References:
    """The users' Secrets and claims that meshes refer to. A mesh is reconciled soon after one of them appears, changes
    or disappears.

    They do not have our label, so a watch would stream all of them in the cluster. They are looked up by name instead.
    """

    # By mesh: the resourceVersion of each, "" if it is missing.
    _versions: dict[Ref, dict[Name, str]] = field(default_factory=dict)
    _rounds: int = 0

    def note(self, mesh: Ref, versions: Mapping[Name, str]) -> None:
        """Set what this mesh refers to in its own namespace: the resourceVersion that it knows, "" if it is missing."""
        if versions:
            self._versions[mesh] = dict(versions)
        else:
            self._versions.pop(mesh, None)

    def version(self, mesh: Ref, name: Name) -> str:
        """Return the last known resourceVersion; "" if it is missing or not noted."""
        return self._versions.get(mesh, {}).get(name, "")

    async def run(self, kube: KubeClient, inventory: Inventory, every_s: float) -> None:
        """Look them up until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.look_up(kube, inventory)

    async def look_up(self, kube: KubeClient, inventory: Inventory) -> None:
        """One round: look up a part, and wake the meshes that know another version of it."""
        chosen = _part(self._names(existing=False), self._rounds)
        if self._rounds % ROUNDS_APART == 0:
            chosen += _part(self._names(existing=True), self._rounds // ROUNDS_APART)
        self._rounds += 1
        found = await asyncio.gather(*(_version(kube, *one) for one in chosen))
        now = {one: version for one, version in zip(chosen, found) if version is not None}
        for mesh, versions in list(self._versions.items()):
            new = {name: now.get((mesh.namespace, *name), version) for name, version in versions.items()}
            if new != versions:
                self._versions[mesh] = new
                inventory.changed(mesh)

    def _names(self, existing: bool) -> list[tuple[str, Kind, str]]:
        """Return namespace, kind and name of all that exists, or of all that is missing."""
        return sorted(
            {
                (mesh.namespace, *name)
                for mesh, versions in self._versions.items()
                for name, version in versions.items()
                if bool(version) is existing
            },
            key=str,
        )


def _part(names: list[tuple[str, Kind, str]], turn: int) -> list[tuple[str, Kind, str]]:
    first = turn * AT_ONCE % max(1, len(names))
    return (names[first:] + names[:first])[:AT_ONCE]


async def _version(kube: KubeClient, namespace: str, kind: Kind, name: str) -> str | None:
    """Return the present resourceVersion, "" if there is no such object, None if that is not known."""
    try:
        return str((await kube.get(kind, namespace, name))["metadata"]["resourceVersion"])
    except KubeError as error:
        if error.missing:
            return ""
        log.debug("cannot look up %s %s/%s: %s", kind.kind, namespace, name, error)
        return None
