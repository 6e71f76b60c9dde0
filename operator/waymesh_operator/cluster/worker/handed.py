"""Which routers have had the present configuration: a difference on one that has not is no drift, but still to do.

A router boots with what the kubelet has mounted by then, which may be older than what was asked for meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from waymesh_operator.cluster.actions import ClusterAction, EntityAction
from waymesh_operator.cluster.desired import DesiredCluster
from waymesh_operator.cluster.objects import MANIFEST_ANNOTATION
from waymesh_operator.cluster.observed import ObservedMesh, RouterState
from waymesh_operator.cluster.plan import Drift


@dataclass(slots=True)
class Handed:
    """For each router its present start (`PodView.life`) and the digest of the seeds that it was found in step with."""

    _known: dict[str, tuple[str, str]] | None = None

    def fresh(
        self, desired: DesiredCluster, mesh: ObservedMesh, lives: Mapping[str, str], formed: bool
    ) -> frozenset[str]:
        """Running routers that have not been in step with this configuration since they started.

        `formed`: the mesh was whole before we looked for the first time. Then its routers have had theirs.
        """
        digest = _digest(desired)
        running = _running(mesh)
        if self._known is None:
            self._known = {name: (lives.get(name, ""), digest) for name in running} if formed else {}
        return frozenset(name for name in running if self._known.get(name) != (lives.get(name, ""), digest))

    def note(
        self,
        desired: DesiredCluster,
        mesh: ObservedMesh,
        lives: Mapping[str, str],
        steps: Iterable[ClusterAction],
        drift: Drift,
        refused: Collection[tuple[str, tuple[str, str]]],
    ) -> None:
        """Keep which routers are in step: nothing is to be done at them but what they have refused."""
        behind = {
            step.router_id
            for step in steps
            if isinstance(step, EntityAction) and (step.router_id, step.entity.key) not in refused
        }
        digest = _digest(desired)
        former = self._known or {}
        self._known = {name: known for name, known in former.items() if name in mesh.routers}
        for name in _running(mesh) - behind - drift.routers:
            self._known[name] = (lives.get(name, ""), digest)


def _running(mesh: ObservedMesh) -> frozenset[str]:
    return frozenset(name for name, router in mesh.routers.items() if router.state is RouterState.RUNNING)


def _digest(desired: DesiredCluster) -> str:
    seeds = next((item for item in desired.objects if item["kind"] == "ConfigMap"), None)
    return str(seeds["metadata"]["annotations"][MANIFEST_ANNOTATION]) if seeds else ""
