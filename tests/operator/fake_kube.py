"""An API server in memory: it keeps objects, numbers their versions, applies server-side, and tells watchers.

It stands in for the StatefulSet controller too, as far as a test lets it (`step`): pods come and go with the replicas.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waymesh_operator.errors import KubeError
from waymesh_operator.kube import FIELD_MANAGER, ROUTES, Kept, Kind, kind_of

Object = dict[str, Any]
Key = tuple[str, str, str]
Call = tuple[str, str, str]
# Names for the methods of a class that has a method `list`.
Objects = list[Object]
Calls = list[Call]
Told = list[tuple[str, str]]


class FakeKube:
    """A `KubeClient`. `calls` lists (verb, kind, name); `fail` is asked before each call and may raise."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.calls: list[Call] = []
        self.watchers: list[Callable[[str | None, Object], object]] = []
        self.fail: Callable[[str, str, str], None] = lambda verb, kind, name: None
        self.unknown_kinds = {"Certificate", "Issuer", *(kind.kind for kind in ROUTES)}
        self.documents: dict[str, Object] = {}
        self._applied: dict[tuple[Key, str], Object] = {}
        self._numbers = itertools.count(1)

    # --- the five verbs ---

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        self._call("get", kind.kind, name)
        return copy.deepcopy(self._find((kind.kind, namespace, name)))

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", *, fields: str = "", kept: Kept = None
    ) -> list[Object]:
        self._call("list", kind.kind, selector)
        if kind.kind in self.unknown_kinds:
            raise KubeError(404, f"no kind {kind.kind}")
        found = [body for key, body in self.objects.items() if key[0] == kind.kind and namespace in (None, key[1])]
        listed = (copy.deepcopy(body) for body in found if _selected(body, selector) and _matches(body, fields))
        return [kept(body) if kept else body for body in listed]

    async def apply(self, manifest: Mapping[str, Any], *, manager: str = FIELD_MANAGER, force: bool = True) -> Object:
        wanted: Object = copy.deepcopy(dict(manifest))
        kind, metadata = wanted["kind"], wanted["metadata"]
        key = (kind, metadata["namespace"], metadata["name"])
        self._call("apply", kind, key[2])
        kind_of(kind)
        live = self.objects.get(key)
        version = metadata.pop("resourceVersion", None)
        if version is not None and (live is None or live["metadata"]["resourceVersion"] != version):
            raise KubeError(409, "the object has been modified")
        if not force and live is not None and self._contested(key, manager, wanted):
            raise KubeError(409, "a field belongs to another manager")
        if live:
            body = copy.deepcopy(live)
        else:
            body = {"metadata": {"uid": f"uid-{next(self._numbers)}", "generation": 1}}
        before = copy.deepcopy(body)
        _drop(body, self._applied.get((key, manager), {}), wanted)
        _merge(body, wanted)
        for other in [pair for pair in self._applied if pair[0] == key and pair[1] != manager and force]:
            del self._applied[other]
        self._applied[key, manager] = copy.deepcopy(wanted)
        if body == before:
            return copy.deepcopy(body)
        if before.get("spec") != body.get("spec") and live is not None:
            body["metadata"]["generation"] += 1
        return self._store("MODIFIED" if live else "ADDED", key, body)

    async def patch_status(self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]) -> Object:
        self._call("status", kind.kind, name)
        body = copy.deepcopy(self._find((kind.kind, namespace, name)))
        body["status"] = copy.deepcopy(dict(status))
        return self._store("MODIFIED", (kind.kind, namespace, name), body)

    async def document(self, path: str) -> Object:
        self._call("get", "document", path)
        if path not in self.documents:
            raise KubeError(404, f"document {path} not found")
        return copy.deepcopy(self.documents[path])

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self._call("delete", kind.kind, name)
        self.remove(kind.kind, namespace, name)

    # --- what others do ---

    def put(self, body: Mapping[str, Any]) -> Object:
        """A user, or a controller, writes an object."""
        wanted: Object = copy.deepcopy(dict(body))
        key = (wanted["kind"], wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        live = self.objects.get(key)
        first = {"uid": f"uid-{next(self._numbers)}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata: Object = {**(first if live is None else live["metadata"])}
        if live is not None:
            if live.get("spec") != wanted.get("spec"):
                metadata["generation"] = metadata.get("generation", 1) + 1
            wanted.setdefault("status", live.get("status", {}))
        wanted["metadata"] = {**metadata, **wanted["metadata"]}
        return self._store("MODIFIED" if live else "ADDED", key, wanted)

    def edit(self, kind: str, namespace: str, name: str, change: Callable[[Object], object]) -> Object:
        """Somebody changes an object behind everybody's back."""
        body = copy.deepcopy(self._find((kind, namespace, name)))
        change(body)
        return self._store("MODIFIED", (kind, namespace, name), body)

    def remove(self, kind: str, namespace: str, name: str, *, quietly: bool = False) -> None:
        """An object goes, with all that it owns; `quietly` no watch tells of it."""
        body = self.objects.pop((kind, namespace, name), None)
        if body is None:
            return
        self._applied = {pair: value for pair, value in self._applied.items() if pair[0] != (kind, namespace, name)}
        body["metadata"]["resourceVersion"] = str(next(self._numbers))
        if not quietly:
            self._tell("DELETED", body)
        for owned in [key for key, other in self.objects.items() if _owned_by(other, body)]:
            self.remove(*owned, quietly=quietly)

    def restore(self, objects: Mapping[Key, Object]) -> None:
        """The data of a backup replace the present ones; versions go on from there, and no watch tells of it."""
        self.objects = copy.deepcopy(dict(objects))
        versions = (int(body["metadata"]["resourceVersion"]) for body in self.objects.values())
        self._numbers = itertools.count(max(versions) + 1)

    def select(self, kind: str, namespace: str | None = None) -> Objects:
        return [body for key, body in self.objects.items() if key[0] == kind and namespace in (None, key[1])]

    def writes(self) -> Calls:
        return [call for call in self.calls if call[0] in ("apply", "status", "delete") and call[1] != "Event"]

    def events(self) -> Told:
        return [(event["reason"], event["message"]) for event in self.select("Event")]

    # --- inside ---

    def _call(self, verb: str, kind: str, name: str) -> None:
        self.calls.append((verb, kind, name))
        self.fail(verb, kind, name)

    def _find(self, key: Key) -> Object:
        try:
            return self.objects[key]
        except KeyError:
            raise KubeError(404, f"{key[0]} {key[2]} not found") from None

    def _store(self, event: str, key: Key, body: Object) -> Object:
        body["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = body
        self._tell(event, body)
        return copy.deepcopy(body)

    def _tell(self, event: str, body: Object) -> None:
        for watcher in self.watchers:
            watcher(event, copy.deepcopy(body))

    def _contested(self, key: Key, manager: str, wanted: Object) -> bool:
        others = [value for (other, name), value in self._applied.items() if other == key and name != manager]
        live = self.objects[key]
        return any(
            path in set(_leaves(value)) and _at(live, path) != _at(wanted, path)
            for value in others
            for path in _leaves(wanted)
        )


def _selected(body: Object, selector: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    name, equals, value = selector.partition("=")
    return not selector or (name in labels and (not equals or labels[name] == value))


def _matches(body: Object, fields: str) -> bool:
    path, _, value = fields.partition("=")
    return not fields or str(_at(body, tuple(path.split(".")))) == value


def _owned_by(body: Object, owner: Object) -> bool:
    owners = body["metadata"].get("ownerReferences") or ()
    return owner["metadata"]["uid"] in {reference.get("uid") for reference in owners}


def _merge(into: Object, wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


def _drop(body: Object, former: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Take away what the manager has set before and does not set any more."""
    for name, value in former.items():
        if name not in wanted:
            body.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(wanted[name], Mapping) and isinstance(body.get(name), dict):
            _drop(body[name], value, wanted[name])


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterable[tuple[str, ...]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*path, name))
        elif (*path, name) not in (("kind",), ("apiVersion",), ("metadata", "name"), ("metadata", "namespace")):
            yield (*path, name)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
