"""From what should be and what is to what must be done. Pure."""

from __future__ import annotations

from .actions import (
    Action,
    ApplyObject,
    ClusterAction,
    CreateEntity,
    CreateRouter,
    DeleteEntity,
    DeleteObject,
    DrainRouter,
    EntityAction,
    QuiesceEntity,
    RestartRouter,
    Scale,
    StopRouter,
    UndrainRouter,
    UpdateEntity,
    WriteSeed,
)
from .cluster import Drift, drift, plan_cluster
from .needs import needs_apply
from .observed import (
    NO_TROUBLE,
    ObservedCluster,
    ObservedMesh,
    ObservedRouter,
    RouterFacts,
    RouterState,
    Trouble,
)
from .planner import plan

__all__ = [
    "NO_TROUBLE",
    "Action",
    "ApplyObject",
    "ClusterAction",
    "CreateEntity",
    "CreateRouter",
    "DeleteEntity",
    "DeleteObject",
    "DrainRouter",
    "Drift",
    "EntityAction",
    "ObservedCluster",
    "ObservedMesh",
    "ObservedRouter",
    "QuiesceEntity",
    "RestartRouter",
    "RouterFacts",
    "RouterState",
    "Scale",
    "StopRouter",
    "Trouble",
    "UndrainRouter",
    "UpdateEntity",
    "WriteSeed",
    "drift",
    "needs_apply",
    "plan",
    "plan_cluster",
]
