"""What all objects of a Router have alike: labels, owner, and a mark by which a later difference is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from waymesh_operator.resources.model import Router

Manifest = Mapping[str, Any]
ROUTER_LABEL = "waymesh.io/router"
MANIFEST_ANNOTATION = "waymesh.io/manifest"
"""Annotation with a digest of the manifest: a field that we set no more leaves no other trace in the live object."""
LEAVING_ANNOTATION = "waymesh.io/leaving"
"""Annotation of the StatefulSet: id of the lowest router that is drained so that the mesh can shrink."""
RESTARTED_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
"""Annotation of the pod template that `kubectl rollout restart` sets."""
API_VERSION = "waymesh.io/v1alpha1"


def selector_of(router: str) -> dict[str, str]:
    """Labels that select the pods of a Router. They can never change, as a StatefulSet's selector cannot."""
    return {"app.kubernetes.io/name": "waymesh-router", ROUTER_LABEL: router}


def labels_of(router: str) -> dict[str, str]:
    """Labels of every object and pod of a Router."""
    return {
        **selector_of(router),
        "app.kubernetes.io/instance": router,
        "app.kubernetes.io/managed-by": "waymesh-operator",
    }


def make(router: Router, api_version: str, kind: str, suffix: str, body: Mapping[str, Any]) -> Manifest:
    """An object called `<router><suffix>` that belongs to the Router; `body` is all but kind and metadata."""
    metadata: dict[str, Any] = {
        "name": router.ref.name + suffix,
        "namespace": router.ref.namespace,
        "labels": labels_of(router.ref.name),
    }
    if router.uid:
        metadata["ownerReferences"] = [_owner(router)]
    return marked({"apiVersion": api_version, "kind": kind, "metadata": metadata, **body})


def marked(manifest: Manifest) -> Manifest:
    """The same manifest with its digest as an annotation. Of what a Secret holds only the names go into the digest."""
    told = {**manifest, "data": sorted(manifest["data"])} if manifest["kind"] == "Secret" else dict(manifest)
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "annotations"}
    others = {n: v for n, v in manifest["metadata"].get("annotations", {}).items() if n != MANIFEST_ANNOTATION}
    text = json.dumps({**told, "metadata": {**metadata, "annotations": others}}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {**manifest, "metadata": {**metadata, "annotations": {**others, MANIFEST_ANNOTATION: digest}}}


def with_replicas(stateful_set: Manifest, replicas: int) -> Manifest:
    """The same StatefulSet with another number of replicas."""
    return marked({**stateful_set, "spec": {**stateful_set["spec"], "replicas": replicas}})


def _owner(router: Router) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Router",
        "name": router.ref.name,
        "uid": router.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
