"""Manifests of objects, as a plan sees them: whether a live object differs from what we set, and whether it opens
access from outside the cluster.

The API server adds defaults and other fields and normalises quantities. None of that is a difference: a resync of an
unchanged mesh must not send requests. A field that we no longer set only shows in the digest of the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

Manifest = Mapping[str, Any]
MANIFEST_ANNOTATION = "waymesh.io/manifest"
"""Annotation with a digest of the manifest: the only trace in the live object of a field that we no longer set."""
LEAVING_ANNOTATION = "waymesh.io/leaving"
"""Annotation of the StatefulSet: id of the lowest router that is drained so that the mesh can shrink."""
LISTENER_LABEL = "waymesh.io/listener"
"""Label of the Service and the routes of a listener: its name."""


def marked(manifest: Manifest) -> Manifest:
    """Return the manifest with its digest as an annotation. For a Secret, the digest only covers the names of
    entries."""
    digested = {**manifest, "data": sorted(manifest["data"])} if manifest["kind"] == "Secret" else dict(manifest)
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "annotations"}
    others = {n: v for n, v in manifest["metadata"].get("annotations", {}).items() if n != MANIFEST_ANNOTATION}
    text = json.dumps({**digested, "metadata": {**metadata, "annotations": others}}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {**manifest, "metadata": {**metadata, "annotations": {**others, MANIFEST_ANNOTATION: digest}}}


def with_replicas(stateful_set: Manifest, replicas: int) -> Manifest:
    """Return the StatefulSet with another number of replicas."""
    return marked({**stateful_set, "spec": {**stateful_set["spec"], "replicas": replicas}})


_KEYS = ("name", "mountPath", "containerPort", "uid")
"""Fields that identify the items of a list."""
_EXACT = ("matchLabels", "nodeSelector", "selector")
"""Maps that are compared as a whole: an additional key is a difference, and applying removes it."""
_QUANTITIES = ("limits", "requests")


def needs_apply(wanted: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    """Return whether applying `wanted` would change a field that we set, or remove one that we no longer set."""
    return live is None or not _within(wanted, live, "")


def _within(wanted: Any, live: Any, field: str) -> bool:
    """Return whether `live` contains all of `wanted`. `field` is the name of the field that holds both."""
    if wanted is live or isinstance(wanted, str):  # most are texts, and questions about abstract types are slow
        return bool(wanted == live)
    if isinstance(wanted, Mapping):
        return _map_within(wanted, live if isinstance(live, Mapping) else {}, field)
    if isinstance(wanted, Sequence):
        return _list_within(wanted, live if isinstance(live, Sequence) else ())
    return bool(wanted == live)


def _map_within(wanted: Mapping[str, Any], live: Mapping[str, Any], field: str) -> bool:
    if field in _EXACT and wanted.keys() != live.keys():
        return False
    if field in _QUANTITIES:
        return all(_quantity(value) == _quantity(live.get(name)) for name, value in wanted.items())
    return all(_within(value, live.get(name), name) for name, value in wanted.items())


def _list_within(wanted: Sequence[Any], live: Sequence[Any]) -> bool:
    """Compare lists: those with identified items may contain items of other managers; others are compared as a
    whole."""
    for key in _KEYS:
        if wanted and all(isinstance(item, Mapping) and key in item for item in wanted):
            there = {item.get(key): item for item in live if isinstance(item, Mapping)}
            return all(item[key] in there and _within(item, there[item[key]], "") for item in wanted)
    return len(wanted) == len(live) and all(_within(item, other, "") for item, other in zip(wanted, live))


def _quantity(value: Any) -> Any:
    """Return a quantity as a number: "0.5" and "500m" are equal. Returns other texts unchanged."""
    from kubernetes.utils import parse_quantity  # slow to import, and local mode has no objects

    try:
        return parse_quantity(str(value))
    except ValueError:
        return str(value)


def is_exposure(manifest: Manifest) -> bool:
    """Return whether an object is the Service or a route of an exposed listener."""
    return LISTENER_LABEL in (manifest["metadata"].get("labels") or {})


def opens(manifest: Manifest) -> bool:
    """Return whether an object opens access from outside the cluster: a route, or a Service that needs none."""
    inside = manifest["kind"] == "Service" and manifest["spec"]["type"] == "ClusterIP"
    return is_exposure(manifest) and not inside
