"""Finds the route APIs of the cluster in the API server, for all meshes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.errors import KubeError
from waymesh_operator.kube.api import ROUTES, KubeClient

GROUPS = tuple(sorted({kind.group for kind in ROUTES}))


@dataclass(slots=True)
class ServedApis:
    """Reads the discovery documents, and reads them again when they are too old."""

    _known: Mapping[str, str] = field(default_factory=dict)
    _read_at: float = float("-inf")

    def forget(self) -> None:
        """Make the next `read` read the documents again."""
        self._read_at = float("-inf")

    async def read(self, kube: KubeClient, now: float, max_age_s: float) -> Mapping[str, str]:
        """Return the apiVersion of each kind that the cluster has; of several versions, the one that the API server
        lists first. Raises KubeError."""
        if now - self._read_at < max_age_s:
            return self._known
        found: dict[str, str] = {}
        for group in GROUPS:
            for version in await _versions(kube, group):
                for kind in await _kinds(kube, version):
                    found.setdefault(kind, version)
        self._known, self._read_at = {kind.kind: found[kind.kind] for kind in ROUTES if kind.kind in found}, now
        return self._known


async def _versions(kube: KubeClient, group: str) -> list[str]:
    """The apiVersions of a group, the preferred one first."""
    try:
        answer = await kube.document(f"/apis/{group}")
    except KubeError as error:
        if error.missing:
            return []
        raise
    return [str(item["groupVersion"]) for item in answer.get("versions") or ()]


async def _kinds(kube: KubeClient, api_version: str) -> set[str]:
    answer = await kube.document(f"/apis/{api_version}")
    return {str(item["kind"]) for item in answer.get("resources") or () if "/" not in str(item.get("name", ""))}
