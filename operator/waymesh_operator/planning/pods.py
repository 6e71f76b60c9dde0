"""Pods of a StatefulSet, as a plan sees them: which ones a change replaces, and which need the files of new Secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from waymesh_operator.routers.observed import ObservedMesh, RouterState

from .manifests import Manifest, needs_apply

UPLOADER = "upload"
"""Name of the container that uploads telemetry files."""
_OPTIONAL = ("affinity", "tolerations", "nodeSelector", "priorityClassName", "serviceAccountName", "imagePullSecrets")
"""Fields of a pod that are there only if a Router asks for them; the API server adds none of them to a template."""


def replaced_pods(wanted: Manifest, live: Mapping[str, Any]) -> int:
    """Return how many pods Kubernetes replaces once `wanted` is applied: all, if it changes their template."""
    new, old = wanted["spec"]["template"], live["spec"]["template"]
    same = not needs_apply(new, old) and _left(new) == _left(old)
    return 0 if same else int(live["spec"].get("replicas", 1))


def _left(template: Mapping[str, Any]) -> list[Any]:
    """Return what `needs_apply` does not compare: whether it has what an earlier template may have had."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    keys = [sorted(metadata.get(name) or ()) for name in ("labels", "annotations")]
    resources = (named(spec["containers"], "router") or {}).get("resources") or {}
    keys += [sorted(resources.get(name) or ()) for name in ("limits", "requests")]
    keys.append(sorted(spec.get("securityContext") or ()))
    uploads = named(spec.get("initContainers"), UPLOADER) is not None
    return [*keys, uploads, *(bool(spec.get(name)) for name in _OPTIONAL)]


FILES_ANNOTATION = "waymesh.io/files"
"""Annotation of a pod: the versions of the Secrets whose contents the kubelet was told to mount. Not a digest of the
contents: that would help to guess passwords.

The kubelet updates files from Secrets by itself, but only once a minute or so. It does so at once when an annotation
of the pod changes. Source: the Kubernetes documentation on ConfigMaps, "Mounted ConfigMaps are updated automatically".
"""
SECRET_VOLUMES = ("tls", "credentials")
"""Volumes of a pod from Secrets, which are named ROUTER-VOLUME."""


def outdated_pods(
    name: str, objects: Mapping[tuple[str, str], Mapping[str, Any]], mesh: ObservedMesh
) -> Iterator[Manifest]:
    """Return the new annotation of each pod whose router runs and whose Secrets have changed, as a manifest to apply.

    `name` is the Router's; `objects` are the live objects by kind and name. A pod that is still starting is left out:
    it mounts the present contents, and gets its annotation when its router answers.
    """
    secrets = [objects.get(("Secret", f"{name}-{volume}")) for volume in SECRET_VOLUMES]
    versions = ".".join(str(secret["metadata"].get("resourceVersion", "")) for secret in secrets if secret is not None)
    for router in sorted(mesh.routers):
        pod = objects.get(("Pod", router))
        if pod is None or not versions or mesh.routers[router].state is not RouterState.RUNNING:
            continue
        if (pod["metadata"].get("annotations") or {}).get(FILES_ANNOTATION) != versions:
            yield _annotated(pod["metadata"], versions)


def _annotated(pod: Mapping[str, Any], versions: str) -> Manifest:
    """Return the partial manifest; with the uid, so that it never applies to a successor of the pod."""
    same = {field: pod[field] for field in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**same, "annotations": {FILES_ANNOTATION: versions}}}


def named(items: Iterable[Mapping[str, Any]] | None, name: str) -> Mapping[str, Any] | None:
    """Return the item of this name; None if there is none."""
    return next((item for item in items or () if item["name"] == name), None)
