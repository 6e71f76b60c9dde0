"""Whether the files of a pod that come from Secrets are out of date, and how the kubelet is told to update them. Pure.

The kubelet updates them by itself, but only once a minute or so. It does so at once when an annotation of the pod
changes. Source: the Kubernetes documentation on ConfigMaps, "Mounted ConfigMaps are updated automatically".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waymesh_operator.routers.observed import ObservedMesh, RouterState

from .objects import Manifest

FILES_ANNOTATION = "waymesh.io/files"
"""Annotation of a pod: the versions of the Secrets whose contents the kubelet was told to mount. Not a digest of the
contents: that would help to guess passwords."""
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
