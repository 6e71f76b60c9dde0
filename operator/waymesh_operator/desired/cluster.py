"""A mesh in a cluster: its routers with their entities, the objects that carry them, and the verdict on each resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from waymesh_operator.specs import Ref, Resources

from .context import ClusterContext, Verdict
from .mesh import DesiredMesh
from .objects import Manifest


@dataclass(frozen=True, slots=True)
class DesiredCluster:
    """All that should be for one Router.

    `objects` are full manifests in the order in which to apply them, the StatefulSet last. `verdicts` has an entry for
    the Router and each resource that refers to it. `placements` says for each entity name that is not on all routers, on
    which it is. With `stalled` (a reason, for a person) nothing can be done and nothing is.
    """

    mesh: DesiredMesh
    objects: tuple[Manifest, ...]
    verdicts: Mapping[tuple[str, Ref], Verdict]
    uid: str = ""
    size: int = 0
    stalled: str = ""
    restart_pending: str = ""
    placements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def desired_cluster(resources: Resources, context: ClusterContext) -> DesiredCluster:
    """What should be, from the resources and what is outside our hands."""
    raise NotImplementedError
